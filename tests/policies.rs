//! Policy files: what is accepted, what is refused, and what an operator is told.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tidegate::algorithm::Algorithm;
use tidegate::config::{self, Loaded, Options, Report, Severity};
use tidegate::rules::{Allows, FailureMode, Rule, RuleLimit};

fn options(paths: &[&Path]) -> Options {
    Options { paths: paths.iter().map(|path| path.to_path_buf()).collect(), ..Options::default() }
}

fn load(path: impl AsRef<Path>) -> Result<Loaded, Report> {
    config::load(&options(&[path.as_ref()]))
}

/// A folder of these files.
fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn load_text(text: &str) -> Result<Loaded, Report> {
    load(folder(&[("policy.yaml", text.as_bytes())]).path())
}

fn fixtures(name: &str) -> Vec<PathBuf> {
    let folder = Path::new("tests/fixtures/policies").join(name);
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

fn stem(path: &Path) -> &str {
    path.file_stem().unwrap().to_str().unwrap()
}

fn limits(rule: &Rule) -> &[RuleLimit] {
    match &rule.allows {
        Allows::Limits(limits) => limits,
        Allows::Unlimited { .. } => &[],
    }
}

fn messages(report: &Report) -> Vec<&str> {
    report.faults.iter().map(|fault| fault.message.as_str()).collect()
}

#[test]
fn every_mistake_is_reported_with_what_to_write_instead() {
    for path in fixtures("bad") {
        let report = load(&path).expect_err(stem(&path));
        insta::assert_snapshot!(format!("bad__{}", stem(&path)), report);
    }
}

#[test]
fn what_has_no_effect_loads_with_a_warning() {
    for path in fixtures("warn") {
        let loaded = load(&path).unwrap_or_else(|report| panic!("{report}"));
        insta::assert_snapshot!(format!("warn__{}", stem(&path)), loaded.warnings);
    }
}

/// Files as people write them, and how many rules each has; none: it is refused.
const CASES: [(&str, Option<usize>); 38] = [
    ("01-reference-full-example", Some(17)),
    ("03-block-one-ip-zero", Some(2)),
    ("05-istio-configmap-path-default", None),
    ("07-value-with-equals-sign", Some(2)),
    ("09-gateway-dump-two-documents", Some(2)),
    ("11-gateway-dump-colon-value", Some(1)),
    ("13-gloo-descriptors-only-camelcase", None),
    ("15-value-before-limit-nested-default", Some(2)),
    ("17-commented-doc-before-marker-no-final-newline", Some(1)),
    ("19-shell-placeholder-value", Some(2)),
    ("21-named-limits-per-token", Some(3)),
    ("23-inline-comments", None),
    ("25-numeric-string-value-dotfile", Some(1)),
    ("27-duplicate-parent-different-children", None),
    ("29-duplicate-in-plans-second-and-day", None),
    ("31-broken-indent-unlimited", None),
    ("33-stages-per-generic-key", Some(5)),
    ("35-key-value-swapped-by-mistake", Some(3)),
    ("37-wildcard-middle-multi-nested", Some(6)),
    ("39-value-to-metric-tree", Some(1)),
    ("41-capital-Value-from-textbook", None),
    ("43-2017-style-rate-limit-list", Some(1)),
    ("45-quota-duplicate-tenant-key", None),
    ("47-backend-quota-mode", Some(3)),
    ("49-pattern-limits-burst-factor", None),
    ("51-trailing-blanks-and-shifted-comments", None),
    ("53-tiers-by-source-namespace", None),
    ("55-quoted-flow-token-budgets", None),
    ("57-configmap-same-domain-in-two-files", None),
    ("59-other-tool-seconds-times", None),
    ("D01-crlf-line-ends", Some(2)),
    ("D03-anchor-and-merge-key", Some(2)),
    ("D05-quoted-number", None),
    ("D07-float-and-bare-version-values", None),
    ("D09-misplaced-flags-silently-ignored", Some(1)),
    ("D11-composite-key-collision", Some(2)),
    ("D13-unlimited-with-junk-unit", Some(2)),
    ("D15-whitespace-only-domain-and-key", Some(1)),
];

#[test]
fn files_as_people_write_them_are_accepted_where_envoyproxy_ratelimit_accepts_them() {
    let stems: Vec<_> = fixtures("cases").iter().map(|path| stem(path).to_owned()).collect();
    assert_eq!(stems, CASES.map(|(name, _)| name.to_owned()));
    for ((name, n_rules), path) in CASES.iter().zip(fixtures("cases")) {
        match (load(&path), n_rules) {
            (Ok(loaded), Some(n_rules)) => assert_eq!(loaded.rules.rules.len(), *n_rules, "{name}"),
            (Err(report), None) => insta::assert_snapshot!(format!("case__{name}"), report),
            (Ok(_), None) => panic!("{name} was accepted"),
            (Err(report), Some(_)) => panic!("{name} was refused: {report}"),
        }
    }
}

/// Manifests, and how many rules `check` finds in them.
const MANIFESTS: [(&str, Option<usize>); 7] = [
    ("05-istio-configmap-path-default", Some(2)),
    ("23-inline-comments", Some(1)),
    ("45-quota-duplicate-tenant-key", None),
    ("51-trailing-blanks-and-shifted-comments", Some(1)),
    ("53-tiers-by-source-namespace", Some(3)),
    ("55-quoted-flow-token-budgets", Some(2)),
    ("57-configmap-same-domain-in-two-files", None),
];

#[test]
fn check_looks_into_config_maps() {
    for (name, n_rules) in MANIFESTS {
        let path = format!("tests/fixtures/policies/cases/{name}.yaml");
        match (config::check(&options(&[path.as_ref()])), n_rules) {
            (Ok(loaded), Some(n_rules)) => assert_eq!(loaded.rules.rules.len(), n_rules, "{name}"),
            (Err(report), None) => insta::assert_snapshot!(format!("manifest__{name}"), report),
            (Ok(_), None) => panic!("{name} was accepted"),
            (Err(report), Some(_)) => panic!("{name} was refused: {report}"),
        }
    }
}

#[test]
fn faults_in_manifests_point_to_the_manifests_own_lines() {
    for path in fixtures("manifests") {
        let report = config::check(&options(&[&path])).expect_err(stem(&path));
        insta::assert_snapshot!(format!("manifest__{}", stem(&path)), report);
    }
}

#[test]
fn shipped_policies_load_without_a_warning() {
    for path in ["config/policies", "config/reference.yaml"] {
        let loaded = load(path).unwrap_or_else(|report| panic!("{report}"));
        assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
        assert!(!loaded.rules.rules.is_empty());
    }
}

#[test]
fn folders_are_read_recursively_whatever_the_names() {
    let folder = folder(&[
        ("b/two", b"domain: two\n"),
        ("a.yaml", b"domain: one\n"),
        (".hidden.yaml", b"domain: hidden\n"),
        ("..data/three.yaml", b"domain: three\n"),
        (".git/four.yaml", b"domain: four\n"),
    ]);
    let loaded = load(folder.path()).unwrap();
    assert_eq!(loaded.n_files, 4);
    let mut names: Vec<_> = loaded.rules.domains.keys().map(AsRef::as_ref).collect();
    names.sort_unstable();
    assert_eq!(names, ["four", "hidden", "one", "two"]);
    let visible = Options { ignore_dot_files: true, ..options(&[folder.path()]) };
    assert_eq!(config::load(&visible).unwrap().n_files, 2);
}

#[cfg(unix)]
#[test]
fn a_mounted_config_map_is_read_once_through_its_links() {
    use std::os::unix::fs::symlink;
    let folder = folder(&[("..2026_01/config.yaml", b"domain: shop\n")]);
    symlink("..2026_01", folder.path().join("..data")).unwrap();
    symlink("..data/config.yaml", folder.path().join("config.yaml")).unwrap();
    symlink(".", folder.path().join("loop")).unwrap();
    let loaded = load(folder.path()).unwrap();
    assert_eq!((loaded.n_files, loaded.rules.domains.len()), (1, 1));
}

#[cfg(unix)]
#[test]
fn a_dangling_link_is_a_fault_that_names_it() {
    let folder = folder(&[]);
    std::os::unix::fs::symlink("nowhere", folder.path().join("a.yaml")).unwrap();
    let report = load(folder.path()).unwrap_err();
    assert_eq!(messages(&report), ["no such file or folder"]);
    assert!(report.to_string().contains("a.yaml: error: no such file or folder"), "{report}");
}

#[cfg(unix)]
#[test]
fn a_socket_in_a_folder_is_passed_over_and_one_that_is_named_is_a_fault() {
    let folder = folder(&[]);
    let path = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    assert_eq!(load(folder.path()).unwrap().n_files, 0);
    assert_eq!(messages(&load(&path).unwrap_err()), ["neither a file nor a folder"]);
}

#[test]
fn a_missing_folder_is_a_fault_and_an_empty_one_is_not() {
    let folder = folder(&[]);
    let missing = folder.path().join("missing");
    assert_eq!(messages(&load(&missing).unwrap_err()), ["no such file or folder"]);
    let loaded = load(folder.path()).unwrap();
    assert_eq!((loaded.n_files, loaded.rules.domains.len()), (0, 0));
}

#[test]
fn files_that_are_no_text_are_faults() {
    let cases: [(&[u8], &str); 3] = [
        (b"domain: \0\x01", "a binary file, expected YAML"),
        (
            b"domain: a\nb: \xff\n",
            "not UTF-8 text: line 2 holds a byte that is none; expected YAML in UTF-8",
        ),
        (b"\xff\xfe\x00\xd8", "not UTF-16 text in spite of its first bytes"),
    ];
    for (bytes, message) in cases {
        let report = load(folder(&[("policy.yaml", bytes)]).path()).unwrap_err();
        assert_eq!(messages(&report), [message]);
    }
}

#[test]
fn a_byte_order_mark_and_utf_16_are_accepted() {
    let utf16: Vec<u8> =
        "\u{feff}domain: shop\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for bytes in [b"\xef\xbb\xbfdomain: shop\n".as_slice(), &utf16] {
        let loaded = load(folder(&[("policy.yaml", bytes)]).path()).unwrap();
        assert!(loaded.rules.domains.contains_key("shop"));
    }
}

#[test]
fn faults_of_all_files_are_reported_at_once() {
    let folder = folder(&[
        ("a.yaml", b"domain: [\n"),
        ("b.yaml", b"descriptors: 5\n"),
        ("c.yaml", b"domain: fine\n"),
    ]);
    let report = load(folder.path()).unwrap_err();
    assert_eq!(report.count(Severity::Error), 3, "{report}");
    assert!(report.to_string().ends_with("3 errors, 0 warnings\n"), "{report}");
}

#[test]
fn one_domain_in_two_files_is_a_fault_that_names_both() {
    let folder = folder(&[("a.yaml", b"domain: shop\n"), ("b.yaml", b"\ndomain: shop\n")]);
    let report = load(folder.path()).unwrap_err().to_string();
    assert!(
        report.contains("b.yaml:2:1: error: duplicate domain 'shop' in config file"),
        "{report}"
    );
    assert!(report.contains("a.yaml:1 already"), "{report}");
}

#[test]
fn merged_files_of_a_domain_share_descriptors_and_settings() {
    let first = b"domain: shop\ndefaults: {algorithm: token_bucket}\ndescriptors: [{key: a}]\n";
    let second =
        b"domain: shop\ndescriptors: [{key: b, rate_limit: {unit: day, requests_per_unit: 1}}]\n";
    let folder = folder(&[("a.yaml", first), ("b.yaml", second)]);
    let merged = Options { merge_domains: true, ..options(&[folder.path()]) };
    let loaded = config::load(&merged).unwrap();
    assert_eq!(loaded.rules.domains["shop"].root.nodes().len(), 2);
    assert_eq!(limits(&loaded.rules.rules[0])[0].limit.algorithm, Algorithm::TokenBucket);
    assert!(loaded.rules.rules[0].source.file.ends_with("b.yaml"));
}

#[test]
fn merged_files_may_not_repeat_descriptors_or_contradict_settings() {
    let first = b"domain: shop\nhash_tag: [a]\ndescriptors: [{key: a, value: b}]\n";
    let second = b"domain: shop\nhash_tag: [b]\ndescriptors: [{key: a, value: b}, {key: a}]\n";
    let folder = folder(&[("a.yaml", first), ("b.yaml", second)]);
    let merged = Options { merge_domains: true, ..options(&[folder.path()]) };
    let report = config::load(&merged).unwrap_err();
    let [setting, descriptor] = messages(&report)[..] else { panic!("{report}") };
    assert!(setting.starts_with("`hash_tag` of this domain is given differently at "), "{setting}");
    assert!(setting.contains("a.yaml:2"), "{setting}");
    assert!(
        descriptor.starts_with("duplicate descriptor composite key 'shop.a_b': it stands at "),
        "{descriptor}"
    );
    assert!(descriptor.contains("a.yaml:3"), "{descriptor}");
}

#[test]
fn numbers_and_truth_values_stand_for_their_literal_text() {
    let values =
        [("404", "404"), ("yes", "yes"), ("010", "010"), ("0x1F", "0x1F"), ("1_000", "1_000")];
    for (written, expected) in values {
        let text = format!("domain: shop\ndescriptors:\n  - key: code\n    value: {written}\n");
        let loaded = load_text(&text).unwrap();
        let node = &loaded.rules.domains["shop"].root.nodes()[0];
        assert_eq!(node.value.as_deref(), Some(expected));
    }
}

#[test]
fn an_empty_or_null_value_matches_any() {
    for written in ["''", "null", "~", ""] {
        let text = format!("domain: shop\ndescriptors:\n  - key: code\n    value: {written}\n");
        assert_eq!(load_text(&text).unwrap().rules.domains["shop"].root.nodes()[0].value, None);
    }
}

#[test]
fn null_limits_and_null_lists_are_absent_ones() {
    let text = "domain: shop\ndescriptors:\n  - key: a\n    rate_limit: null\n    descriptors:\n";
    assert!(load_text(text).unwrap().rules.rules.is_empty());
    assert!(load_text("domain: shop\ndescriptors: ~\n").unwrap().rules.rules.is_empty());
}

#[test]
fn whole_numbers_are_read_as_yaml_1_1_does() {
    for (written, expected) in [("010", 8), ("0o10", 8), ("0x10", 16), ("1_000", 1000), ("0", 0)] {
        let text = format!(
            "domain: shop\ndescriptors:\n  - key: a\n    rate_limit: {{unit: DAY, requests_per_unit: {written}}}\n"
        );
        let loaded = load_text(&text).unwrap();
        assert_eq!(limits(&loaded.rules.rules[0])[0].limit.requests, expected, "{written}");
    }
}

#[test]
fn a_merge_key_fills_in_what_the_mapping_does_not_say_itself() {
    let text = "
domain: shop
descriptors:
  - key: a
    rate_limit: &base {unit: minute, requests_per_unit: 1, name: base}
  - key: b
    rate_limit:
      <<: [*base, {failure_mode: closed, unit: hour}]
      requests_per_unit: 100
  - key: c
    rate_limit: *base
";
    let loaded = load_text(text).unwrap();
    let [_, b, c] = &loaded.rules.rules[..] else { panic!() };
    let (b, c) = (&limits(b)[0], &limits(c)[0]);
    assert_eq!((b.limit.requests, b.unit.name(), &*b.name), (100, "minute", "base"));
    assert_eq!(b.failure_mode, FailureMode::Closed);
    assert_eq!((c.limit.requests, c.unit.name()), (1, "minute"));
}

#[test]
fn a_list_of_limits_becomes_one_rule() {
    let text = "
domain: shop
descriptors:
  - key: a
    rate_limit:
      - {unit: second, requests_per_unit: 10}
      - {unit: day, requests_per_unit: 1000, algorithm: token_bucket, burst: 50}
";
    let loaded = load_text(text).unwrap();
    let kinds: Vec<_> = limits(&loaded.rules.rules[0]).iter().map(|limit| &*limit.kind).collect();
    assert_eq!(kinds, ["fixed_window/epoch/1", "token_bucket/86400"]);
}

#[test]
fn a_rule_goes_before_its_domain_and_that_before_the_process() {
    let text = "
domain: shop
defaults: {algorithm: leaky_bucket, failure_mode: closed, burst: 3, count_denied: true, version: 2}
descriptors:
  - key: a
    rate_limit: {unit: second, requests_per_unit: 10}
  - key: b
    rate_limit:
      {unit: second, requests_per_unit: 10, algorithm: fixed_window, window: first_hit,
       failure_mode: open, count_denied: false, version: x}
---
domain: other
descriptors:
  - key: c
    rate_limit: {unit: second, requests_per_unit: 10}
";
    let loaded = load_text(text).unwrap();
    let [a, b, c] = [0, 1, 2].map(|index| &limits(&loaded.rules.rules[index])[0]);
    assert_eq!((&*a.kind, a.limit.burst, a.limit.count_denied), ("leaky_bucket/1/2", 3, true));
    assert_eq!((a.failure_mode, a.post_paid), (FailureMode::Closed, true));
    assert_eq!((&*b.kind, b.limit.burst), ("fixed_window/first_hit/1/x", 1));
    assert_eq!((b.failure_mode, b.limit.count_denied), (FailureMode::Open, false));
    assert_eq!((&*c.kind, c.failure_mode), ("fixed_window/epoch/1", FailureMode::Local));
    assert_eq!(loaded.n_default_algorithm, 1);
}

#[test]
fn rules_know_their_path_place_and_labels() {
    let text = "
domain: shop
descriptors:
  - value: 'v*'
    key: a
    descriptors:
      - key: b
        value_to_metric: true
        rate_limit: {unit: second, requests_per_unit: 1}
      - key: c
        value: d
        value_to_metric: true
        rate_limit: {unit: second, requests_per_unit: 1}
  - key: e
    detailed_metric: true
    rate_limit: {unit: second, requests_per_unit: 1}
";
    let loaded = load_text(text).unwrap();
    let [b, c, e] = &loaded.rules.rules[..] else { panic!() };
    assert_eq!((&*b.path, b.source.line), ("shop.a_v*.b", 7));
    assert_eq!((&*b.labels.key1, &*b.labels.key2, b.labels_vary), ("a_v*", "b", true));
    assert_eq!(&*c.path, "shop.a_v*.c_d");
    assert_eq!((&*c.labels.key1, &*c.labels.key2, c.labels_vary), ("a_v*", "c_d", false));
    assert_eq!((&*e.path, &*e.labels.key1, e.labels_vary), ("shop.e", "e", true));
}

#[test]
fn unit_multiplier_0_means_1_and_a_year_is_the_longest_window() {
    let text = |multiplier, unit| {
        format!(
            "domain: shop\ndescriptors:\n  - key: a\n    rate_limit: {{unit: {unit}, requests_per_unit: 1, unit_multiplier: {multiplier}}}\n"
        )
    };
    let loaded = load_text(&text(0, "week")).unwrap();
    assert_eq!(&*limits(&loaded.rules.rules[0])[0].kind, "fixed_window/epoch/604800");
    assert!(load_text(&text(365, "day")).is_ok());
    assert!(load_text(&text(366, "day")).is_err());
}

#[test]
fn an_empty_last_document_is_passed_over() {
    assert_eq!(load_text("---\ndomain: shop\n---\n# nothing\n").unwrap().rules.domains.len(), 1);
}

#[test]
fn a_hundred_thousand_rules_load_even_through_aliases() {
    let first = "domain: shop\ndescriptors:\n- {key: u, rate_limit: &r {unit: day, requests_per_unit: 5}}\n";
    let others =
        (1..100_000).map(|index| format!("- {{key: u, value: {index}, rate_limit: *r}}\n"));
    let text: String = std::iter::once(first.to_owned()).chain(others).collect();
    assert_eq!(load_text(&text).unwrap().rules.rules.len(), 100_000);
}

#[test]
fn names_that_nothing_has_and_domains_without_descriptors_are_warned_of() {
    let text = "\
domain: shop
hash_tag: [tenant, usr]
descriptors:
  - key: tenant
    descriptors:
      - key: user
        rate_limit: { unit: day, requests_per_unit: 1, name: per_user, replaces: [{ name: per_tenat }] }
  - key: tenant
    value: acme
    rate_limit: { unit: day, requests_per_unit: 5, name: per_tenant, replaces: [{ name: per_user }] }
---
domain: empty
";
    let loaded = load_text(text).unwrap();
    assert_eq!(
        messages(&loaded.warnings),
        [
            "`hash_tag` names `usr`, a key that no descriptor of this domain has: it ties only \
             descriptors that bring a limit of their own",
            "`replaces` names `per_tenat`, which no limit of this domain is called; did you mean \
             `per_tenant`?",
            "this domain has no descriptors: nothing in it is limited",
        ]
    );
}

#[test]
fn what_editors_leave_beside_a_file_is_no_policy() {
    let good =
        b"domain: a\ndescriptors: [{ key: k, rate_limit: { unlimited: true } }]\n".as_slice();
    let folder = folder(&[
        ("a.yaml", good),
        ("a.yaml~", good),
        (".a.yaml.swp", b"b0VIM\0"),
        ("4913", b""),
        ("#a.yaml#", good),
    ]);
    std::os::unix::fs::symlink("ann@host.1", folder.path().join(".#a.yaml")).unwrap();
    assert_eq!(load(folder.path()).unwrap().n_files, 1);
}

#[test]
fn every_mistake_in_an_idempotency_policy_is_reported() {
    let folder = Path::new("tests/fixtures/idempotency/bad");
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let report = config::load_idempotency(&path).expect_err(stem(&path));
        insta::assert_snapshot!(format!("idempotency__{}", stem(&path)), report);
    }
}

#[test]
fn the_idempotency_policy_that_is_shipped_is_sound() {
    let loaded = config::load_idempotency(Path::new("config/idempotency.yaml")).unwrap();
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    let routes = &loaded.policy.routes;
    assert_eq!(routes.iter().map(|route| &*route.name).collect::<Vec<_>>(), ["payments", "carts"]);
    assert_eq!(&*loaded.policy.namespace, "shop");
    assert_eq!(routes[0].key.min_length, Some(8));
    assert_eq!(routes[0].scope.tenant.len(), 1);
    assert_eq!(routes[1].scope.principal.len(), 3, "from the defaults");
    assert_eq!(routes[1].lease.as_secs(), 60);
    assert_eq!(routes[1].response.max_body, 256 << 10);
}

#[test]
fn check_takes_both_kinds_of_policies_and_the_server_each_where_it_belongs() {
    let text = fs::read("config/idempotency.yaml").unwrap();
    let both = folder(&[
        (
            "limits.yaml",
            b"domain: shop\ndescriptors: [{ key: a, rate_limit: { unlimited: true } }]\n",
        ),
        ("idempotency.yaml", &text),
    ]);
    let checked = config::check(&options(&[both.path()])).unwrap();
    assert_eq!((checked.rules.rules.len(), checked.idempotency.routes.len()), (1, 2));
    let report = load(both.path()).unwrap_err();
    assert!(messages(&report)[0].contains("IDEMPOTENCY_CONFIG"), "{report}");
}
