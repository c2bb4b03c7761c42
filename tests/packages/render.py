"""Lints the chart and prints what it makes of values that come as JSON by standard input.

Arguments: the chart, the name of the release, its namespace. Exits with 1 and the reasons if Helm refuses.
"""

import json
import sys

import helm_python as helm

ERROR = 3


def main(path, name, namespace):
    values = json.load(sys.stdin)
    report = helm.lint(path, values, namespace=namespace)
    faults = [m["error"] for m in report["messages"] if m["severity"] == ERROR] + report["errors"]
    if faults:
        sys.exit("\n".join(faults))
    try:
        with helm.Chart.load(path) as chart:
            chart.validate_schema(values)
            made = chart.render(values, name=name, namespace=namespace)
    except helm.HelmError as error:
        sys.exit(str(error))
    for template, text in sorted(made.items()):
        if template.endswith(".yaml") and text.strip():
            print(f"---\n{text}")


main(*sys.argv[1:])
