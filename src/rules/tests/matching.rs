//! Which rule answers a descriptor.

use super::*;
use Unit::{Day, Hour, Minute, Second};

/// The tree that the old server's own tests use.
pub(super) fn basic() -> RuleSet {
    let sub = [key("subkey1").per(5, Second), pair("subkey1", "subvalue1").per(10, Second)];
    rule_set(
        "test-domain",
        [
            pair("key1", "value1").over(sub),
            key("key2").per(20, Minute),
            pair("key2", "value2").per(30, Minute),
            pair("key2", "value3"),
            key("key3").per(1, Hour),
            key("key4").per(1, Day),
            pair("key5", "value5").per(15, Day).over([pair("subkey5", "subvalue5").per(25, Day)]),
            key("key6").unlimited(),
            key("key7").per(70, Minute).detailed(),
        ],
    )
}

#[track_caller]
fn check(set: &RuleSet, pairs: &[&str], path: Option<&str>) {
    assert_eq!(set.path_for(pairs), path, "{pairs:?}");
}

#[test]
fn a_rule_answers_only_where_its_path_ends() {
    let set = basic();
    let none: [&[&str]; 9] = [
        &[],
        &["key1=something"],
        &["key1=value1"],
        &["key2=value2", "subkey=subvalue"],
        &["key5=value5", "subkey5=subvalue"],
        &["key5=value5", "subkey5=subvalue5", "more=1"],
        &["key2=value3"],
        &["subkey1=subvalue1", "key1=value1"],
        &["KEY2=value2"],
    ];
    for pairs in none {
        check(&set, pairs, None);
    }
    check(&set, &["key1=value1", "subkey1=something"], Some("test-domain.key1_value1.subkey1"));
    check(
        &set,
        &["key1=value1", "subkey1=subvalue1"],
        Some("test-domain.key1_value1.subkey1_subvalue1"),
    );
    check(&set, &["key2=something"], Some("test-domain.key2"));
    check(&set, &["key2=value2"], Some("test-domain.key2_value2"));
    check(&set, &["key2=VALUE2"], Some("test-domain.key2"));
    check(&set, &["key3=foo"], Some("test-domain.key3"));
    check(&set, &["key4=foo"], Some("test-domain.key4"));
    check(&set, &["key5=value5"], Some("test-domain.key5_value5"));
    check(&set, &["key6=foo"], Some("test-domain.key6"));
    check(&set, &["key7=anything"], Some("test-domain.key7"));
}

#[test]
fn an_empty_tree_answers_nothing() {
    check(&rule_set("d", []), &["a=b"], None);
    check(&rule_set("d", []), &[], None);
}

#[test]
fn an_unlimited_rule_is_a_rule() {
    let set = basic();
    let matched = set.only_domain().find(&entries(&["key6=foo"])).unwrap();
    assert!(matches!(set.rule(matched.rule).unwrap().allows, Allows::Unlimited { .. }));
}

#[test]
fn key_and_value_are_never_joined() {
    let set = rule_set("d", [pair("a", "b_c").per(1, Minute), key("k_").per(2, Minute)]);
    check(&set, &["a_b=c"], None);
    check(&set, &["k="], None);
    let set = rule_set("d", [key("a_b").per(1, Minute)]);
    check(&set, &["a=b"], None);
    let set = rule_set("d", [pair("k", "x*").per(1, Minute)]);
    check(&set, &["k_x=y"], None);
}

#[test]
fn an_empty_value_reaches_the_star_or_else_the_default() {
    let set = rule_set("d", [key("k").per(2, Minute), pair("k", "x").per(1, Minute)]);
    check(&set, &["k="], Some("d.k"));
    let set = rule_set("d", [key("k").per(2, Minute), pair("k", "*").per(1, Minute)]);
    check(&set, &["k="], Some("d.k_*"));
    let set = rule_set("d", [pair("k", "x").per(1, Minute)]);
    check(&set, &["k="], None);
    check(&set, &["=x"], None);
    check(&set, &["="], None);
}

#[test]
fn exact_goes_before_pattern_and_pattern_before_default() {
    let set = rule_set(
        "d",
        [
            key("path").per(1, Minute),
            pair("path", "/api/*").per(1, Minute),
            pair("path", "/api/v1/*").per(2, Minute),
            pair("path", "/api/v1/x").per(9, Minute),
        ],
    );
    check(&set, &["path=/api/v1/x"], Some("d.path_/api/v1/x"));
    check(&set, &["path=/api/v1/y"], Some("d.path_/api/*"));
    check(&set, &["path=/api/"], Some("d.path_/api/*"));
    check(&set, &["path=/other"], Some("d.path"));
}

#[test]
fn of_patterns_the_first_in_the_file_answers_however_they_are_indexed() {
    let patterns = ["*b", "a*", "ax*", "*", "*x*", "a*b"];
    for first in patterns {
        let rest = patterns.into_iter().filter(|&pattern| pattern != first);
        let nodes = [first].into_iter().chain(rest).map(|pattern| pair("k", pattern));
        let set = rule_set("d", nodes.map(|node| node.per(1, Minute)));
        check(&set, &["k=axb"], Some(&format!("d.k_{first}")));
    }
}

#[test]
fn a_key_pattern_competes_with_value_patterns_by_place() {
    let star_first = rule_set("d", [key("*").per(1, Minute), pair("k", "v*").per(2, Minute)]);
    check(&star_first, &["k=v1"], Some("d.*"));
    let star_last = rule_set("d", [pair("k", "v*").per(2, Minute), key("*").per(1, Minute)]);
    check(&star_last, &["k=v1"], Some("d.k_v*"));
    check(&star_last, &["k="], Some("d.*"));
    check(&star_last, &["other=1"], Some("d.*"));
    let default = rule_set("d", [key("k").per(2, Minute), key("*").per(1, Minute)]);
    check(&default, &["k=1"], Some("d.*"));
}

#[test]
fn a_key_pattern_with_a_value_needs_both() {
    let set = rule_set(
        "d",
        [
            pair("x-*", "a*").per(1, Minute),
            pair("x-*-id", "exact").per(1, Minute),
            pair("x-*", "exact").per(1, Minute),
            key("x-*").per(1, Minute),
        ],
    );
    check(&set, &["x-user=abc"], Some("d.x-*_a*"));
    check(&set, &["x-user-id=exact"], Some("d.x-*-id_exact"));
    check(&set, &["x-user=exact"], Some("d.x-*_exact"));
    check(&set, &["x-user=other"], Some("d.x-*"));
    check(&set, &["y=abc"], None);
}

#[test]
fn there_is_no_way_back_from_a_node_that_leads_nowhere() {
    let below = || [key("method").per(1, Minute)];
    let set = rule_set(
        "d",
        [pair("path", "/a"), pair("path", "/b*"), key("path").per(5, Minute).over(below())],
    );
    check(&set, &["path=/a"], None);
    check(&set, &["path=/a", "method=GET"], None);
    check(&set, &["path=/b1", "method=GET"], None);
    check(&set, &["path=/c", "method=GET"], Some("d.path.method"));
}

#[test]
fn a_query_is_ignored_where_the_policy_says_so() {
    let set = rule_set(
        "d",
        [
            pair("path", "/a").strip_query().per(1, Minute),
            pair("path", "*.js").strip_query().per(1, Minute),
            key("path").strip_query().per(1, Minute),
            pair("raw", "/a").per(1, Minute),
        ],
    );
    check(&set, &["path=/a?x=1"], Some("d.path_/a"));
    check(&set, &["path=/app.js?v=2?w"], Some("d.path_*.js"));
    check(&set, &["path=?"], Some("d.path"));
    check(&set, &["raw=/a?x=1"], None);
    assert_eq!(set.bucket_values(&["path=/z?x=1"]), ["/z"]);
    assert_eq!(set.bucket_values(&["path=/app.js?x"]), ["/app.js"]);
}

#[test]
fn only_values_of_a_shared_pattern_count_together() {
    let set = rule_set(
        "d",
        [
            pair("file", "test1").per(50, Minute),
            pair("file", "test*").shared().per(100, Minute),
            pair("own", "test*").per(100, Minute),
            key("any-*").shared().per(100, Minute),
            pair("odd", "plain").shared().per(1, Minute),
            key("odd").shared().per(1, Minute),
        ],
    );
    assert_eq!(set.bucket_values(&["file=test1"]), ["test1"]);
    assert_eq!(set.bucket_values(&["file=test2"]), ["test*"]);
    assert_eq!(set.bucket_values(&["own=test2"]), ["test2"]);
    assert_eq!(set.bucket_values(&["any-x=1"]), ["*"]);
    assert_eq!(set.bucket_values(&["odd=plain"]), ["plain"]);
    assert_eq!(set.bucket_values(&["odd=1"]), ["1"]);
}

#[test]
fn order_and_number_of_entries_matter() {
    let set =
        rule_set("d", [pair("foo", "x").per(2, Minute).over([pair("bar", "z").per(3, Minute)])]);
    check(&set, &["foo=x", "bar=z"], Some("d.foo_x.bar_z"));
    check(&set, &["bar=z", "foo=x"], None);
    check(&set, &["foo=x", "bar=z", "extra=1"], None);
    check(&set, &["foo=x"], Some("d.foo_x"));
    check(&set, &["source_cluster=proxy"], None);
}

#[test]
fn the_last_of_many_siblings_is_found() {
    let values = (0..1000).map(|n| pair("user", &format!("u{n}")).per(1, Minute));
    let patterns = (0..1000).map(|n| pair("path", &format!("/t{n}/*")).per(1, Minute));
    let keys = (0..1000).map(|n| key(&format!("key{n}")).per(1, Minute));
    let key_patterns = (0..1000).map(|n| key(&format!("p{n}-*")).per(1, Minute));
    let set = rule_set("d", values.chain(patterns).chain(keys).chain(key_patterns));
    check(&set, &["user=u999"], Some("d.user_u999"));
    check(&set, &["path=/t999/x"], Some("d.path_/t999/*"));
    check(&set, &["key999=x"], Some("d.key999"));
    check(&set, &["p999-a=x"], Some("d.p999-*"));
    check(&set, &["path=/t1000/x"], None);
}
