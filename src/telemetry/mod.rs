//! What operators see: every metric series, declared once with typed labels; logging.

mod declare;
mod idempotency_series;
pub mod logging;
mod push;
mod rule_limits;
mod rule_series;
mod store_series;
mod traces;

pub use idempotency_series::{IdempotencySeries, IdempotencyWords, RecordOp, RequestOutcome};
pub use push::Push;
pub use rule_series::{Counter, RuleSeries};
pub use store_series::{ServerSeries, StoreOp, StoreSeries};
pub use traces::{Caller, Exporter, Outcome, Tracer};

use crate::clock::Micros;
use crate::rules::{FailureMode, Labels, RuleSet};
use declare::Declare;
use prometheus::{Gauge, Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry};
use rule_limits::RuleLimits;
use rule_series::RuleSeriesSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The content type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// Every metric of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    rules: RuleSeriesSet,
    rule_limits: Mutex<RuleLimits>,
    requests: IntCounter,
    response_time: Histogram,
    /// `ratelimit_service_should_rate_limit_error{err_type="redis_error"}`
    pub redis_errors: IntCounter,
    /// `ratelimit_service_should_rate_limit_error{err_type="service_error"}`
    pub service_errors: IntCounter,
    /// `ratelimit_service_global_shadow_mode`: refusals that `SHADOW_MODE` turned into OK.
    pub global_shadow_mode: IntCounter,
    /// `ratelimit_service_config_load_success`
    pub config_load_success: IntCounter,
    /// `ratelimit_service_config_load_error`
    pub config_load_error: IntCounter,
    /// `tidegate_unknown_domain_requests_total`
    pub unknown_domain_requests: IntCounter,
    /// `tidegate_dropped_spans_total`
    pub dropped_spans: IntCounter,
    /// `tidegate_lost_refunds_total`: of limits whose store failed and that hold no local bucket.
    pub lost_refunds: IntCounter,
    /// `tidegate_tls_refused_handshakes_total`: connections that TLS let nobody through.
    pub tls_refusals: IntCounter,
    fallback_decisions: IntCounterVec,
    unmatched_descriptors: IntCounterVec,
    series_overflow: IntCounter,
    shadow_mode: IntGauge,
    hottest_bucket: Gauge,
    hottest_slot: Gauge,
    live_buckets: IntGauge,
    evictions: IntCounter,
    /// Of the store, so far as they are counted.
    evictions_seen: AtomicU64,
    store_info: IntGaugeVec,
    store: Arc<StoreSeries>,
    /// The idempotency filter.
    pub idempotency: IdempotencySeries,
    record_store: Arc<StoreSeries>,
    records: IntGauge,
    record_bytes: IntGauge,
    config_info: IntGaugeVec,
    xds_connected: IntGaugeVec,
    config_warnings: IntGauge,
    config_rules: IntGauge,
    config_loaded_at: Gauge,
}

/// What is known of policies that were just put in force.
#[derive(Clone, Debug)]
pub struct ConfigFacts {
    /// A hash of the policy files.
    pub version: String,
    /// Faults that did not prevent loading.
    pub n_warnings: usize,
    /// When they were put in force.
    pub loaded_at: Micros,
}

/// What the limiter says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LimiterFacts {
    /// Whether every request may pass.
    pub in_shadow: bool,
    /// Share of the most asked bucket.
    pub hottest_bucket: f64,
    /// Share of the most asked hash slot of Redis.
    pub hottest_slot: f64,
}

/// What a store in this process says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreFacts {
    /// Buckets it holds now.
    pub live_buckets: u64,
    /// Live buckets that it evicted since it was made.
    pub evictions: u64,
}

impl Metrics {
    /// Declares every series; at most `max_series` label sets of rules, and as many of requests.
    pub fn new(max_series: usize) -> Arc<Self> {
        let declare = Declare::new();
        let errors = declare.errors();
        let store = StoreSeries::new(&declare);
        Arc::new(Self {
            rules: RuleSeriesSet::new(max_series),
            rule_limits: Mutex::default(),
            requests: declare.requests(),
            response_time: declare.response_time(),
            redis_errors: errors.with_label_values(&["redis_error"]),
            service_errors: errors.with_label_values(&["service_error"]),
            global_shadow_mode: declare.global_shadow_mode(),
            config_load_success: declare.config_load_success(),
            config_load_error: declare.config_load_error(),
            unknown_domain_requests: declare.unknown_domain_requests(),
            dropped_spans: declare.dropped_spans(),
            lost_refunds: declare.lost_refunds(),
            tls_refusals: declare.tls_refusals(),
            fallback_decisions: declare.fallback_decisions(),
            unmatched_descriptors: declare.unmatched_descriptors(),
            series_overflow: declare.series_overflow(),
            shadow_mode: declare.shadow_mode(),
            hottest_bucket: declare.hottest_bucket(),
            hottest_slot: declare.hottest_slot(),
            live_buckets: declare.live_buckets(),
            evictions: declare.evictions(),
            evictions_seen: AtomicU64::default(),
            store_info: declare.store_info(),
            idempotency: IdempotencySeries::new(&declare),
            record_store: StoreSeries::of_records(&declare, &store),
            records: declare.records(),
            record_bytes: declare.record_bytes(),
            store,
            config_info: declare.config_info(),
            xds_connected: declare.xds_connected(),
            config_warnings: declare.config_warnings(),
            config_rules: declare.config_rules(),
            config_loaded_at: declare.config_loaded_at(),
            registry: declare.registry,
        })
    }

    /// The series of a rule whose labels are the same for every request. To be asked for when the
    /// rule is loaded; whoever holds it keeps it from being forgotten.
    pub fn rule_series(&self, labels: &Labels) -> Arc<RuleSeries> {
        self.rules.of_rule(labels)
    }

    /// The series of labels that a request made (rules that opt in, overrides); beyond the cap,
    /// those of `_other` in the same domain.
    pub fn request_series(&self, labels: &Labels) -> Arc<RuleSeries> {
        self.rules.of_request(labels, &self.series_overflow)
    }

    /// `tidegate_unmatched_descriptors_total` of a loaded domain: to be asked for when it is
    /// loaded, and never for a domain that only a request names.
    pub fn unmatched_descriptors(&self, domain: &str) -> IntCounter {
        self.unmatched_descriptors.with_label_values(&[domain])
    }

    /// Shows `tidegate_fallback_decisions_total` of a mode from now on, at zero for these reasons.
    pub fn declare_fallback(
        &self,
        mode: FailureMode,
        reasons: impl IntoIterator<Item = &'static str>,
    ) {
        for reason in reasons {
            _ = self.fallback_decisions.with_label_values(&[mode.name(), reason]);
        }
    }

    /// Counts a descriptor that was answered by a failure mode, for a reason.
    pub fn fallback(&self, mode: FailureMode, reason: &'static str) {
        self.fallback_decisions.with_label_values(&[mode.name(), reason]).inc();
    }

    /// Counts an answered `ShouldRateLimit` call and what it took from first to last byte.
    pub fn request_answered(&self, took: Duration) {
        self.requests.inc();
        self.response_time.observe(took.as_secs_f64());
    }

    /// Names the store in `tidegate_store_info`.
    pub fn store_chosen(&self, backend: &str) {
        self.store_info.reset();
        self.store_info.with_label_values(&[backend]).set(1);
    }

    /// Shows whether a connection to the xDS server stands.
    pub fn xds_connected(&self, server: &str, connected: bool) {
        self.xds_connected.with_label_values(&[server]).set(connected.into());
    }

    /// The series of a store of servers.
    pub fn store_series(&self) -> &Arc<StoreSeries> {
        &self.store
    }

    /// Takes over what the limiter says of itself; to be called before a scrape.
    pub fn limiter_observed(&self, facts: LimiterFacts) {
        self.shadow_mode.set(facts.in_shadow.into());
        self.hottest_bucket.set(facts.hottest_bucket);
        self.hottest_slot.set(facts.hottest_slot);
    }

    /// The series of a store of records in Redis.
    pub fn record_store_series(&self) -> &Arc<StoreSeries> {
        &self.record_store
    }

    /// Shows how many operations this process's memory holds, and about how many bytes they take;
    /// to be called before a scrape.
    pub fn records_observed(&self, n_records: usize, n_bytes: usize) {
        self.records.set(i64::try_from(n_records).unwrap_or(i64::MAX));
        self.record_bytes.set(i64::try_from(n_bytes).unwrap_or(i64::MAX));
    }

    /// Takes over what a store says of itself; to be called before a scrape.
    pub fn store_observed(&self, facts: StoreFacts) {
        self.live_buckets.set(i64::try_from(facts.live_buckets).unwrap_or(i64::MAX));
        let seen = self.evictions_seen.fetch_max(facts.evictions, Ordering::Relaxed);
        self.evictions.inc_by(facts.evictions.saturating_sub(seen));
    }

    /// Counts a successful load. To be called once the limiter holds `rules`, by one thread at a
    /// time.
    pub fn config_loaded(&self, rules: &RuleSet, facts: &ConfigFacts) {
        self.config_load_success.inc();
        self.config_info.reset();
        self.config_info.with_label_values(&[&facts.version]).set(1);
        self.config_warnings.set(i64::try_from(facts.n_warnings).unwrap_or(i64::MAX));
        self.config_rules.set(i64::try_from(rules.rules.len()).unwrap_or(i64::MAX));
        self.config_loaded_at.set(Duration::from(facts.loaded_at).as_secs_f64());
        self.rules.forget_old();
        *self.rule_limits.lock().unwrap_or_else(PoisonError::into_inner) =
            RuleLimits::of(rules, self.rules.max());
    }

    /// All series as Prometheus text. Takes milliseconds with many rules: not for request threads.
    pub fn render(&self) -> String {
        let mut text = String::with_capacity(64 * 1024);
        if let Err(error) =
            prometheus::TextEncoder::new().encode_utf8(&self.registry.gather(), &mut text)
        {
            tracing::error!(%error, "metrics could not be written");
        }
        self.rules.render(&mut text);
        self.rule_limits.lock().unwrap_or_else(PoisonError::into_inner).render(&mut text);
        text
    }
}

#[cfg(test)]
mod tests;
