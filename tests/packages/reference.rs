//! Names as the reference page lists them, which other tests compare with the code.

use crate::read;
use std::collections::BTreeSet;

/// Every setting.
pub fn settings() -> BTreeSet<String> {
    let rows = rows("## Settings");
    rows.into_iter().map(|row| row[0].clone()).collect()
}

/// Every series, with what Prometheus makes of histograms, and those of the process.
pub fn series() -> BTreeSet<String> {
    let mut all: BTreeSet<String> = [
        "process_cpu_seconds_total",
        "process_max_fds",
        "process_open_fds",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
        "process_threads",
        "process_virtual_memory_bytes",
    ]
    .map(str::to_owned)
    .into();
    for row in rows("## Metrics") {
        if row[1] == "histogram" {
            all.extend(["bucket", "count", "sum"].map(|part| format!("{}_{part}", row[0])));
        } else {
            all.insert(row[0].clone());
        }
    }
    all
}

/// Every label of a series, and what Prometheus adds.
pub fn labels() -> BTreeSet<String> {
    let rows = rows("## Metrics");
    let own = rows.iter().flat_map(|row| row[2].split('`')).map(str::trim);
    own.chain(["instance", "le"]).filter(|label| !label.is_empty()).map(str::to_owned).collect()
}

/// Rows of the tables below a heading that begin with a name: the name, then the other cells.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let page = read("docs/reference.md");
    let (_, below) = page.split_once(&format!("\n{heading}\n")).unwrap();
    let section = below.split("\n## ").next().unwrap();
    let cells = |line: &str| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` |")?;
        let rest = rest.split('|').map(|cell| cell.trim().to_owned());
        Some(std::iter::once(name.to_owned()).chain(rest).collect())
    };
    let rows: Vec<Vec<String>> = section.lines().filter_map(cells).collect();
    assert!(!rows.is_empty(), "{heading}");
    rows
}
