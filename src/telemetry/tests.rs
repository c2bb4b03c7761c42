use super::*;
use crate::rules::RuleSet;
use std::fmt::Write;

fn labels(key1: &str) -> Labels {
    Labels { domain: "d".into(), key1: key1.into(), key2: "".into(), key3: "".into() }
}

fn line(key1: &str, family: &str, value: u64) -> String {
    format!(
        "ratelimit_service_rate_limit_{family}\
         {{domain=\"d\",key1=\"{key1}\",key2=\"\",key3=\"\"}} {value}\n"
    )
}

fn facts() -> ConfigFacts {
    ConfigFacts { version: "v1".into(), n_warnings: 2, loaded_at: Micros::from_secs(7) }
}

fn load(metrics: &Metrics) {
    metrics.config_loaded(&RuleSet::default(), &facts());
}

#[test]
fn a_rules_series_are_there_from_load_with_value_zero() {
    let metrics = Metrics::new(10);
    let _held = metrics.rule_series(&labels("a"));
    let text = metrics.render();
    for family in [
        "total_hits",
        "over_limit",
        "near_limit",
        "within_limit",
        "shadow_mode",
        "over_limit_with_local_cache",
        "total_negative_hits",
    ] {
        assert!(text.contains(&line("a", family, 0)), "{family} in {text}");
    }
}

#[test]
fn equal_labels_share_their_series() {
    let metrics = Metrics::new(10);
    metrics.rule_series(&labels("a")).total_hits.inc_by(2);
    metrics.request_series(&labels("a")).total_hits.inc();
    assert!(metrics.render().contains(&line("a", "total_hits", 3)));
}

#[test]
fn rules_beyond_the_cap_show_from_their_first_hit() {
    let metrics = Metrics::new(1);
    let _first = metrics.rule_series(&labels("a"));
    let second = metrics.rule_series(&labels("b"));
    assert!(!metrics.render().contains("key1=\"b\""));
    second.total_hits.inc();
    assert!(metrics.render().contains(&line("b", "total_hits", 1)));
}

#[test]
fn requests_beyond_the_cap_count_as_other_and_leave_rules_their_own() {
    let metrics = Metrics::new(2);
    let _rules = [metrics.rule_series(&labels("a")), metrics.rule_series(&labels("b"))];
    for value in ["x", "y", "z", "w"] {
        metrics.request_series(&labels(value)).total_hits.inc();
    }
    let text = metrics.render();
    assert!(text.contains(&line("y", "total_hits", 1)), "{text}");
    assert!(text.contains(&line("_other", "total_hits", 2)), "{text}");
    assert!(text.contains("tidegate_metric_overflow_total 2\n"), "{text}");
}

#[test]
fn a_series_that_a_request_made_becomes_the_rules_and_frees_its_place() {
    let metrics = Metrics::new(1);
    metrics.request_series(&labels("a")).total_hits.inc();
    let _rule = metrics.rule_series(&labels("a"));
    metrics.request_series(&labels("b")).total_hits.inc();
    let text = metrics.render();
    assert!(text.contains(&line("a", "total_hits", 1)), "{text}");
    assert!(text.contains(&line("b", "total_hits", 1)), "{text}");
}

#[test]
fn a_removed_rule_keeps_its_count_until_as_many_as_the_cap_came_after_it() {
    let metrics = Metrics::new(1);
    metrics.rule_series(&labels("a")).total_hits.inc_by(5);
    load(&metrics);
    assert!(metrics.render().contains(&line("a", "total_hits", 5)));
    metrics.rule_series(&labels("b")).total_hits.inc();
    load(&metrics);
    let text = metrics.render();
    assert!(!text.contains("key1=\"a\""), "{text}");
    assert!(text.contains(&line("b", "total_hits", 1)), "{text}");
}

#[test]
fn rules_that_replace_others_take_their_places_at_zero() {
    let metrics = Metrics::new(1);
    let old = metrics.rule_series(&labels("a"));
    let _new = metrics.rule_series(&labels("b"));
    drop(old);
    load(&metrics);
    let text = metrics.render();
    assert!(!text.contains("key1=\"a\""), "{text}");
    assert!(text.contains(&line("b", "total_hits", 0)), "{text}");
}

#[test]
fn label_values_are_escaped() {
    let metrics = Metrics::new(1);
    let _held = metrics.rule_series(&labels("a\"b\\c\nd"));
    assert!(metrics.render().contains(r#"key1="a\"b\\c\nd""#));
}

#[test]
fn counters_that_alerts_look_at_exist_from_the_start() {
    let text = Metrics::new(1).render();
    for line in [
        "ratelimit_service_should_rate_limit_error{err_type=\"redis_error\"} 0\n",
        "ratelimit_service_should_rate_limit_error{err_type=\"service_error\"} 0\n",
        "ratelimit_service_config_load_success 0\n",
        "ratelimit_service_config_load_error 0\n",
        "ratelimit_service_global_shadow_mode 0\n",
        "ratelimit_service_total_requests{grpc_method=\"ShouldRateLimit\"} 0\n",
        "ratelimit_service_response_time_seconds_count{grpc_method=\"ShouldRateLimit\"} 0\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[test]
fn a_load_says_what_is_in_force() {
    let metrics = Metrics::new(1);
    load(&metrics);
    metrics.config_loaded(&RuleSet::default(), &ConfigFacts { version: "v2".into(), ..facts() });
    let text = metrics.render();
    assert!(text.contains("ratelimit_service_config_load_success 2\n"), "{text}");
    assert!(text.contains("tidegate_config_info{version=\"v2\"} 1\n"), "{text}");
    assert!(!text.contains("v1"), "{text}");
    assert!(text.contains("tidegate_config_warnings 2\n"), "{text}");
    assert!(text.contains("tidegate_config_last_load_timestamp_seconds 7\n"), "{text}");
}

#[test]
fn evictions_follow_the_store_and_never_go_back() {
    let metrics = Metrics::new(1);
    metrics.store_observed(StoreFacts { live_buckets: 4, evictions: 3 });
    metrics.store_observed(StoreFacts { live_buckets: 1, evictions: 3 });
    let text = metrics.render();
    assert!(text.contains("tidegate_live_buckets 1\n"), "{text}");
    assert!(text.contains("tidegate_evictions_total 3\n"), "{text}");
}

#[test]
fn a_server_that_left_shows_its_counts_only() {
    let metrics = Metrics::new(1);
    let server = metrics.store_series().server("redis:6379");
    server.connections.inc();
    server.calls.inc();
    server.left();
    let text = metrics.render();
    assert!(text.contains("tidegate_store_calls_total{node=\"redis:6379\"} 1"), "{text}");
    assert!(!text.contains("tidegate_store_connections{"), "{text}");
}

#[test]
fn every_series_of_the_limiter_is_declared_once() {
    let metrics = Metrics::new(1);
    let text = metrics.render();
    let mut names: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("# TYPE ")).collect();
    let n_lines = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), n_lines);
}

/// The rows of the reference page, in the order of the scrape.
fn table() -> String {
    let metrics = Metrics::new(1);
    metrics.unmatched_descriptors("d");
    metrics.store_chosen("memory");
    metrics.store_series().server("redis:6379").not_decided("timeout", 1);
    metrics.record_store_series().server("redis:6379").not_decided("timeout", 1);
    metrics.idempotency.declare_route("a");
    let word = || vec!["a"];
    metrics.idempotency.declare_words(&IdempotencyWords {
        results: word(),
        releases: word(),
        unknown: word(),
        not_stored: word(),
    });
    metrics.idempotency.store_took(RecordOp::Claim, Duration::ZERO);
    metrics.idempotency.policy_loaded(true);
    metrics.fallback(FailureMode::Local, "timeout");
    metrics.xds_connected("control-plane:18000", true);
    let _rule = metrics.rule_series(&labels("a"));
    metrics.config_loaded(&a_rule(), &facts());
    let text = metrics.render();
    let mut table = String::from("| series | type | labels | meaning |\n|---|---|---|---|\n");
    for line in text.lines() {
        let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' '))
        else {
            continue;
        };
        if !name.starts_with("process_") {
            let kind = text.lines().find_map(|l| l.strip_prefix(&format!("# TYPE {name} ")));
            let labels = labels_of(&text, name);
            writeln!(table, "| `{name}` | {} | {labels} | {help} |", kind.unwrap()).unwrap();
        }
    }
    table
}

fn labels_of(text: &str, name: &str) -> String {
    let sample = text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        let rest = rest.strip_prefix("_bucket").unwrap_or(rest);
        (rest.starts_with('{') || rest.starts_with(' ')).then_some(rest)
    });
    let inside = sample.unwrap().split_once('{').map_or("", |(_, labels)| labels);
    let names = inside.split("\",").filter_map(|label| label.split_once("=\"")).map(|(n, _)| n);
    let names: Vec<String> =
        names.filter(|name| *name != "le").map(|name| format!("`{name}`")).collect();
    names.join(" ")
}

fn a_rule() -> RuleSet {
    let defaults = crate::rules::Defaults {
        algorithm: crate::algorithm::Algorithm::TokenBucket,
        ..crate::rules::Defaults::default()
    };
    let limit = defaults.limit(60, crate::rules::Unit::Minute, 5).unwrap();
    let rule = crate::rules::Rule {
        source: crate::rules::Source { file: "a.yaml".into(), line: 1 },
        path: "api.example.com.a.b".into(),
        allows: crate::rules::Allows::Limits([limit].into()),
        shadow_mode: false,
        quota_mode: false,
        detailed_metric: false,
        metadata: None,
        labels: Labels::new("api.example.com", ["a", "b"].into_iter()),
        labels_vary: true,
    };
    RuleSet { rules: vec![rule], ..RuleSet::default() }
}

#[test]
fn a_rules_limit_is_a_gauge_with_its_labels() {
    let metrics = Metrics::new(1);
    metrics.config_loaded(&a_rule(), &facts());
    let line = "tidegate_rule_limit{domain=\"api.example.com\",key1=\"a\",key2=\"b\",key3=\"\",\
                name=\"\",algorithm=\"token_bucket\",window_seconds=\"300\"} 60\n";
    let text = metrics.render();
    assert!(text.contains(line), "{text}");
}

#[test]
fn scrapes_at_the_same_time_count_an_eviction_once() {
    let metrics = Metrics::new(1);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for evictions in 0..=20_000 {
                    metrics.store_observed(StoreFacts { live_buckets: 0, evictions });
                }
            });
        }
    });
    assert!(metrics.render().contains("tidegate_evictions_total 20000\n"));
}

#[test]
fn forgetting_keeps_the_series_of_requests_and_their_cap() {
    let metrics = Metrics::new(1);
    metrics.rule_series(&labels("gone")).total_hits.inc();
    metrics.rule_series(&labels("a")).total_hits.inc();
    metrics.request_series(&labels("x")).total_hits.inc();
    load(&metrics);
    metrics.request_series(&labels("x")).total_hits.inc();
    metrics.request_series(&labels("y")).total_hits.inc();
    let text = metrics.render();
    assert!(!text.contains("key1=\"gone\""), "{text}");
    assert!(text.contains(&line("a", "total_hits", 1)), "{text}");
    assert!(text.contains(&line("x", "total_hits", 2)), "{text}");
    assert!(text.contains(&line("_other", "total_hits", 1)), "{text}");
}

#[test]
fn the_reference_page_lists_every_series() {
    let page = include_str!("../../docs/reference.md");
    assert!(page.contains(&table()), "docs/reference.md should hold:\n{}", table());
}
