//! Asking the store: only for what its last refusals do not answer, and never in vain.

use super::charges::Items;
use super::failure::{StandIn, refused, still_refused};
use super::plan::Plan;
use super::verdicts::Verdicts;
use super::{DecidedBy, Error, Limiter};
use crate::algorithm::{Algorithm, Charge, Decision};
use crate::clock::Micros;
use crate::store::{Batch, BatchItem, BatchMember, Decisions, Outcomes, Part, Refused, StoreError};
use smallvec::SmallVec;
use std::sync::Arc;
use tokio::time::Instant;

/// A descriptor that a remembered refusal answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Denial {
    /// The first item of the descriptor.
    first: usize,
    /// The item that refuses.
    item: usize,
    hits: u64,
    wait: Micros,
}

type Denials = SmallVec<[Denial; 2]>;

impl Limiter {
    /// A verdict per item of the batch.
    pub(super) async fn ask(
        &self,
        batch: Arc<Batch>,
        plan: &Plan<'_>,
        items: &Items,
        gives_up: Option<Instant>,
    ) -> Result<Verdicts, Error> {
        let Some(stand_in) = &self.stand_in else {
            let outcomes = self.store.decide(&batch, gives_up).await;
            let decisions = outcomes.into_iter().collect::<Result<_, _>>()?;
            return Ok(Verdicts::of_store(decisions));
        };
        let now = stand_in.now();
        let denials = stand_in.denials(&batch, now);
        if denials.is_empty() {
            let outcomes = self.store.decide(&batch, gives_up).await;
            stand_in.learn(&batch, &outcomes, now);
            return self.settle(stand_in, &batch, outcomes, plan, items);
        }
        let rest =
            Part::of(&batch, |member| !denials.iter().any(|d| d.first == member.items.start));
        let mut outcomes = Outcomes::new();
        if !rest.items.is_empty() {
            outcomes = self.store.decide(&rest.batch, gives_up).await;
            stand_in.learn(&rest.batch, &outcomes, now);
        }
        let outcomes = with_denials(&batch, &rest, outcomes, &denials);
        let mut verdicts = self.settle(stand_in, &batch, outcomes, plan, items)?;
        for denial in &denials {
            verdicts.name(denial.item, DecidedBy::DenyCache);
        }
        Ok(verdicts)
    }

    fn settle(
        &self,
        stand_in: &StandIn,
        batch: &Batch,
        outcomes: Outcomes,
        plan: &Plan<'_>,
        items: &Items,
    ) -> Result<Verdicts, Error> {
        if outcomes.iter().all(Result::is_ok) {
            let decisions: Decisions = outcomes.into_iter().flatten().collect();
            return Ok(Verdicts::of_store(decisions));
        }
        stand_in.decide(batch, outcomes, plan, items, &self.metrics)
    }
}

impl StandIn {
    /// The descriptors that are refused without asking: alone in their group, and no limit beside
    /// the one that refuses wants the charge all the same.
    fn denials(&self, batch: &Batch, now: Micros) -> Denials {
        let alone = batch.groups.iter().filter(|group| group.len() == 1);
        alone.filter_map(|group| self.denial(batch, batch.members.get(group.start)?, now)).collect()
    }

    fn denial(&self, batch: &Batch, member: &BatchMember, now: Micros) -> Option<Denial> {
        let Charge::Take(hits) = member.charge else { return None };
        let items = batch.items.get(member.items.clone())?;
        let first = member.items.start;
        let mut longest: Option<Denial> = None;
        for (at, item) in items.iter().enumerate() {
            let Some(wait) = self.refusals.denied(batch.key(item), &item.limit, hits, now) else {
                continue;
            };
            let mut others = items.iter().enumerate().filter(|(other, _)| *other != at);
            let is_needed = others.any(|(_, item)| item.post_paid);
            if !is_needed && longest.is_none_or(|longest| wait > longest.wait) {
                longest = Some(Denial { first, item: first + at, hits, wait });
            }
        }
        longest
    }

    /// Remembers what the store refused, and forgets what does not hold any longer.
    fn learn(&self, batch: &Batch, outcomes: &Outcomes, asked_at: Micros) {
        for group in &batch.groups {
            let is_alone = group.len() == 1;
            for member in batch.members.get(group.clone()).unwrap_or_default() {
                let items = batch.items.get(member.items.clone()).unwrap_or_default();
                let outcomes = outcomes.get(member.items.clone()).unwrap_or_default();
                for (item, outcome) in items.iter().zip(outcomes) {
                    self.learn_one(batch, item, member.charge, outcome, asked_at, is_alone);
                }
            }
        }
    }

    fn learn_one(
        &self,
        batch: &Batch,
        item: &BatchItem,
        charge: Charge,
        outcome: &Result<Decision, StoreError>,
        asked_at: Micros,
        is_alone: bool,
    ) {
        let key = batch.key(item);
        match (charge, outcome) {
            (Charge::Refund(_), Err(error)) if !error.may_be_counted() => {}
            (Charge::Refund(_), _) => self.refusals.refunded(key, self.now()),
            (Charge::Take(hits), Ok(decision)) if decision.allowed => {
                self.refusals.admitted(key, hits);
            }
            (_, Ok(decision)) if !decision.allowed => {
                let Some(wait) = decision.wait else { return };
                let is_take = matches!(charge, Charge::Take(_));
                let repeatable = is_take && is_alone && changes_nothing(item, decision);
                let hits = charge.hits();
                let refused = Refused { hits, asked_at, wait, repeatable };
                self.refusals.remember(key, &item.limit, &refused);
            }
            _ => {}
        }
    }
}

/// Whether the same charge, refused again, would change nothing: once over, a fixed window records no
/// more.
fn changes_nothing(item: &BatchItem, decision: &Decision) -> bool {
    let once_over = matches!(item.limit.algorithm, Algorithm::FixedWindow(_))
        && decision.after > item.limit.requests.into();
    once_over || !item.limit.count_denied
}

/// The outcomes of a whole batch, from those of its rest and from what is remembered.
fn with_denials(batch: &Batch, rest: &Part, outcomes: Outcomes, denials: &Denials) -> Outcomes {
    let filler = |at: usize, item: &BatchItem| {
        Ok(match denials.iter().find(|denial| denial.item == at) {
            Some(denial) => still_refused(&item.limit, denial.hits, denial.wait),
            None => Decision { allowed: true, ..refused(&item.limit, None) },
        })
    };
    let items = batch.items.iter().enumerate();
    let mut whole: Outcomes = items.map(|(at, item)| filler(at, item)).collect();
    for (place, outcome) in rest.items.iter().zip(outcomes) {
        whole.get_mut(*place).into_iter().for_each(|slot| *slot = outcome);
    }
    whole
}
