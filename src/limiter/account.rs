//! What a decision adds to the metrics of its rule: once per descriptor, in hits.

use super::combine::Reported;
use super::plan::Planned;
use super::policies::Policies;
use super::{DecidedBy, Descriptor, Limiter};
use crate::algorithm::Charge;
use crate::rules::{Domain, Labels};
use crate::telemetry::RuleSeries;

/// What a charge adds to a rule's series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Added {
    over: u64,
    near: u64,
    within: u64,
}

impl Limiter {
    pub(super) fn account(
        &self,
        policies: &Policies,
        domain: &Domain,
        descriptor: &Descriptor<'_>,
        planned: &Planned<'_>,
        reported: &Reported<'_>,
    ) {
        if let DecidedBy::Fallback { mode, reason } = reported.by {
            self.metrics.fallback(mode, reason.reason());
        }
        let in_shadow = planned.rule().is_some_and(|rule| rule.shadow_mode);
        let count = |series: &RuleSeries| {
            count(series, descriptor.charge, reported, in_shadow, self.options.near_limit_ratio);
        };
        let labels = match planned {
            Planned::Unmatched => return,
            Planned::Override(_) => Labels::of_override(&domain.name, &descriptor.entries),
            Planned::Rule(matched) => match policies.series(matched.found.rule) {
                Some(series) => return count(series),
                None => Labels::of_match(
                    &domain.name,
                    &matched.found,
                    &descriptor.entries,
                    matched.rule.detailed_metric,
                ),
            },
        };
        count(&self.metrics.request_series(&labels));
    }
}

fn count(
    series: &RuleSeries,
    charge: Charge,
    reported: &Reported<'_>,
    in_shadow: bool,
    near_ratio: f32,
) {
    let hits = match charge {
        Charge::Take(hits) => hits,
        Charge::Peek => return,
        Charge::Refund(hits) => return series.total_negative_hits.inc_by(hits),
    };
    series.total_hits.inc_by(hits);
    let from_cache = reported.by == DecidedBy::DenyCache;
    let added = Added::by(hits, reported, near_ratio);
    for (counter, n) in [
        (&series.over_limit, added.over),
        (&series.near_limit, added.near),
        (&series.within_limit, added.within),
        (&series.shadow_mode, if in_shadow { added.over } else { 0 }),
        (&series.over_limit_with_local_cache, if from_cache { added.over } else { 0 }),
    ] {
        if n > 0 {
            counter.inc_by(n);
        }
    }
}

impl Added {
    fn by(hits: u64, reported: &Reported<'_>, near_ratio: f32) -> Self {
        let Reported { limit, decision, .. } = reported;
        let capacity = limit.limit.capacity();
        let threshold = near_threshold(capacity, near_ratio);
        if decision.allowed {
            return Self::admitted(hits, decision.before, decision.after, threshold);
        }
        // What a refused charge does not record is over the limit as a whole.
        let room = if limit.limit.count_denied || limit.post_paid {
            capacity.saturating_sub(decision.before)
        } else {
            0
        };
        if room == 0 {
            return Self { over: hits, ..Self::default() };
        }
        Self {
            over: hits.saturating_sub(room),
            near: capacity.saturating_sub(threshold.max(decision.before)),
            within: 0,
        }
    }

    fn admitted(hits: u64, before: u64, after: u64, threshold: u64) -> Self {
        // A charge that its group did not let consume is counted as if it had come last.
        let before = if after > before { before } else { after.saturating_sub(hits) };
        let near = match after {
            after if after <= threshold => 0,
            _ if before >= threshold => hits,
            after => after - threshold,
        };
        Self { over: 0, near, within: hits }
    }
}

/// From how many used hits on further ones count as near the limit.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the old server multiplies in 32 bits, and its metrics are compared with ours"
)]
fn near_threshold(capacity: u64, ratio: f32) -> u64 {
    (capacity as f32 * ratio).floor() as u64
}
