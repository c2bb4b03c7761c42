//! Metric labels, as the old server names them.

use super::matching::basic;
use super::*;
use Unit::Minute;

/// Domain and levels joined with dots, as the old server's statistics were.
fn stats_key(labels: &Labels) -> String {
    let all = [&labels.domain, &labels.key1, &labels.key2, &labels.key3];
    all.into_iter()
        .filter(|level| !level.is_empty())
        .map(|level| &**level)
        .collect::<Vec<_>>()
        .join(".")
}

#[track_caller]
fn check(set: &RuleSet, pairs: &[&str], expected: &str) {
    let domain = set.only_domain();
    let entries = entries(pairs);
    let matched = domain.find(&entries).unwrap_or_else(|| panic!("no rule for {pairs:?}"));
    let detailed = set.rule(matched.rule).unwrap().detailed_metric;
    let labels = Labels::of_match(&domain.name, &matched, &entries, detailed);
    assert_eq!(stats_key(&labels), expected, "{pairs:?}");
    if !detailed && !matched.nodes.iter().any(|node| node.label_varies()) {
        let levels: Vec<_> = matched.nodes.iter().map(|node| node.label()).collect();
        assert_eq!(Labels::new(&domain.name, levels.iter().map(|level| &**level)), labels);
    }
}

fn on(roots: impl IntoIterator<Item = Sketch>) -> RuleSet {
    rule_set("test-domain", roots)
}

#[test]
fn a_plain_path_is_named_by_its_keys_and_values() {
    let set = basic();
    check(&set, &["key1=value1", "subkey1=something"], "test-domain.key1_value1.subkey1");
    check(&set, &["key1=value1", "subkey1=subvalue1"], "test-domain.key1_value1.subkey1_subvalue1");
    check(&set, &["key2=something"], "test-domain.key2");
    check(&set, &["key2=value2"], "test-domain.key2_value2");
    check(&set, &["key7=unspecified_value"], "test-domain.key7_unspecified_value");
    check(&set, &["key7=another_value"], "test-domain.key7_another_value");
}

#[test]
fn a_pattern_is_named_as_it_is_written() {
    let set = on([
        pair("wild", "foo*").per(20, Minute),
        key("noVal").per(20, Minute),
        pair("nestedWild", "val1").over([pair("wild", "goo*").per(20, Minute)]),
    ]);
    check(&set, &["wild=foo1"], "test-domain.wild_foo*");
    check(&set, &["wild=foo2"], "test-domain.wild_foo*");
    check(&set, &["noVal=foo1"], "test-domain.noVal");
    check(&set, &["nestedWild=val1", "wild=goo2"], "test-domain.nestedWild_val1.wild_goo*");
}

#[test]
fn a_shared_pattern_goes_before_every_flag() {
    let set = on([
        pair("file", "test1").per(50, Minute),
        pair("file", "test*").shared().per(100, Minute),
        pair("files", "files/*").shared().per(100, Minute),
        pair("route", "api/*").shared().value_to_metric().over([key("method").per(1, Minute)]),
        pair("service", "svc/*").shared().over([key("endpoint").detailed().per(1, Minute)]),
        pair("midpath", "/api*v1").shared().per(1, Minute),
        pair("multiroute", "svc*ep*rpc").shared().per(50, Minute),
        pair("midroute", "/api*v2").shared().value_to_metric().per(1, Minute),
    ]);
    check(&set, &["file=test1"], "test-domain.file_test1");
    check(&set, &["file=test123"], "test-domain.file_test*");
    for file in ["files=files/a.pdf", "files=files/b.csv", "files=files/c.txt"] {
        check(&set, &[file], "test-domain.files_files/*");
    }
    check(&set, &["route=api/v1", "method=GET"], "test-domain.route_api/*.method");
    check(&set, &["service=svc/user", "endpoint=get"], "test-domain.service_svc/*.endpoint_get");
    check(&set, &["service=svc/user", "endpoint="], "test-domain.service_svc/*.endpoint");
    for path in ["midpath=/api/v1", "midpath=/api-beta-v1", "midpath=/apiXYZv1"] {
        check(&set, &[path], "test-domain.midpath_/api*v1");
    }
    assert_eq!(set.path_for(&["midpath=/api/v2"]), None);
    check(&set, &["multiroute=svcXXXepYYYrpc"], "test-domain.multiroute_svc*ep*rpc");
    assert_eq!(set.path_for(&["multiroute=svcABCrpc"]), None);
    check(&set, &["midroute=/api/v2"], "test-domain.midroute_/api*v2");
    check(&set, &["midroute=/api-x-v2"], "test-domain.midroute_/api*v2");
}

#[test]
fn shared_patterns_share_at_every_depth() {
    let below = [pair("files", "nested/*").shared().per(200, Minute)];
    let set = on([pair("nested", "parent").over(below)]);
    let pairs = ["nested=parent", "files=nested/file1.txt"];
    check(&set, &pairs, "test-domain.nested_parent.files_nested/*");
    assert_eq!(set.bucket_values(&pairs), ["parent", "nested/*"]);

    let below = [pair("files", "nested/*").shared().per(200, Minute)];
    let set = on([pair("files", "top/*").shared().over(below)]);
    let pairs = ["files=top/file1.txt", "files=nested/file1.txt"];
    check(&set, &pairs, "test-domain.files_top/*.files_nested/*");
    assert_eq!(set.bucket_values(&pairs), ["top/*", "nested/*"]);

    let below = [pair("file", "file/*").over([key("type").per(1, Minute)])];
    let set = on([pair("path", "path/*").shared().over(below)]);
    let pairs = ["path=path/foo", "file=file/doc1", "type=pdf"];
    check(&set, &pairs, "test-domain.path_path/*.file_file/*.type");
    assert_eq!(set.bucket_values(&pairs), ["path/*", "file/doc1", "pdf"]);

    let below = [pair("resource", "res/*").shared().over([key("action").per(1, Minute)])];
    let set = on([pair("user", "user/*").shared().over(below)]);
    let pairs = ["user=user/alice", "resource=res/file1", "action=read"];
    check(&set, &pairs, "test-domain.user_user/*.resource_res/*.action");

    let below = [pair("resource", "res*v2").shared().per(1, Minute)];
    let set = on([pair("tenant", "t*prod").shared().over(below)]);
    for pairs in [["tenant=t1prod", "resource=resAv2"], ["tenant=t99prod", "resource=resBBBv2"]] {
        check(&set, &pairs, "test-domain.tenant_t*prod.resource_res*v2");
    }
}

fn routes(leaf: Sketch) -> RuleSet {
    let methods = key("http_method").value_to_metric().over([leaf]);
    rule_set("domain", [key("route").value_to_metric().over([methods])])
}

#[test]
fn value_to_metric_names_the_value_of_its_own_level() {
    let set = routes(key("subject_id").per(60, Minute));
    let pairs = ["route=draw", "http_method=GET", "subject_id=123"];
    check(&set, &pairs, "domain.route_draw.http_method_GET.subject_id");
    let pairs = ["route=", "http_method=GET", "subject_id=123"];
    check(&set, &pairs, "domain.route.http_method_GET.subject_id");

    let set = rule_set("d", [key("k1").value_to_metric().over([key("k2").per(1, Minute)])]);
    check(&set, &["k1=A", "k2=foo"], "d.k1_A.k2");
    let below = [key("k2").value_to_metric().over([key("k3").per(1, Minute)])];
    let set = rule_set("d", [key("k1").over(below)]);
    check(&set, &["k1=X", "k2=Y", "k3=Z"], "d.k1.k2_Y.k3");
    let set = rule_set("d", [key("k1").over([key("k2").per(1, Minute)])]);
    check(&set, &["k1=X", "k2=Y"], "d.k1.k2");
}

#[test]
fn value_to_metric_leaves_explicit_values_and_plain_patterns_alone() {
    let methods = [
        pair("http_method", "GET").over([key("subject_id").per(60, Minute)]),
        pair("http_method", "POST").over([key("subject_id").per(30, Minute)]),
    ];
    let set = on([key("route").value_to_metric().over(methods)]);
    let pairs = ["route=api", "http_method=POST", "subject_id=user456"];
    check(&set, &pairs, "test-domain.route_api.http_method_POST.subject_id");

    let reads = pair("action", "read*").value_to_metric().over([key("resource").per(1, Minute)]);
    let set = on([key("user").value_to_metric().over([reads])]);
    let pairs = ["user=alice", "action=readfile", "resource=documents"];
    check(&set, &pairs, "test-domain.user_alice.action_readfile.resource");

    let set = on([pair("wild", "foo*").value_to_metric().per(1, Minute)]);
    check(&set, &["wild=foo1"], "test-domain.wild_foo1");
    let other = key("other").value_to_metric().over([key("limit").per(1, Minute)]);
    let set = on([pair("wild", "foo*").over([other])]);
    check(&set, &["wild=foo1", "other=bar", "limit=X"], "test-domain.wild_foo*.other_bar.limit");
}

#[test]
fn a_detailed_leaf_names_every_value() {
    let set = routes(key("subject_id").detailed().per(60, Minute));
    let pairs = ["route=draw", "http_method=GET", "subject_id=123"];
    check(&set, &pairs, "domain.route_draw.http_method_GET.subject_id_123");

    let below = || [key("key-2").per(1, Minute)];
    let set = rule_set("nested", [key("key-1").detailed().per(1, Minute).over(below())]);
    check(&set, &["key-1=value-1"], "nested.key-1_value-1");
    check(&set, &["key-1="], "nested.key-1_");
    check(&set, &["key-1=value-1", "key-2=x"], "nested.key-1.key-2");
    let set = rule_set("nested", [key("key-1").per(1, Minute).over(below())]);
    check(&set, &["key-1=value-1"], "nested.key-1");

    let leaf = pair("key_3", "requested-key3-value").detailed().per(1, Minute);
    let set = rule_set("nested", [key("key_2").detailed().over([leaf])]);
    let pairs = ["key_2=key-2-value", "key_3=requested-key3-value"];
    check(&set, &pairs, "nested.key_2_key-2-value.key_3_requested-key3-value");
}

#[test]
fn a_stripped_query_is_in_no_label() {
    let set = on([
        key("path").strip_query().value_to_metric().per(1, Minute),
        key("raw").strip_query().detailed().per(1, Minute),
    ]);
    check(&set, &["path=/a?token=1"], "test-domain.path_/a");
    check(&set, &["raw=/a?token=1"], "test-domain.raw_/a");
}

#[test]
fn a_key_pattern_names_the_policys_key_unless_values_are_wanted() {
    let set = on([
        key("x-*").per(1, Minute),
        pair("y-*", "v").per(1, Minute),
        key("z-*").value_to_metric().per(1, Minute),
    ]);
    check(&set, &["x-user=alice"], "test-domain.x-*");
    check(&set, &["y-user=v"], "test-domain.y-*_v");
    check(&set, &["z-user=alice"], "test-domain.z-user_alice");
}

#[test]
fn further_levels_are_joined_into_the_third_label() {
    let labels = Labels::new("d", ["a", "b", "c", "d"].into_iter());
    assert_eq!((&*labels.key1, &*labels.key2, &*labels.key3), ("a", "b", "c.d"));
    let labels = Labels::new("d", ["a"].into_iter());
    assert_eq!((&*labels.key1, &*labels.key2, &*labels.key3), ("a", "", ""));
}

#[test]
fn an_override_is_named_by_keys_only() {
    let labels = Labels::of_override("d", &entries(&["ip=198.51.100.1", "path=/x"]));
    assert_eq!(stats_key(&labels), "d.ip.path");
}

#[test]
fn what_statistics_could_not_hold_is_replaced() {
    let sanitised = |text: &str| Labels::new("d", [text].into_iter()).key1;
    assert_eq!(&*sanitised("path_/foo:*:bar"), "path_/foo_*_bar");
    assert_eq!(&*sanitised("path_/foo|bar|baz"), "path_/foo_bar_baz");
    assert_eq!(&*sanitised("address_0.0.0.0/0"), "address_0_0_0_0/0");
    assert_eq!(&*sanitised("address_172.18.0.1_b_10.0.0.255"), "address_172_18_0_1_b_10_0_0_255");
    assert_eq!(&*sanitised("host_a.example.com"), "host_a.example.com");
    assert_eq!(&*sanitised("v1.2.3"), "v1.2.3");
    assert_eq!(&*sanitised("12345678"), "12345678");
    assert_eq!(&*sanitised("1.2.3.4.5"), "1_2_3_4.5");
    assert_eq!(&*sanitised("ä:ö"), "ä_ö");
}

/// The only label of a request to a rule that names its values.
fn label_of(value: &str) -> String {
    let set = on([key("k").value_to_metric().per(1, Minute)]);
    let domain = set.only_domain();
    let entries = [Entry { key: "k", value }];
    let matched = domain.find(&entries).unwrap();
    let labels = [false, true].map(|d| Labels::of_match(&domain.name, &matched, &entries, d));
    assert_eq!(labels[0], labels[1]);
    labels[0].key1.to_string()
}

#[test]
fn a_long_value_is_cut_and_stays_different_from_others() {
    let fits = "x".repeat(126);
    assert_eq!(label_of(&fits), format!("k_{fits}"));
    let long = "ä".repeat(500);
    let (one, two) = (label_of(&format!("{long}1")), label_of(&format!("{long}2")));
    assert!(one.len() <= 128 && one.starts_with("k_ää"), "{one}");
    assert_ne!(one, two);
    assert_eq!(one, label_of(&format!("{long}1")));
}

#[test]
fn the_labels_of_an_override_are_short_whatever_its_keys() {
    let key = "x".repeat(1000);
    let long = Entry { key: &key, value: "" };
    let labels = Labels::of_override("d", &[long; 100]);
    for label in [&labels.key1, &labels.key2, &labels.key3] {
        assert!(label.len() <= 128, "{label}");
    }
    assert_ne!(labels, Labels::of_override("d", &[long; 101]));
}
