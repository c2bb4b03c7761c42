//! The name, help and labels of every series but those of rules, each in one place.

#![expect(clippy::expect_used, reason = "names and labels are constants; a test declares all")]

use prometheus::core::Collector;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};
use std::collections::HashMap;

/// Seconds; the last eleven are those of envoyproxy/ratelimit.
const RESPONSE_BUCKETS: [f64; 17] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0,
];

/// Seconds that a store takes.
const STORE_BUCKETS: [f64; 13] =
    [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 5.0];

/// Seconds that operations run, and that answers are old.
const LIFE_BUCKETS: [f64; 13] =
    [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 21_600.0, 86_400.0];

/// Bytes of stored bodies.
const SIZE_BUCKETS: [f64; 8] =
    [256.0, 1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0];

/// What a store of records says of each server.
pub(super) struct RecordStore {
    pub(super) seconds: HistogramVec,
    pub(super) calls: IntCounterVec,
    /// Not shown: each call is of one record.
    pub(super) units: IntCounterVec,
    pub(super) errors: IntCounterVec,
    pub(super) breakers: IntGaugeVec,
    pub(super) connections: IntGaugeVec,
}

/// Declares series in a registry of its own.
#[derive(Debug)]
pub(super) struct Declare {
    pub(super) registry: Registry,
}

impl Declare {
    /// A registry with what is known of the process and the build.
    pub(super) fn new() -> Self {
        let declare = Self { registry: Registry::new() };
        #[cfg(target_os = "linux")]
        declare.register(prometheus::process_collector::ProcessCollector::for_self());
        let build = declare.gauges("tidegate_build_info", "Always 1: the version.", &["version"]);
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        declare
    }

    pub(super) fn requests(&self) -> IntCounter {
        self.counters("ratelimit_service_total_requests", "Answered calls.", &["grpc_method"])
            .with_label_values(&["ShouldRateLimit"])
    }

    pub(super) fn response_time(&self) -> Histogram {
        let labels = HashMap::from([("grpc_method".to_owned(), "ShouldRateLimit".to_owned())]);
        let name = "ratelimit_service_response_time_seconds";
        let opts = HistogramOpts::new(name, "Time to answer a call.")
            .const_labels(labels)
            .buckets(RESPONSE_BUCKETS.to_vec());
        self.put(Histogram::with_opts(opts).expect("a valid name"))
    }

    pub(super) fn errors(&self) -> IntCounterVec {
        self.counters(
            "ratelimit_service_should_rate_limit_error",
            "Calls answered with an error.",
            &["err_type"],
        )
    }

    pub(super) fn global_shadow_mode(&self) -> IntCounter {
        self.counter(
            "ratelimit_service_global_shadow_mode",
            "Requests over limit that SHADOW_MODE let pass.",
        )
    }

    pub(super) fn config_load_success(&self) -> IntCounter {
        self.counter("ratelimit_service_config_load_success", "Policies put in force.")
    }

    pub(super) fn config_load_error(&self) -> IntCounter {
        self.counter(
            "ratelimit_service_config_load_error",
            "Policies refused; those before stay in force.",
        )
    }

    pub(super) fn unknown_domain_requests(&self) -> IntCounter {
        self.counter(
            "tidegate_unknown_domain_requests_total",
            "Requests whose domain no policy file names.",
        )
    }

    pub(super) fn dropped_spans(&self) -> IntCounter {
        self.counter(
            "tidegate_dropped_spans_total",
            "Spans that found no place in the queue or were not taken by the collector.",
        )
    }

    pub(super) fn lost_refunds(&self) -> IntCounter {
        self.counter(
            "tidegate_lost_refunds_total",
            "Refunds to limits that the store could not take and no local bucket could either.",
        )
    }

    pub(super) fn tls_refusals(&self) -> IntCounter {
        self.counter("tidegate_tls_refused_handshakes_total", "TLS handshakes that failed.")
    }

    pub(super) fn fallback_decisions(&self) -> IntCounterVec {
        self.counters(
            "tidegate_fallback_decisions_total",
            "Descriptors answered by their failure mode because the store could not decide.",
            &["mode", "reason"],
        )
    }

    pub(super) fn unmatched_descriptors(&self) -> IntCounterVec {
        self.counters(
            "tidegate_unmatched_descriptors_total",
            "Descriptors of a known domain that no rule answers.",
            &["domain"],
        )
    }

    pub(super) fn series_overflow(&self) -> IntCounter {
        self.counter(
            "tidegate_metric_overflow_total",
            "Decisions counted under key1=\"_other\" because METRIC_MAX_SERIES was reached.",
        )
    }

    pub(super) fn shadow_mode(&self) -> IntGauge {
        self.gauge(
            "tidegate_shadow_mode",
            "1 while every request may pass, by SHADOW_MODE or the switch on the admin port.",
        )
    }

    pub(super) fn hottest_bucket(&self) -> Gauge {
        let help = "Share of the charges of the last seconds that the most asked bucket has, from a sample.";
        self.put(Gauge::new("tidegate_hottest_bucket_share", help).expect("a valid name"))
    }

    pub(super) fn hottest_slot(&self) -> Gauge {
        let help = "The same of the most asked hash slot of Redis.";
        self.put(Gauge::new("tidegate_hottest_slot_share", help).expect("a valid name"))
    }

    pub(super) fn live_buckets(&self) -> IntGauge {
        self.gauge("tidegate_live_buckets", "Buckets in this process's memory.")
    }

    pub(super) fn evictions(&self) -> IntCounter {
        self.counter(
            "tidegate_evictions_total",
            "Live buckets evicted because MEMORY_MAX_BUCKETS was reached.",
        )
    }

    pub(super) fn store_info(&self) -> IntGaugeVec {
        self.gauges("tidegate_store_info", "Always 1: where buckets live.", &["backend"])
    }

    pub(super) fn store_seconds(&self) -> HistogramVec {
        let help = "Time that a Redis server takes to answer.";
        let opts = HistogramOpts::new("tidegate_store_call_seconds", help);
        let opts = opts.buckets(STORE_BUCKETS.to_vec());
        self.put(HistogramVec::new(opts, &["op", "node"]).expect("a valid name"))
    }

    pub(super) fn store_calls(&self) -> IntCounterVec {
        self.counters("tidegate_store_calls_total", "Script calls sent to Redis.", &["node"])
    }

    pub(super) fn store_units(&self) -> IntCounterVec {
        self.counters(
            "tidegate_store_units_total",
            "Requests (in a cluster, hash tags of requests) that those calls decided.",
            &["node"],
        )
    }

    pub(super) fn store_errors(&self) -> IntCounterVec {
        self.counters(
            "tidegate_store_errors_total",
            "Requests that Redis did not decide; without a node: none was found to ask.",
            &["node", "reason"],
        )
    }

    pub(super) fn store_breakers(&self) -> IntGaugeVec {
        self.gauges(
            "tidegate_store_breaker_open",
            "1 while a Redis server is not asked because it does not answer.",
            &["node"],
        )
    }

    pub(super) fn store_connections(&self) -> IntGaugeVec {
        self.gauges("tidegate_store_connections", "Open connections to Redis.", &["node"])
    }

    pub(super) fn redis_memory(&self) -> IntGaugeVec {
        self.gauges("tidegate_redis_memory_bytes", "Memory that Redis says it uses.", &["node"])
    }

    pub(super) fn redis_evicted(&self) -> IntGaugeVec {
        self.gauges(
            "tidegate_redis_evicted_keys",
            "Keys that Redis says it evicted since its start.",
            &["node"],
        )
    }

    pub(super) fn redis_keeps_keys(&self) -> IntGaugeVec {
        self.gauges(
            "tidegate_redis_maxmemory_policy_ok",
            "1 if Redis says that it does not evict keys when its memory is full.",
            &["node"],
        )
    }

    pub(super) fn redis_time_offset(&self) -> GaugeVec {
        let help = "Seconds by which the clock of Redis is ahead of this process's.";
        let opts = Opts::new("tidegate_redis_time_offset_seconds", help);
        self.put(GaugeVec::new(opts, &["node"]).expect("a valid name"))
    }

    pub(super) fn record_store(&self) -> RecordStore {
        let help = "Time that a Redis server takes to answer about an operation.";
        let opts = HistogramOpts::new("tidegate_idempotency_redis_call_seconds", help);
        let opts = opts.buckets(STORE_BUCKETS.to_vec());
        let units = Opts::new("units", "Not shown.");
        RecordStore {
            seconds: self.put(HistogramVec::new(opts, &["op", "node"]).expect("a valid name")),
            calls: self.counters(
                "tidegate_idempotency_redis_calls_total",
                "Script calls sent to Redis about operations.",
                &["node"],
            ),
            units: IntCounterVec::new(units, &["node"]).expect("a valid name"),
            errors: self.counters(
                "tidegate_idempotency_redis_errors_total",
                "Calls about operations that Redis did not answer; without a node: none was found to ask.",
                &["node", "reason"],
            ),
            breakers: self.gauges(
                "tidegate_idempotency_redis_breaker_open",
                "1 while a Redis server is not asked about operations because it does not answer.",
                &["node"],
            ),
            connections: self.gauges(
                "tidegate_idempotency_redis_connections",
                "Open connections to Redis for operations.",
                &["node"],
            ),
        }
    }

    pub(super) fn records(&self) -> IntGauge {
        self.gauge("tidegate_idempotency_memory_records", "Operations in this process's memory.")
    }

    pub(super) fn record_bytes(&self) -> IntGauge {
        self.gauge(
            "tidegate_idempotency_memory_bytes",
            "About how much memory of this process they take.",
        )
    }

    pub(super) fn config_info(&self) -> IntGaugeVec {
        self.gauges(
            "tidegate_config_info",
            "Always 1: a hash of the policies in force.",
            &["version"],
        )
    }

    pub(super) fn xds_connected(&self) -> IntGaugeVec {
        self.gauges(
            "tidegate_xds_connected",
            "1 while a connection to the xDS server stands.",
            &["server"],
        )
    }

    pub(super) fn config_warnings(&self) -> IntGauge {
        self.gauge("tidegate_config_warnings", "Warnings about the policies in force.")
    }

    pub(super) fn config_rules(&self) -> IntGauge {
        self.gauge("tidegate_config_rules", "Rules in force.")
    }

    pub(super) fn config_loaded_at(&self) -> Gauge {
        let name = "tidegate_config_last_load_timestamp_seconds";
        self.put(
            Gauge::new(name, "When policies were last put in force, Unix time.")
                .expect("a valid name"),
        )
    }

    pub(super) fn idempotency_requests(&self) -> IntCounterVec {
        self.counters(
            "tidegate_idempotency_requests_total",
            "Requests of protected routes that have a key, or need one and have none.",
            &["route", "outcome"],
        )
    }

    pub(super) fn idempotency_completes(&self) -> IntCounterVec {
        self.counters(
            "tidegate_idempotency_complete_total",
            "Outcomes handed to the store; stale: another attempt holds the operation.",
            &["result"],
        )
    }

    pub(super) fn idempotency_releases(&self) -> IntCounterVec {
        self.counters(
            "tidegate_idempotency_release_total",
            "Operations given back, so that the next attempt runs.",
            &["reason"],
        )
    }

    pub(super) fn idempotency_renews(&self) -> IntCounterVec {
        self.counters("tidegate_idempotency_renew_total", "Leases renewed.", &["result"])
    }

    pub(super) fn idempotency_unknown(&self) -> IntCounterVec {
        self.counters(
            "tidegate_idempotency_indeterminate_total",
            "Operations of which nobody knows whether they ran.",
            &["cause"],
        )
    }

    pub(super) fn idempotency_not_stored(&self) -> IntCounterVec {
        self.counters(
            "tidegate_idempotency_not_stored_total",
            "Outcomes whose answer was not kept for retries.",
            &["reason"],
        )
    }

    pub(super) fn idempotency_store_seconds(&self) -> HistogramVec {
        let help = "Time that the store of operations takes.";
        let opts = HistogramOpts::new("tidegate_idempotency_store_seconds", help);
        let opts = opts.buckets(STORE_BUCKETS.to_vec());
        self.put(HistogramVec::new(opts, &["op"]).expect("a valid name"))
    }

    pub(super) fn idempotency_execution_seconds(&self) -> Histogram {
        let help = "Time from an operation's claim to its outcome.";
        self.histogram("tidegate_idempotency_execution_seconds", help, &LIFE_BUCKETS)
    }

    pub(super) fn idempotency_replay_age_seconds(&self) -> Histogram {
        let help = "Age of answers that were replayed.";
        self.histogram("tidegate_idempotency_replay_age_seconds", help, &LIFE_BUCKETS)
    }

    pub(super) fn idempotency_stored_bytes(&self) -> Histogram {
        let help = "Bytes of bodies that were stored.";
        self.histogram("tidegate_idempotency_stored_bytes", help, &SIZE_BUCKETS)
    }

    pub(super) fn idempotency_lease_left_seconds(&self) -> Histogram {
        let help = "What was left of an operation's lease at its outcome.";
        self.histogram("tidegate_idempotency_lease_left_at_complete_seconds", help, &LIFE_BUCKETS)
    }

    pub(super) fn idempotency_in_flight(&self) -> IntGauge {
        self.gauge("tidegate_idempotency_inflight", "Requests with a key that are under way.")
    }

    pub(super) fn idempotency_policy_loads(&self) -> IntCounterVec {
        self.counters(
            "tidegate_idempotency_policy_loads_total",
            "Idempotency policies put in force, or refused.",
            &["result"],
        )
    }

    fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> Histogram {
        let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.put(Histogram::with_opts(opts).expect("a valid name"))
    }

    fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.put(IntCounter::new(name, help).expect("a valid name"))
    }

    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.put(IntCounterVec::new(Opts::new(name, help), labels).expect("a valid name"))
    }

    fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.put(IntGauge::new(name, help).expect("a valid name"))
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.put(IntGaugeVec::new(Opts::new(name, help), labels).expect("a valid name"))
    }

    fn put<C: Collector + Clone + 'static>(&self, collector: C) -> C {
        self.register(collector.clone());
        collector
    }

    fn register(&self, collector: impl Collector + 'static) {
        self.registry.register(Box::new(collector)).expect("a name declared once");
    }
}
