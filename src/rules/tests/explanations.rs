//! What an operator is told.

use super::matching::basic;
use super::*;

#[track_caller]
fn check(set: &RuleSet, pairs: &[&str], expected: &str) {
    let text = explain(set, set.only_domain(), &entries(pairs)).to_string();
    assert_eq!(text.trim_end(), expected, "{pairs:?}");
}

#[test]
fn an_exact_match_names_rule_limit_and_bucket() {
    check(
        &basic(),
        &["key1=value1", "subkey1=something"],
        "\
1. `key1=value1`: answered by `key1=value1`, the exact value
2. `subkey1=something`: answered by `subkey1`, which takes any value
rule `test-domain.key1_value1.subkey1` (rules.yaml:1)
   5 per second, fixed_window, window 1 s from epoch, in a store failure: local
   bucket {test-domain|key1=value1|subkey1=something}:fixed_window/epoch/1",
    );
}

#[test]
fn a_pattern_names_its_place_and_every_limit_is_listed() {
    let bucket = Defaults {
        algorithm: Algorithm::TokenBucket,
        burst: Some(20),
        failure_mode: FailureMode::Closed,
        ..defaults()
    };
    let mut named = bucket.limit(10, Unit::Second, 1).unwrap();
    named.name = "short".into();
    let limits = [named, defaults().limit(1000, Unit::Hour, 12).unwrap()];
    let set = rule_set(
        "shop",
        [
            pair("path", "/img/*").per(1, Unit::Minute),
            key("path").per(1, Unit::Minute),
            pair("path", "/api/*").shared().limits(limits),
        ],
    );
    check(
        &set,
        &["path=/api/v1"],
        "\
1. `path=/api/v1`: answered by `path=/api/*`, the first pattern that matches (number 2 of 2 in the file)
rule `shop.path_/api/*` (rules.yaml:3)
   `short`: 10 per second, token_bucket, window 1 s, burst 20, in a store failure: closed
   bucket {shop|path=/api/*}:token_bucket/1
   1000 per 12 hours, fixed_window, window 43200 s from epoch, in a store failure: local
   bucket {shop|path=/api/*}:fixed_window/epoch/43200",
    );
}

#[test]
fn modes_and_unlimited_rules_are_named() {
    let mut set = rule_set("d", [key("a").per(1, Unit::Minute), key("b").unlimited()]);
    set.rules[0].shadow_mode = true;
    set.rules[0].quota_mode = true;
    let text = explain(&set, set.only_domain(), &entries(&["a=1"])).to_string();
    assert!(text.contains("shadow mode") && text.contains("quota mode"), "{text}");
    check(
        &set,
        &["b=1"],
        "\
1. `b=1`: answered by `b`, which takes any value
rule `d.b` (rules.yaml:2): unlimited, always passes",
    );
}

#[test]
fn a_node_without_a_limit_lets_its_value_pass() {
    check(
        &basic(),
        &["key2=value3"],
        "\
1. `key2=value3`: answered by `key2=value3`, the exact value
no limit: a node without a limit stands exactly here, so this always passes
hint: `key2` would lead to rule `test-domain.key2` (rules.yaml:3), but `key2=value3` goes before it, and there is no way back",
    );
}

#[test]
fn a_request_that_ends_too_early_is_told_what_to_add() {
    check(
        &basic(),
        &["key1=value1"],
        "\
1. `key1=value1`: answered by `key1=value1`, the exact value
no limit: rules stand deeper, the request needs one more entry: `subkey1`, `subkey1=subvalue1`",
    );
}

#[test]
fn a_request_that_goes_too_deep_is_told_what_to_drop() {
    check(
        &basic(),
        &["key2=value2", "subkey=subvalue"],
        "\
1. `key2=value2`: answered by `key2=value2`, the exact value
2. `subkey=subvalue`: no match
no limit: the policy ends after 1 entry here, the request goes deeper
hint: without `subkey=subvalue` rule `test-domain.key2_value2` (rules.yaml:4) would answer: every entry must match",
    );
}

#[test]
fn swapped_entries_are_told_their_order() {
    check(
        &basic(),
        &["subkey1=x", "key1=value1"],
        "\
1. `subkey1=x`: no match
no limit: nothing in the policy matches the last entry above
hint: the order of entries matters, rule `test-domain.key1_value1.subkey1` (rules.yaml:1) expects: `key1=value1`, `subkey1=x`",
    );
}

#[test]
fn letter_case_and_white_space_are_told_apart() {
    let set = rule_set("d", [pair("user", "Bob").per(1, Unit::Minute)]);
    check(
        &set,
        &["User=bob"],
        "\
1. `User=bob`: no match
no limit: nothing in the policy matches the last entry above
hint: `User=bob` differs from `user=Bob` in letter case only, which matters",
    );
    check(
        &set,
        &["user=Bob "],
        "\
1. `user=Bob `: no match
no limit: nothing in the policy matches the last entry above
hint: `user=Bob ` differs from `user=Bob` in white space only, which matters",
    );
}

#[test]
fn a_default_that_answers_for_a_misspelt_value_is_pointed_out() {
    let text = explain(&basic(), basic().only_domain(), &entries(&["key2=VALUE2"])).to_string();
    assert!(text.contains("rule `test-domain.key2` (rules.yaml:3)"), "{text}");
    assert!(
        text.contains("hint: `key2=VALUE2` differs from `key2=value2` in letter case"),
        "{text}"
    );
}

#[test]
fn unknown_keys_and_values_are_told_their_neighbours() {
    check(
        &basic(),
        &["keey3=x"],
        "\
1. `keey3=x`: no match
no limit: nothing in the policy matches the last entry above
hint: there is no key `keey3` here, did you mean `key3`?",
    );
    check(
        &basic(),
        &["remote_address=x"],
        "\
1. `remote_address=x`: no match
no limit: nothing in the policy matches the last entry above
hint: there is no key `remote_address` here, only: `key1`, `key2`, `key3`, `key4`, `key5` and 2 more",
    );
    check(
        &basic(),
        &["key5=valua4"],
        "\
1. `key5=valua4`: no match
no limit: nothing in the policy matches the last entry above
hint: `key5` has no rule for any value, only for: `value5`",
    );
}

#[test]
fn an_empty_descriptor_has_no_limit() {
    check(&basic(), &[], "no limit: the descriptor has no entries");
}
