//! What operators see: every metric series, declared once with typed labels; logging.

use crate::rules::Labels;
use prometheus::IntCounter;
use std::sync::Arc;
use std::time::Duration;

/// Every metric of the process.
#[derive(Debug)]
pub struct Metrics {
    /// `ratelimit_service_should_rate_limit_error{err_type="service_error"}`
    pub service_errors: IntCounter,
}

/// The series of one rule (or of one label set), shared with `Metrics`.
#[derive(Clone, Debug)]
pub struct RuleSeries {
    /// `ratelimit_service_rate_limit_total_hits`
    pub total_hits: IntCounter,
    /// `…_over_limit`
    pub over_limit: IntCounter,
    /// `…_near_limit`
    pub near_limit: IntCounter,
    /// `…_within_limit`
    pub within_limit: IntCounter,
    /// `…_shadow_mode`
    pub shadow_mode: IntCounter,
    /// `…_over_limit_with_local_cache`
    pub over_limit_with_local_cache: IntCounter,
    /// `…_total_negative_hits`
    pub total_negative_hits: IntCounter,
}

impl Metrics {
    /// Declares every series; at most `max_series` label sets of rules.
    pub fn new(max_series: usize) -> Arc<Self> {
        todo!("{max_series}")
    }

    /// The series of a label set, made at first use; beyond the cap, those of `_other`.
    pub fn rule_series(&self, labels: &Labels) -> Arc<RuleSeries> {
        todo!("{labels:?}")
    }

    /// Counts an answered `ShouldRateLimit` call and what it took from first to last byte.
    pub fn request_answered(&self, took: Duration) {
        todo!("{took:?}")
    }
}
