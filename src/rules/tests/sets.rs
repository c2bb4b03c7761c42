//! Rule sets, refusal bodies and metadata.

use super::*;

#[test]
fn domains_are_listed_by_name_and_rules_found_by_id() {
    let mut set = rule_set("z", [pair("a", "1").per(1, Unit::Minute), key("c").unlimited()]);
    set.domains.insert("a".into(), domain("a"));
    let names: Vec<_> = set.sorted_domains().into_iter().map(|domain| &*domain.name).collect();
    assert_eq!(names, ["a", "z"]);
    let paths = [0, 1, 2].map(|id| set.rule(RuleId(id)).map(|rule| &*rule.path));
    assert_eq!(paths, [Some("z.a_1"), Some("z.c"), None]);
}

#[track_caller]
fn check_body(template: &str, rule: &str, expected: &str) {
    let body = DeniedBody { template: template.into(), content_type: None };
    assert_eq!(body.render(rule, 10, 49), expected);
}

#[test]
fn a_refusal_body_names_rule_limit_and_reset() {
    check_body("{rule}: {limit}, again in {reset} s", "shop.ip", "shop.ip: 10, again in 49 s");
    check_body("{rule}{rule}", "r", "rr");
    check_body("", "r", "");
}

#[test]
fn other_braces_of_a_body_stay() {
    check_body(r#"{"error": {"limit": {limit}}}"#, "r", r#"{"error": {"limit": 10}}"#);
    check_body("{rule", "r", "{rule");
    check_body("{Rule} {} {{rule}}", "r", "{Rule} {} {r}");
}

#[test]
fn what_is_filled_in_is_not_filled_in_again() {
    check_body("{rule} {limit}", "{limit}", "{limit} 10");
}

fn map<const N: usize>(values: [(&str, Value); N]) -> Map {
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[test]
fn the_first_descriptors_metadata_wins_and_maps_merge() {
    let text = |text: &str| Value::Text(text.to_owned());
    let inner = map([("a", text("first")), ("deep", Value::Map(map([("x", Value::Null)])))]);
    let first = map([("name", text("one")), ("inner", Value::Map(inner)), ("odd", Value::Null)]);
    let inner = map([
        ("a", text("second")),
        ("b", Value::Bool(true)),
        ("deep", Value::Map(map([("x", Value::Number(1.0)), ("y", Value::Number(2.0))]))),
    ]);
    let second = map([
        ("name", Value::Map(map([]))),
        ("inner", Value::Map(inner)),
        ("odd", Value::Map(map([("z", Value::Null)]))),
        ("more", Value::List(vec![Value::Null])),
    ]);
    let mut merged = Map::new();
    merge(&mut merged, &first);
    merge(&mut merged, &second);
    let deep = map([("x", Value::Null), ("y", Value::Number(2.0))]);
    let inner = map([("a", text("first")), ("b", Value::Bool(true)), ("deep", Value::Map(deep))]);
    let expected = map([
        ("name", text("one")),
        ("inner", Value::Map(inner)),
        ("odd", Value::Null),
        ("more", Value::List(vec![Value::Null])),
    ]);
    assert_eq!(merged, expected);
}
