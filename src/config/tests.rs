use super::manifest::{self, Manifests};
use super::shape::{self, KEYS, Key};
use super::yaml::{self, Shift};
use super::*;
use std::collections::BTreeSet;

fn text(text: &str) -> Raw {
    Raw { place: Place::default(), value: RawValue::Text(text.into()) }
}

fn map<const N: usize>(entries: [(&str, Raw); N]) -> Raw {
    let entry = |(key, value)| RawEntry { key: text(key), value };
    Raw { place: Place::default(), value: RawValue::Map(entries.map(entry).into()) }
}

fn list<const N: usize>(items: [Raw; N]) -> Raw {
    Raw { place: Place::default(), value: RawValue::List(items.into()) }
}

fn document(domain: &str, unit: &str) -> Document {
    let requests = Raw { place: Place::default(), value: RawValue::Integer(5, "5".into()) };
    let limit = map([("unit", text(unit)), ("requests_per_unit", requests)]);
    let descriptors = list([map([("key", text("user")), ("rate_limit", limit)])]);
    let file = Arc::new(SourceFile::new("team-a/policy", String::new()));
    Document { file, raw: map([("domain", text(domain)), ("descriptors", descriptors)]) }
}

fn keys_of(raw: &Raw, keys: &mut BTreeSet<String>) {
    match &raw.value {
        RawValue::Map(entries) => {
            for entry in entries {
                keys.extend(entry.name().map(str::to_owned));
                keys_of(&entry.value, keys);
            }
        }
        RawValue::List(items) => items.iter().for_each(|item| keys_of(item, keys)),
        RawValue::Null
        | RawValue::Bool(..)
        | RawValue::Integer(..)
        | RawValue::Float(_)
        | RawValue::Text(_) => {}
    }
}

#[track_caller]
fn uses_every_key(file: &str, keys: &[Key]) {
    let text = std::fs::read_to_string(file).unwrap();
    let mut used = BTreeSet::new();
    for raw in yaml::parse(&text, Shift::default()).documents {
        keys_of(&raw, &mut used);
    }
    let missing: Vec<_> = keys.iter().filter(|key| !used.contains(key.name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_reference_files_use_every_key_of_their_language() {
    uses_every_key("config/reference.yaml", KEYS);
    uses_every_key("config/idempotency.yaml", shape::idempotency::KEYS);
}

#[test]
fn the_page_about_policies_lists_every_key() {
    let page = include_str!("../../docs/policies.md");
    let (_, table) = page.split_once("\n## Every key\n").unwrap();
    let table = table.split("\n## ").next().unwrap();
    for key in KEYS {
        assert!(table.contains(&format!("`{}`", key.name)), "{} is not in the table", key.name);
    }
}

#[test]
fn trees_without_places_compile_as_files_do() {
    let loaded =
        compile(&[document("shop", "minute")], "1".to_owned(), &Options::default()).unwrap();
    assert_eq!(&*loaded.rules.rules[0].path, "shop.user");
    assert_eq!(&*loaded.rules.rules[0].source.file, "team-a/policy");
}

#[test]
fn faults_without_places_name_the_resource() {
    let report =
        compile(&[document("shop", "minutes")], "1".to_owned(), &Options::default()).unwrap_err();
    let first = report.to_string().lines().next().unwrap().to_owned();
    assert!(
        first.starts_with("team-a/policy: error: invalid rate limit unit 'minutes'"),
        "{first}"
    );
}

#[test]
fn a_list_of_manifests_is_opened() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  data:\n    a.yaml: |\n      domain: shop\n";
    let file = Arc::new(SourceFile::new("list.yaml", text.to_owned()));
    let mut faults = Vec::new();
    let documents = manifest::documents(&file, Manifests::Open, &mut faults);
    assert_eq!(faults, []);
    let domain = documents[0].raw.get("domain").unwrap();
    assert_eq!((domain.text(), domain.place), (Some("shop"), Place { line: 8, column: 15 }));
}

#[test]
fn a_text_at_the_end_of_a_file_needs_no_line_break() {
    let parsed = yaml::parse("domain: |\n  shop", Shift::default());
    assert_eq!(parsed.documents[0].get("domain").unwrap().text(), Some("shop"));
}

#[test]
fn tags_decide_what_a_scalar_is() {
    let parsed = yaml::parse("a: !!str 404\nb: !!int '5'\nc: !mine 7\n", Shift::default());
    let value = |key| parsed.documents[0].get(key).unwrap().value.clone();
    assert_eq!(value("a"), RawValue::Text("404".into()));
    assert_eq!(value("b"), RawValue::Integer(5, "5".into()));
    assert_eq!(value("c"), RawValue::Text("7".into()));
}

#[track_caller]
fn is_a_bomb(text: &str) {
    let parsed = yaml::parse(text, Shift::default());
    assert_eq!(parsed.documents, []);
    let [(_, fault)] = parsed.faults.as_slice() else { panic!("{:?}", parsed.faults) };
    assert_eq!(fault, "anchors and aliases up to here make more than 128 MiB of values");
}

#[test]
fn anchors_within_anchors_are_bounded() {
    let (opened, closed) = ("&a [".repeat(100), "]".repeat(100));
    is_a_bomb(&format!("{opened}{}{closed}", "x,".repeat(50_000)));
}

#[test]
fn repeated_texts_and_keys_are_bounded() {
    let long = "x".repeat(100_000);
    is_a_bomb(&format!("[&a {long}, {}]", "*a,".repeat(2_000)));
    is_a_bomb(&format!("[&a {{? {long} : 1}}, {}]", "*a,".repeat(2_000)));
}

#[test]
fn lines_end_as_yaml_ends_them() {
    let file = SourceFile::new("a", "one\r\ntwo\rthree\nfour".to_owned());
    let lines: Vec<_> = (0..6).map(|number| file.line(number)).collect();
    assert_eq!(lines, [None, Some("one"), Some("two"), Some("three"), Some("four"), None]);
}
