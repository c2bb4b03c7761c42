//! The alerts raise what they should, and neither they nor the dashboard ask for what is not there.

use crate::support::markdown::anchors;
use crate::{project, read, reference, succeeds};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use tempfile::TempDir;

/// Words of `PromQL` that stand where a series could.
const WORDS: [&str; 8] = ["and", "count", "group", "max", "min", "or", "sum", "unless"];
/// Those before a list of labels.
const BEFORE_LABELS: [&str; 4] = ["by", "on", "ignoring", "without"];

fn promtool(arguments: &[&str]) -> String {
    let unpacked = project(".tools/prometheus/usr/bin/promtool");
    let mut command =
        if unpacked.exists() { Command::new(unpacked) } else { Command::new("promtool") };
    succeeds(command.args(arguments).current_dir(project("examples/prometheus")))
}

fn dashboard() -> Value {
    serde_json::from_str(&read("examples/prometheus/dashboard.json")).unwrap()
}

fn alerts() -> Vec<Value> {
    let text = read("examples/prometheus/alerts.yaml");
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    let groups = file["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

/// The texts under a key, anywhere below.
fn texts_of<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(key).and_then(Value::as_str));
            fields.values().for_each(|value| texts_of(value, key, found));
        }
        Value::Array(values) => values.iter().for_each(|value| texts_of(value, key, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Every query of the dashboard; Grafana fills in the window.
fn queries(dashboard: &Value) -> Vec<String> {
    let mut found = Vec::new();
    texts_of(dashboard, "expr", &mut found);
    assert!(found.len() > 50, "{}", found.len());
    found.iter().map(|query| query.replace("$__rate_interval", "5m")).collect()
}

/// What a query names: its series, its labels, and the values that it wants of them.
#[derive(Debug, Default, PartialEq)]
struct Named {
    series: BTreeSet<String>,
    labels: BTreeSet<String>,
    values: BTreeSet<String>,
}

impl Named {
    fn by(query: &str) -> Self {
        let mut named = Self::default();
        let mut rest = query;
        let mut labels_follow = false;
        while let Some(first) = rest.chars().next() {
            let length = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
            if length == 0 {
                rest = match first {
                    '{' => named.take_labels(rest, '}'),
                    '(' if labels_follow => named.take_labels(rest, ')'),
                    '[' => rest.split_once(']').unwrap().1,
                    _ => &rest[first.len_utf8()..],
                };
                labels_follow &= first == ' ';
                continue;
            }
            let word;
            (word, rest) = rest.split_at(length);
            labels_follow = BEFORE_LABELS.contains(&word);
            let is_series = !first.is_ascii_digit()
                && !labels_follow
                && !WORDS.contains(&word)
                && !rest.starts_with('(');
            if is_series {
                named.series.insert(word.to_owned());
            }
        }
        named
    }

    /// The labels of a list, and what follows it.
    fn take_labels<'a>(&mut self, list: &'a str, end: char) -> &'a str {
        let (inside, rest) = list[1..].split_once(end).unwrap();
        for part in inside.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            self.labels.insert(part.split(['=', '!']).next().unwrap().to_owned());
            let value = part.split_once("=\"").map(|(_, value)| value.trim_end_matches('"'));
            self.values.extend(value.map(str::to_owned));
        }
        rest
    }

    #[track_caller]
    fn is_there(&self, whose: &str) {
        let unknown: Vec<_> = self.series.difference(&series()).cloned().collect();
        assert!(unknown.is_empty(), "{whose}: there is no series {unknown:?}");
        let unknown: Vec<_> = self.labels.difference(&reference::labels()).cloned().collect();
        assert!(unknown.is_empty(), "{whose}: there is no label {unknown:?}");
        let page = read("docs/reference.md");
        for value in &self.values {
            assert!(page.contains(&format!("`{value}`")), "{whose}: there is no value {value}");
        }
    }
}

fn is_part(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_:.".contains(character)
}

fn series() -> BTreeSet<String> {
    reference::series()
}

#[test]
fn series_and_labels_are_found_in_every_form() {
    let check = |query: &str, series: &[&str], labels: &[&str], values: &[&str]| {
        let texts = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let expected =
            Named { series: texts(series), labels: texts(labels), values: texts(values) };
        assert_eq!(Named::by(query), expected, "{query}");
    };
    check("a == 1", &["a"], &[], &[]);
    check("increase(a_total[5m]) > 0.5", &["a_total"], &[], &[]);
    check(
        "sum by (x, y) (rate(a{b=\"c\",d=~\"$e\"}[5m])) / c",
        &["a", "c"],
        &["b", "d", "x", "y"],
        &["c"],
    );
    check("a > 2 * sum by (x) (b) and on (y) c", &["a", "b", "c"], &["x", "y"], &[]);
    check("a and on () b", &["a", "b"], &[], &[]);
    check("absent(a) or count(count by (x) (b)) > 1", &["a", "b"], &["x"], &[]);
}

#[test]
fn the_alerts_raise_what_their_tests_say() {
    promtool(&["check", "rules", "alerts.yaml"]);
    promtool(&["test", "rules", "alerts-test.yaml"]);
}

#[test]
fn every_alert_has_a_test_of_its_name() {
    let tests: Value =
        serde_saphyr::from_str(&read("examples/prometheus/alerts-test.yaml")).unwrap();
    let tests = tests["tests"].as_array().unwrap();
    let tested: BTreeSet<_> = tests.iter().map(|test| test["name"].as_str().unwrap()).collect();
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap();
        assert!(tested.contains(name), "{name} has no test");
    }
}

#[test]
fn every_alert_says_how_grave_it_is_and_what_to_read() {
    for alert in alerts() {
        let severity = alert["labels"]["severity"].as_str().unwrap();
        assert!(["critical", "warning"].contains(&severity), "{alert}");
        let note =
            |name: &str| alert["annotations"][name].as_str().unwrap_or_else(|| panic!("{alert}"));
        assert!(!note("summary").is_empty() && !note("description").is_empty(), "{alert}");
        let (page, section) = note("runbook").split_once('#').unwrap();
        assert!(anchors(&read(page)).contains(section), "{page} has no section {section}");
    }
}

#[test]
fn the_alerts_ask_for_series_that_there_are() {
    for alert in alerts() {
        Named::by(alert["expr"].as_str().unwrap()).is_there(alert["alert"].as_str().unwrap());
    }
}

#[test]
fn the_dashboard_asks_for_series_that_there_are() {
    let dashboard = dashboard();
    for query in queries(&dashboard) {
        Named::by(&query).is_there(&query);
    }
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    for variable in variables.iter().filter(|variable| variable["type"] == "query") {
        let query = variable["query"]["query"].as_str().unwrap();
        let inside = query.strip_prefix("label_values(").unwrap().trim_end_matches(')');
        let (name, label) = inside.split_once(", ").unwrap();
        Named::by(&format!("sum by ({label}) ({name})")).is_there(query);
    }
}

#[test]
fn the_dashboard_shows_every_series_of_redis_and_idempotency() {
    let shown: BTreeSet<_> =
        queries(&dashboard()).iter().flat_map(|q| Named::by(q).series).collect();
    let unshown: Vec<_> = series()
        .into_iter()
        .filter(|name| !name.ends_with("_sum") && !name.ends_with("_count"))
        .filter(|name| name.starts_with("tidegate_") && !shown.contains(name))
        .collect();
    let left_out = [
        "tidegate_idempotency_redis_calls_total",
        "tidegate_idempotency_redis_connections",
        "tidegate_rule_limit",
        "tidegate_store_info",
    ];
    assert_eq!(unshown, left_out);
}

#[test]
fn every_query_of_the_dashboard_is_promql() {
    // The same rule twice would be a fault: the number tells them apart.
    let rule = |(n, query): (usize, String)| json!({ "record": "shown", "expr": query, "labels": { "query": n.to_string() } });
    let rules: Vec<_> = queries(&dashboard()).into_iter().enumerate().map(rule).collect();
    let n_rules = rules.len();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("queries.yaml");
    let file = json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    fs::write(&path, file.to_string()).unwrap();
    let printed = promtool(&["check", "rules", path.to_str().unwrap()]);
    assert!(printed.contains(&format!("{n_rules} rules found")), "{printed}");
}

#[test]
fn panels_have_numbers_of_their_own_lie_side_by_side_and_use_the_chosen_data_source() {
    let dashboard = dashboard();
    let mut sources = Vec::new();
    texts_of(&dashboard, "uid", &mut sources);
    sources.retain(|source| *source != "tidegate");
    assert!(sources.iter().all(|source| *source == "${datasource}"), "{sources:?}");

    let mut numbers = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(numbers.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let [x, y, w, h] =
            ["x", "y", "w", "h"].map(|name| panel["gridPos"][name].as_u64().unwrap());
        for place in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(place.0 < 24 && taken.insert(place), "{panel}");
        }
    }
}
