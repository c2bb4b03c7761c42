//! From decisions to statuses and the overall code.

use super::charges::Items;
use super::plan::{Plan, Planned};
use super::policies::Policies;
use super::response::Statuses;
use super::verdicts::Verdicts;
use super::{Code, DecidedBy, Limiter, Request, Status, StatusLimit};
use crate::algorithm::{Algorithm, Decision, Limit};
use crate::clock::Micros;
use crate::rules::{Allows, Domain, FailureMode, RuleLimit};

/// The limit of a descriptor that its status and metrics speak of, and what it decided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported<'a> {
    pub(super) limit: &'a RuleLimit,
    pub(super) decision: &'a Decision,
    pub(super) by: DecidedBy,
}

/// A request and what was asked of the store for it.
#[derive(Debug)]
pub(super) struct Decided<'a, 'r, 'p> {
    pub(super) domain: &'a Domain,
    pub(super) policies: &'a Policies,
    pub(super) request: &'a Request<'r>,
    pub(super) plan: &'a Plan<'p>,
    pub(super) items: &'a Items,
}

impl Limiter {
    /// A status per descriptor, in their order; counts each on the way.
    pub(super) fn combine(&self, decided: &Decided<'_, '_, '_>, verdicts: &Verdicts) -> Statuses {
        let Decided { domain, policies, request, plan, items } = decided;
        let mut statuses = Statuses::new();
        let descriptors = request.descriptors.iter().zip(&plan.descriptors).zip(*items);
        for ((descriptor, planned), items) in descriptors {
            let reported = Reported::of(planned.limits().zip(verdicts.of(items.clone())));
            if let Some(reported) = &reported {
                self.account(policies, domain, descriptor, planned, reported);
            } else if planned.rule().is_none() {
                policies.count_unmatched(domain);
            }
            statuses.push(match &reported {
                Some(reported) => self.status(planned, reported),
                None => Status::without_limit(planned),
            });
        }
        statuses
    }

    fn status(&self, planned: &Planned<'_>, reported: &Reported<'_>) -> Status {
        let Reported { limit, decision, by } = reported;
        let rule = planned.rule();
        let refused = !decision.allowed;
        let in_shadow = rule.is_some_and(|rule| rule.shadow_mode);
        Status {
            code: if refused && !in_shadow { Code::OverLimit } else { Code::Ok },
            rule: planned.rule_id(),
            limit: Some(StatusLimit::of(limit)),
            remaining: if refused { 0 } else { saturated(decision.remaining) },
            reset_seconds: reported
                .is_timed()
                .then(|| duration(&limit.limit, decision).ceil_secs().max(1)),
            refused,
            never_fits: refused && decision.wait.is_none(),
            quota: self.options.quota_mode || rule.is_some_and(|rule| rule.quota_mode),
            decided_by: *by,
        }
    }

    /// The overall code: refused by a limit that is not quota, or by all quota limits there are.
    pub(super) fn overall(&self, statuses: &[Status]) -> Code {
        let (mut n_quota, mut n_quota_refused, mut refused) = (0, 0, false);
        for status in statuses {
            let is_over = status.code == Code::OverLimit;
            n_quota += usize::from(status.quota);
            n_quota_refused += usize::from(status.quota && is_over);
            refused |= is_over && !status.quota;
        }
        if !refused && (n_quota == 0 || n_quota_refused < n_quota) {
            return Code::Ok;
        }
        if self.options.shadow_mode {
            self.metrics.global_shadow_mode.inc();
            return Code::Ok;
        }
        Code::OverLimit
    }
}

impl<'a> Reported<'a> {
    /// Of a list: the refused limit with the longest wait, or else the one with the smallest
    /// remaining; of equals the first. None if there is no limit.
    fn of(
        decided: impl Iterator<Item = (&'a RuleLimit, (&'a Decision, DecidedBy))>,
    ) -> Option<Self> {
        let mut found: Option<Self> = None;
        for (limit, (decision, by)) in decided {
            let next = Self { limit, decision, by };
            if found.is_none_or(|found| next.goes_before(&found)) {
                found = Some(next);
            }
        }
        found
    }

    /// Whether it says anything about time: an open limit knows nothing.
    fn is_timed(&self) -> bool {
        !matches!(self.by, DecidedBy::Fallback { mode: FailureMode::Open, .. })
    }

    fn goes_before(&self, other: &Self) -> bool {
        match (self.decision.allowed, other.decision.allowed) {
            (false, false) => longest(self.decision) > longest(other.decision),
            (true, true) => self.decision.remaining < other.decision.remaining,
            (self_allowed, _) => !self_allowed,
        }
    }
}

impl Status {
    /// Of a descriptor that is unlimited, whose limits were all replaced, or that has none.
    fn without_limit(planned: &Planned<'_>) -> Self {
        let rule = planned.rule_id();
        match planned.rule().map(|rule| &rule.allows) {
            Some(Allows::Unlimited { .. }) => Self {
                rule,
                remaining: u32::MAX,
                decided_by: DecidedBy::Unlimited,
                ..Self::NO_LIMIT
            },
            Some(Allows::Limits(_)) | None => Self { rule, ..Self::NO_LIMIT },
        }
    }
}

impl StatusLimit {
    fn of(limit: &RuleLimit) -> Self {
        Self {
            requests: limit.limit.requests,
            unit: limit.unit,
            unit_multiplier: limit.unit_multiplier,
            name: (!limit.name.is_empty()).then(|| std::sync::Arc::clone(&limit.name)),
        }
    }
}

/// A wait that never ends is the longest.
fn longest(decision: &Decision) -> Micros {
    decision.wait.unwrap_or(Micros(u64::MAX))
}

/// Until the charge would be admitted or, if it was, until the bucket is as if unused. A charge
/// that never will be is told the end of the window, or its length where windows have no end.
fn duration(limit: &Limit, decision: &Decision) -> Micros {
    let fixed = matches!(limit.algorithm, Algorithm::FixedWindow(_));
    match decision.wait {
        _ if decision.allowed => decision.reset,
        Some(wait) => wait,
        None if fixed && decision.reset > Micros(0) => decision.reset,
        None => limit.window,
    }
}

fn saturated(hits: u64) -> u32 {
    u32::try_from(hits).unwrap_or(u32::MAX)
}
