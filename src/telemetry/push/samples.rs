//! How each series stands now, under the name that envoyproxy/ratelimit pushes it by.

use super::super::Metrics;
use super::super::rule_series::FAMILIES;
use crate::rules::Labels;
use prometheus::core::Collector;

/// How a series stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) name: Box<str>,
    pub(super) kind: Kind,
}

/// What it counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// Things that happened so far.
    Counter { total: u64 },
    /// Things that happened so far and took about that long.
    Timer { millis: f64, total: u64 },
    /// Things that are there.
    Gauge { now: i64 },
}

impl Sample {
    /// How often it happened so far; none of a gauge.
    pub(super) fn total(&self) -> Option<u64> {
        match self.kind {
            Kind::Counter { total } | Kind::Timer { total, .. } => Some(total),
            Kind::Gauge { .. } => None,
        }
    }

    /// Tells it from others.
    pub(super) fn key(&self) -> Box<str> {
        match self.kind {
            Kind::Timer { millis, .. } => format!("{}|{millis}", self.name).into(),
            Kind::Counter { .. } | Kind::Gauge { .. } => self.name.clone(),
        }
    }
}

/// All that ever counted anything.
pub(super) fn of(metrics: &Metrics) -> Vec<Sample> {
    let mut samples = of_rules(metrics);
    samples.extend(of_process(metrics));
    samples.extend(response_times(metrics));
    samples.retain(|sample| sample.total() != Some(0));
    samples.extend(connections(metrics));
    samples
}

fn of_rules(metrics: &Metrics) -> Vec<Sample> {
    let totals = metrics.rules.totals().into_iter();
    let samples = totals.flat_map(|(labels, totals)| {
        let key = stats_key(&labels);
        FAMILIES.iter().zip(totals).filter(|(_, total)| *total > 0).map(move |(family, total)| {
            let name = format!("ratelimit.service.rate_limit.{key}.{}", family.name);
            Sample { name: name.into(), kind: Kind::Counter { total } }
        })
    });
    samples.collect()
}

/// The levels of a path, which its labels hold apart.
fn stats_key(labels: &Labels) -> String {
    let Labels { domain, key1, key2, key3 } = labels;
    let levels = [domain, key1, key2, key3].into_iter().filter(|level| !level.is_empty());
    let joined = levels.map(|level| &**level).collect::<Vec<_>>().join(".");
    joined.replace(|c: char| c.is_control() || c == ':' || c == '|', "_")
}

fn of_process(metrics: &Metrics) -> impl Iterator<Item = Sample> {
    let totals = [
        ("ratelimit_server.ShouldRateLimit.total_requests", metrics.requests.get()),
        ("ratelimit.service.call.should_rate_limit.redis_error", metrics.redis_errors.get()),
        ("ratelimit.service.call.should_rate_limit.service_error", metrics.service_errors.get()),
        ("ratelimit.service.config_load_success", metrics.config_load_success.get()),
        ("ratelimit.service.config_load_error", metrics.config_load_error.get()),
        ("ratelimit.service.global_shadow_mode", metrics.global_shadow_mode.get()),
        ("ratelimit.service.domain_not_found", metrics.unknown_domain_requests.get()),
    ];
    let sample =
        |(name, total): (&str, u64)| Sample { name: name.into(), kind: Kind::Counter { total } };
    totals.into_iter().map(sample)
}

/// From the histogram: each call as long as the longest of its bucket.
fn response_times(metrics: &Metrics) -> Vec<Sample> {
    let mut samples = Vec::new();
    for family in metrics.response_time.collect() {
        let mut n_before = 0;
        for metric in family.get_metric() {
            let histogram = metric.get_histogram();
            let mut longest = 0.0;
            for bucket in histogram.get_bucket().iter().filter(|one| one.upper_bound().is_finite())
            {
                longest = bucket.upper_bound() * 1000.0;
                let total = bucket.cumulative_count();
                samples.push(response_time(longest, total.saturating_sub(n_before)));
                n_before = total;
            }
            let beyond = histogram.get_sample_count().saturating_sub(n_before);
            samples.push(response_time(longest * 2.0, beyond));
        }
    }
    samples
}

fn response_time(millis: f64, total: u64) -> Sample {
    let name = "ratelimit_server.ShouldRateLimit.response_time".into();
    Sample { name, kind: Kind::Timer { millis, total } }
}

/// To all Redis servers together, if there are any.
fn connections(metrics: &Metrics) -> Option<Sample> {
    let now = metrics.store.n_connections()?;
    Some(Sample { name: "ratelimit.redis_pool.cx_active".into(), kind: Kind::Gauge { now } })
}
