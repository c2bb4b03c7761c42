use super::super::sample::*;
use super::*;
use crate::rules::{Rule, Unit};
use serde_json::{Value as Json, json};

/// Metadata as JSON, which is easier to read.
fn as_json(fields: Struct) -> Json {
    Json::Object(fields.fields.into_iter().map(|(name, v)| (name, value_as_json(v))).collect())
}

fn value_as_json(value: Value) -> Json {
    match value.kind.unwrap() {
        Kind::NullValue(_) => Json::Null,
        Kind::BoolValue(truth) => truth.into(),
        Kind::NumberValue(number) => number.into(),
        Kind::StringValue(text) => text.into(),
        Kind::ListValue(list) => list.values.into_iter().map(value_as_json).collect(),
        Kind::StructValue(fields) => as_json(fields),
    }
}

fn metadata(json: &Json) -> Map {
    let Json::Object(fields) = json else { panic!("metadata is a map") };
    fields.iter().map(|(name, value)| (name.clone(), rule_value(value))).collect()
}

fn rule_value(json: &Json) -> RuleValue {
    match json {
        Json::Null => RuleValue::Null,
        Json::Bool(truth) => RuleValue::Bool(*truth),
        Json::Number(number) => RuleValue::Number(number.as_f64().unwrap()),
        Json::String(text) => RuleValue::Text(text.clone()),
        Json::Array(values) => RuleValue::List(values.iter().map(rule_value).collect()),
        Json::Object(_) => RuleValue::Map(metadata(json)),
    }
}

fn rule_with(path: &str, line: u32, carries: &Json) -> Rule {
    Rule { metadata: Some(metadata(carries).into()), ..rule(path, line) }
}

fn minute() -> crate::limiter::StatusLimit {
    limit(10, Unit::Minute, "")
}

#[test]
fn metadata_says_what_was_asked_and_which_rule_answered() {
    // Vector 115 and what design adds.
    let mut asked = request(&[&[("path", "/a"), ("user", "")], &[("k", "v")]]);
    asked.hits_addend = 5;
    asked.descriptors[1].hits_addend = Some(0);
    asked.descriptors[1].limit =
        Some(RateLimitOverride { requests_per_unit: 3, unit: 7, unit_multiplier: Some(2) });
    let rules = rules(None, vec![rule("shop.path.user", 12)]);
    let never = Status { never_fits: true, ..refused(minute(), 60) };
    let statuses = [by_rule(0, never), passed(minute(), 1, 1)];
    let metadata =
        of(&asked, Decided { code: Code::OverLimit, statuses: &statuses, rules: &rules });
    assert_eq!(
        as_json(metadata),
        json!({
            "domain": "shop",
            "hitsAddend": 5.0,
            "descriptors": [
                {
                    "entries": ["path=/a", "user="],
                    "code": "OVER_LIMIT",
                    "decidedBy": "store",
                    "neverFits": true,
                    "rule": "shop.path.user",
                    "source": "shop.yaml:12",
                },
                {
                    "entries": ["k=v"],
                    "limit": "requests_per_unit:3 unit:WEEK unit_multiplier:{value:2}",
                    "hitsAddend": 0.0,
                    "code": "OK",
                    "decidedBy": "store",
                },
            ],
        })
    );
}

#[test]
fn a_descriptor_without_limit_says_so() {
    let asked = request(&[&[("a", "b")], &[]]);
    let metadata = of(&asked, decided(Code::Ok, &[unmatched(), unlimited()]));
    assert_eq!(
        as_json(metadata),
        json!({
            "domain": "shop",
            "descriptors": [
                { "entries": ["a=b"], "code": "OK", "decidedBy": "no_limit" },
                { "entries": [], "code": "OK", "decidedBy": "unlimited" },
            ],
        })
    );
}

#[test]
fn a_descriptor_that_the_store_did_not_decide_says_so() {
    use crate::limiter::DecidedBy;
    use crate::rules::FailureMode;
    use crate::store::StoreError;
    let (mode, reason) = (FailureMode::Local, StoreError::BreakerOpen);
    let decided_by = DecidedBy::Fallback { mode, reason };
    let statuses = [Status { decided_by, ..passed(minute(), 1, 1) }];
    let metadata = of(&request(&[&[]]), decided(Code::Ok, &statuses));
    let shown = json!({
        "entries": [], "code": "OK", "decidedBy": "local", "storeFailure": "breaker_open",
    });
    assert_eq!(as_json(metadata)["descriptors"], json!([shown]));
}

/// Checks the `metadata` field for rules that carry these, with these statuses.
fn check_merged(carried: &[Json], statuses: &[Status], expected: Option<&Json>) {
    let carriers = carried.iter().map(|json| rule_with("shop.k", 1, json)).collect();
    let rules = rules(None, carriers);
    let asked = request(&[&[], &[]]);
    let decided = Decided { code: Code::Ok, statuses, rules: &rules };
    let mut fields = of(&asked, decided).fields;
    assert_eq!(fields.remove("metadata").map(value_as_json).as_ref(), expected);
}

#[test]
fn only_rules_that_let_pass_hand_their_metadata_out() {
    // Vector 113.
    let carried = [json!({ "name": "service_1" }), json!({ "name": "service_2" })];
    let one_over =
        [by_rule(0, as_quota(passed(minute(), 1, 1))), by_rule(1, as_quota(refused(minute(), 1)))];
    check_merged(&carried, &one_over, Some(&carried[0]));
    let reversed = [one_over[1].clone(), one_over[0].clone()];
    check_merged(&carried, &reversed, Some(&carried[0]));
    let shadowed = [by_rule(1, in_shadow(refused(minute(), 1)))];
    check_merged(&carried, &shadowed, Some(&carried[1]));
    check_merged(&carried, &[by_rule(0, unlimited()), by_rule(1, unmatched())], None);
    check_merged(&carried, &[by_rule(0, refused(minute(), 1))], None);
}

#[test]
fn metadata_is_merged_and_the_first_wins() {
    // Vector 114.
    let carried = [
        json!({ "a": 1.0, "same": "first", "deep": { "x": [null, true], "same": 1.0 } }),
        json!({ "b": 2.0, "same": "second", "deep": { "y": "z", "same": 2.0 } }),
    ];
    let both = [by_rule(0, passed(minute(), 1, 1)), by_rule(1, passed(minute(), 1, 1))];
    let expected = json!({
        "a": 1.0,
        "b": 2.0,
        "same": "first",
        "deep": { "x": [null, true], "y": "z", "same": 1.0 },
    });
    check_merged(&carried, &both, Some(&expected));
}

#[test]
fn metadata_is_there_only_when_asked_for() {
    use super::super::{Options, respond::response};
    let asked = request(&[&[]]);
    let statuses = [unmatched()];
    let with = |dynamic_metadata| {
        let options = Options { dynamic_metadata, ..Options::default() };
        response(&asked, decided(Code::Ok, &statuses), &options).dynamic_metadata
    };
    assert_eq!(with(false), None);
    assert!(with(true).is_some());
}
