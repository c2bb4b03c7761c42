use super::*;
use crate::config::{Loaded, Options};
use crate::rules::{Allows, Entry};
use crate::settings;
use envoy_types::pb::google::protobuf::ListValue;
use envoy_types::pb::ratelimit::config::ratelimit::v3::RateLimitReplace;

fn policy(unit: RateLimitUnit, requests_per_unit: u32) -> RateLimitPolicy {
    RateLimitPolicy { unit: unit.into(), requests_per_unit, ..RateLimitPolicy::default() }
}

fn node(key: &str, value: &str, rate_limit: Option<RateLimitPolicy>) -> RateLimitDescriptor {
    let (key, value) = (key.to_owned(), value.to_owned());
    RateLimitDescriptor { key, value, rate_limit, ..RateLimitDescriptor::default() }
}

fn above(child: RateLimitDescriptor, key: &str, value: &str) -> RateLimitDescriptor {
    RateLimitDescriptor { descriptors: vec![child], ..node(key, value, None) }
}

fn config(name: &str, domain: &str, descriptors: Vec<RateLimitDescriptor>) -> RateLimitConfig {
    RateLimitConfig { name: name.to_owned(), domain: domain.to_owned(), descriptors }
}

fn response(configs: &[RateLimitConfig]) -> DiscoveryResponse {
    let any = |config: &RateLimitConfig| Any {
        type_url: TYPE_URL.to_owned(),
        value: config.encode_to_vec(),
    };
    DiscoveryResponse {
        type_url: TYPE_URL.to_owned(),
        resources: configs.iter().map(any).collect(),
        ..DiscoveryResponse::default()
    }
}

fn compiled(configs: &[RateLimitConfig]) -> Result<Loaded, Report> {
    let policies = settings::Policies::default();
    let options = Options {
        paths: policies.paths,
        defaults: crate::rules::Defaults {
            algorithm: crate::algorithm::Algorithm::FixedWindow(crate::algorithm::Anchor::Epoch),
            failure_mode: crate::rules::FailureMode::Local,
            burst: None,
            count_denied: None,
            version: None,
        },
        merge_domains: false,
        ignore_dot_files: false,
    };
    let Set { documents, version } = read(&response(configs))?;
    config::compile(&documents, version, &options)
}

fn report(response: &DiscoveryResponse) -> String {
    read(response).unwrap_err().to_string()
}

#[test]
fn what_a_message_says_is_what_a_file_would_say() {
    let gold = RateLimitPolicy {
        name: "gold".to_owned(),
        replaces: vec![RateLimitReplace { name: "basic".to_owned() }],
        ..policy(RateLimitUnit::Month, 7)
    };
    let leaf = RateLimitDescriptor {
        shadow_mode: true,
        detailed_metric: true,
        quota_mode: true,
        metadata: Some(Struct {
            fields: [
                ("b".to_owned(), Value { kind: Some(Kind::NumberValue(1.5)) }),
                ("a".to_owned(), Value { kind: Some(Kind::BoolValue(true)) }),
                (
                    "c".to_owned(),
                    Value {
                        kind: Some(Kind::ListValue(ListValue {
                            values: vec![Value { kind: Some(Kind::NullValue(0)) }],
                        })),
                    },
                ),
            ]
            .into(),
        }),
        ..node("tier", "gold", Some(gold))
    };
    let basic = RateLimitPolicy { name: "basic".to_owned(), ..policy(RateLimitUnit::Day, 1) };
    let nodes = vec![above(leaf, "route", "r1"), node("user", "", Some(basic))];
    let loaded = compiled(&[config("res", "shop", nodes)]).unwrap();
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    let entry = |key, value| Entry { key, value };
    let domain = loaded.rules.domains.get("shop").unwrap();
    let found = domain.find(&[entry("route", "r1"), entry("tier", "gold")]).unwrap();
    let rule = loaded.rules.rule(found.rule).unwrap();
    assert_eq!(&*rule.path, "shop.route_r1.tier_gold");
    assert_eq!(&*rule.source.file, "res");
    let Allows::Limits(limits) = &rule.allows else { panic!("{rule:?}") };
    assert_eq!((limits[0].limit.requests, limits[0].unit.name()), (7, "month"));
    assert_eq!(&*limits[0].name, "gold");
    assert_eq!(limits[0].replaces.iter().map(|name| &**name).collect::<Vec<_>>(), ["basic"]);
    assert!(rule.shadow_mode && rule.quota_mode);
    let metadata = format!("{:?}", rule.metadata.as_deref().unwrap());
    assert_eq!(metadata, r#"{"a": Bool(true), "b": Number(1.5), "c": List([Null])}"#);
}

#[test]
fn every_unit_has_its_word() {
    for unit in ["SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR"] {
        let unit = RateLimitUnit::from_str_name(unit).unwrap();
        let loaded = compiled(&[config("a", "d", vec![node("k", "", Some(policy(unit, 1)))])]);
        assert!(loaded.unwrap().warnings.is_empty(), "{unit:?}");
    }
}

#[test]
fn unlimited_needs_neither_unit_nor_number_and_bears_no_unit() {
    let unlimited = RateLimitPolicy { unlimited: true, ..RateLimitPolicy::default() };
    let loaded = compiled(&[config("a", "d", vec![node("k", "", Some(unlimited.clone()))])]);
    assert!(loaded.unwrap().warnings.is_empty());
    let with_unit = RateLimitPolicy { unit: RateLimitUnit::Day.into(), ..unlimited };
    let report = compiled(&[config("a", "d", vec![node("k", "", Some(with_unit))])]).unwrap_err();
    assert!(report.to_string().contains("should not specify rate limit unit when unlimited"));
}

#[test]
fn a_number_that_is_not_said_is_zero_and_blocks_without_a_warning() {
    let loaded =
        compiled(&[config("a", "d", vec![node("k", "", Some(policy(RateLimitUnit::Day, 0)))])]);
    assert!(loaded.unwrap().warnings.is_empty());
}

#[test]
fn a_faulty_set_is_refused_with_every_fault_and_the_resources_names() {
    let odd = RateLimitPolicy { unit: 9, requests_per_unit: 1, ..RateLimitPolicy::default() };
    let nameless = config("", "", vec![node("k", "", None)]);
    let report = compiled(&[
        config("ns/policy-b", "same", vec![node("k", "", Some(odd))]),
        config("ns/policy-a", "same", vec![node("", "v", Some(policy(RateLimitUnit::Unknown, 1)))]),
        nameless,
    ]);
    insta::assert_snapshot!(report.unwrap_err(), @r"
    ns/policy-a: error: descriptor has empty key, expected `key: some-key`
    ns/policy-a: error: invalid rate limit unit '': no `unit`, expected second, minute, hour, day, week, month or year
    ns/policy-b: error: duplicate domain 'same' in config file: it stands at ns/policy-a already; put its descriptors there, or set MERGE_DOMAIN_CONFIG=true
    ns/policy-b: error: invalid rate limit unit '9', expected second, minute, hour, day, week, month or year
    resource 2: error: config file cannot have empty domain, expected `domain: some-name`
    5 errors, 0 warnings
    ");
}

#[test]
fn what_cannot_be_read_is_named_by_its_place() {
    let mut broken = response(&[config("a", "d", vec![]), config("b", "e", vec![])]);
    broken.resources[0].value = vec![0xff; 8];
    broken.resources[1].type_url = "type.googleapis.com/envoy.Cluster\n".to_owned();
    insta::assert_snapshot!(report(&broken), @r"
    resource 0: error: not a RateLimitConfig: failed to decode Protobuf message: invalid varint
    resource 1: error: type_url is `type.googleapis.com/envoy.Cluster\n`, expected `type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig`
    2 errors, 0 warnings
    ");
    let unknown = DiscoveryResponse { type_url: "x".to_owned(), ..response(&[]) };
    insta::assert_snapshot!(report(&unknown), @r"
    xDS response: error: type_url is `x`, expected `type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig`
    1 error, 0 warnings
    ");
}

#[test]
fn messages_within_messages_without_end_are_none() {
    let deep = (0..150).fold(node("k", "", None), |child, _| above(child, "k", ""));
    let report = report(&response(&[config("a", "d", vec![deep])]));
    assert!(report.contains("resource 0: error: not a RateLimitConfig"), "{report}");
}

#[test]
fn the_version_does_not_depend_on_the_order() {
    let (a, b) = (config("a", "d", vec![]), config("b", "e", vec![]));
    let version = |configs: &[RateLimitConfig]| read(&response(configs)).unwrap().version;
    assert_eq!(version(&[a.clone(), b.clone()]), version(&[b.clone(), a.clone()]));
    assert_ne!(version(std::slice::from_ref(&a)), version(&[a, b]));
    assert_ne!(version(&[]), "");
}

#[test]
fn no_resources_are_a_set_of_none() {
    assert!(compiled(&[]).unwrap().rules.domains.is_empty());
}
