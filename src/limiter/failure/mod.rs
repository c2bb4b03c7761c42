//! What it means that the store could not decide. This is the one place that says so.

mod local;
mod share;

pub use share::Share;

use super::charges::Items;
use super::plan::Plan;
use super::verdicts::Verdicts;
use super::{DecidedBy, Error};
use crate::algorithm::{Charge, Decision, Limit};
use crate::clock::{Clock, Micros};
use crate::rules::FailureMode;
use crate::store::{Batch, BatchItem, DenyCache, DenyConfig, MemoryConfig, MemoryStore, Outcomes};
use crate::telemetry::Metrics;
use local::Local;
use smallvec::SmallVec;
use std::sync::Arc;

/// Answers in the place of a store that can fail.
#[derive(Debug)]
pub struct StandIn {
    /// What the store refused lately.
    pub(super) refusals: DenyCache,
    /// The buckets of `local` limits.
    buckets: MemoryStore,
    share: Share,
    clock: Arc<dyn Clock>,
}

/// Settings of what stands in for a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandInOptions {
    /// `LOCAL_FALLBACK_SHARE`: which part of a limit this server may give out by itself.
    pub local_share: Share,
    /// `MEMORY_MAX_BUCKETS`: most buckets of `local` limits.
    pub max_buckets: usize,
    /// Refusals to remember.
    pub deny: DenyConfig,
}

/// The failure mode of each item.
type Modes = SmallVec<[FailureMode; 4]>;

/// What a `closed` limit asks to wait.
const CLOSED_WAIT: Micros = Micros::SECOND;

impl Default for StandInOptions {
    fn default() -> Self {
        Self { local_share: Share::WHOLE, max_buckets: 1_000_000, deny: DenyConfig::default() }
    }
}

impl StandIn {
    /// One that knows nothing yet.
    pub fn new(options: StandInOptions, clock: Arc<dyn Clock>) -> Self {
        let config = MemoryConfig { max_buckets: options.max_buckets };
        Self {
            refusals: DenyCache::new(options.deny),
            buckets: MemoryStore::new(config, Arc::clone(&clock)),
            share: options.local_share,
            clock,
        }
    }

    pub(super) fn now(&self) -> Micros {
        self.clock.now()
    }

    /// Decides what the store could not, each limit by its own mode. What the store decided stands.
    pub(super) fn decide(
        &self,
        batch: &Batch,
        outcomes: Outcomes,
        plan: &Plan<'_>,
        items: &Items,
        metrics: &Metrics,
    ) -> Result<Verdicts, Error> {
        let modes = modes(batch, plan, items);
        for (outcome, mode) in outcomes.iter().zip(&modes) {
            if let (Err(reason), FailureMode::Error) = (outcome, mode) {
                metrics.fallback(*mode, reason.reason());
                return Err(Error::Store(*reason));
            }
        }
        let local = Local::of(self, batch, &outcomes, &modes).decide(self);
        let charges = batch.members.iter().flat_map(|m| m.items.clone().map(|_| m.charge));
        let undecided = batch.items.iter().zip(charges).zip(&modes);
        let mut verdicts = Verdicts::default();
        for (at, (outcome, ((item, charge), mode))) in
            outcomes.into_iter().zip(undecided).enumerate()
        {
            match outcome {
                Ok(decision) => verdicts.push(decision, DecidedBy::Store),
                Err(reason) => {
                    let answer = answer(*mode, item, charge, local.get(at).copied().flatten());
                    if matches!(charge, Charge::Refund(_)) && !answer.written {
                        metrics.lost_refunds.inc();
                    }
                    verdicts.push(answer, DecidedBy::Fallback { mode: *mode, reason });
                }
            }
        }
        Ok(verdicts)
    }
}

/// The answer of one limit. A refund is never refused.
fn answer(
    mode: FailureMode,
    item: &BatchItem,
    charge: Charge,
    local: Option<Decision>,
) -> Decision {
    let is_refund = matches!(charge, Charge::Refund(_));
    match (mode, local) {
        (FailureMode::Local, Some(decision)) => in_use(&item.limit, decision),
        (FailureMode::Closed, _) if !is_refund => refused(&item.limit, Some(CLOSED_WAIT)),
        _ => open(&item.limit),
    }
}

fn open(limit: &Limit) -> Decision {
    Decision {
        allowed: true,
        remaining: limit.requests.into(),
        wait: None,
        reset: Micros(0),
        before: 0,
        after: 0,
        written: false,
    }
}

/// A refusal that leaves no room, so that all of its hits count as over the limit.
pub(super) fn refused(limit: &Limit, wait: Option<Micros>) -> Decision {
    Decision {
        allowed: false,
        remaining: 0,
        wait,
        reset: wait.unwrap_or_default(),
        before: limit.capacity(),
        after: limit.capacity(),
        written: false,
    }
}

/// A refusal that is known to hold for so long. Hits that never fit wait for nothing.
pub(super) fn still_refused(limit: &Limit, hits: u64, wait: Micros) -> Decision {
    let fits = hits <= limit.most_at_once();
    Decision { wait: fits.then_some(wait), ..refused(limit, Some(wait)) }
}

/// A local bucket's decision with the use that metrics measure by the rule's limit: none or all.
fn in_use(limit: &Limit, decision: Decision) -> Decision {
    let used = if decision.allowed { 0 } else { limit.capacity() };
    Decision { before: used, after: used, ..decision }
}

fn modes(batch: &Batch, plan: &Plan<'_>, items: &Items) -> Modes {
    let mut modes = Modes::from_elem(FailureMode::default(), batch.items.len());
    for (planned, items) in plan.descriptors.iter().zip(items) {
        let places = modes.get_mut(items.clone()).unwrap_or_default();
        for (place, limit) in places.iter_mut().zip(planned.limits()) {
            *place = limit.failure_mode;
        }
    }
    modes
}
