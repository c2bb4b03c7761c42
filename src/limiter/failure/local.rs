//! Local buckets: what they are asked, and what they answer.

use super::{Modes, StandIn, refused, still_refused};
use crate::algorithm::{Charge, Decision, Limit};
use crate::clock::Micros;
use crate::rules::FailureMode;
use crate::store::{Batch, BatchItem, BatchMember, Outcomes};
use smallvec::SmallVec;

/// What the local buckets are asked for a request, group by group as the store was.
#[derive(Debug, Default)]
pub(super) struct Local {
    batch: Batch,
    /// What stands behind each item of it.
    asked: SmallVec<[Asked; 4]>,
    /// Items of the request.
    n_items: usize,
}

/// One limit that is asked.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// Where its item stands in the request.
    place: usize,
    /// What its bucket is measured against.
    limit: Limit,
    charge: Charge,
    /// Hits beyond the bucket: admitted once it is full, and owed from then on.
    debt: u64,
    /// What the store said, or `closed`: it is refused so, whatever the bucket holds.
    refused: Option<Decision>,
    post_paid: bool,
}

/// The decision on each item of the request that a local bucket was asked for.
pub(super) type Answers = SmallVec<[Option<Decision>; 4]>;

impl Local {
    pub(super) fn of(
        stand_in: &StandIn,
        batch: &Batch,
        outcomes: &Outcomes,
        modes: &Modes,
    ) -> Self {
        let mut local = Self { n_items: batch.items.len(), ..Self::default() };
        local.batch.keys.clone_from(&batch.keys);
        let now = stand_in.now();
        for group in &batch.groups {
            let members = batch.members.get(group.clone()).unwrap_or_default();
            let is_undecided =
                |member: &BatchMember| outcomes.get(member.items.start).is_some_and(Result::is_err);
            if !members.iter().any(is_undecided) {
                continue;
            }
            let start = local.batch.members.len();
            let is_alone = members.len() == 1;
            for member in members {
                let items = member.items.clone().filter_map(|place| {
                    let (item, mode) = (batch.items.get(place)?, modes.get(place)?);
                    let asked = match outcomes.get(place)? {
                        Ok(decision) => Asked::decided(item, member.charge, *decision)?,
                        Err(_) => stand_in.asked(batch, item, *mode, member.charge, now)?,
                    };
                    Some((item.clone(), Asked { place, ..asked }))
                });
                local.push(member, is_alone, items.collect());
            }
            if local.batch.members.len() > start {
                local.batch.groups.push(start..local.batch.members.len());
            }
        }
        local
    }

    /// Adds a descriptor. All of its limits are charged the same, save where one must be charged
    /// less than the others: then each stands for itself, and still all or nothing.
    fn push(
        &mut self,
        member: &BatchMember,
        is_alone: bool,
        items: SmallVec<[(BatchItem, Asked); 4]>,
    ) {
        let is_mixed = items.iter().any(|(_, asked)| asked.debt > 0);
        let votes = member.votes || (is_mixed && is_alone);
        let first = self.batch.items.len();
        for (item, asked) in items {
            let at = self.batch.items.len();
            self.batch.items.push(BatchItem { limit: asked.limit, ..item });
            if is_mixed {
                let charge = asked.charge;
                self.batch.members.push(BatchMember { charge, votes, items: at..at + 1 });
            }
            self.asked.push(asked);
        }
        let end = self.batch.items.len();
        if !is_mixed && end > first {
            self.batch.members.push(BatchMember { items: first..end, ..*member });
        }
    }

    pub(super) fn decide(self, stand_in: &StandIn) -> Answers {
        let mut answers = Answers::from_elem(None, self.n_items);
        if self.asked.is_empty() {
            return answers;
        }
        let decisions = stand_in.buckets.decide(&self.batch);
        for ((item, asked), decision) in self.batch.items.iter().zip(&self.asked).zip(decisions) {
            if asked.debt > 0 && decision.written {
                let debt = owed(&self.batch, item, asked);
                stand_in.buckets.decide(&debt);
            }
            if let Some(place) = answers.get_mut(asked.place) {
                *place = Some(asked.answer(decision));
            }
        }
        answers
    }
}

impl StandIn {
    /// What a limit's local bucket is asked; none if it has no say.
    fn asked(
        &self,
        batch: &Batch,
        item: &BatchItem,
        mode: FailureMode,
        charge: Charge,
        now: Micros,
    ) -> Option<Asked> {
        let is_take = matches!(charge, Charge::Take(_));
        let refused = match mode {
            FailureMode::Open | FailureMode::Error => return None,
            FailureMode::Closed if !is_take => return None,
            FailureMode::Closed => Some(refused(&item.limit, Some(super::CLOSED_WAIT))),
            FailureMode::Local if matches!(charge, Charge::Refund(_)) => None,
            FailureMode::Local => {
                let (limit, hits) = (&item.limit, charge.hits());
                let wait = self.refusals.refused(batch.key(item), limit, hits, now);
                wait.map(|wait| still_refused(limit, hits, wait))
            }
        };
        let limit = self.share.pace(&item.limit, item.post_paid);
        let asked = Asked { place: 0, limit, charge, debt: 0, refused, post_paid: item.post_paid };
        Some(match refused {
            // It refuses its group as a limit of nothing does, and remembers nothing.
            Some(_) if is_take => asked.of_nothing(),
            _ => asked.heavy(),
        })
    }
}

impl Asked {
    /// What the store refused of a group that it could not decide as a whole, as where the group has
    /// limits in two Redis: it refuses the rest as well.
    fn decided(item: &BatchItem, charge: Charge, decision: Decision) -> Option<Self> {
        let is_refused = !decision.allowed && matches!(charge, Charge::Take(_));
        is_refused.then(|| {
            let (limit, post_paid) = (item.limit, item.post_paid);
            let refused = Some(decision);
            Self { place: 0, limit, charge, debt: 0, refused, post_paid }.of_nothing()
        })
    }

    fn of_nothing(mut self) -> Self {
        self.limit.requests = 0;
        self.limit.count_denied = false;
        self.post_paid = false;
        self
    }

    /// A charge above the bucket but within the limit takes all there can be, and owes the rest.
    fn heavy(mut self) -> Self {
        let (capacity, most) = (self.limit.capacity(), self.limit.requests.into());
        if let Charge::Take(hits) = self.charge
            && capacity < hits
            && hits <= most
        {
            self.charge = Charge::Take(capacity);
            self.debt = hits - capacity;
        }
        self
    }

    fn answer(&self, decision: Decision) -> Decision {
        if let Some(refused) = self.refused {
            return Decision { written: decision.written, ..refused };
        }
        if self.debt == 0 || !decision.written {
            return decision;
        }
        let drip = time_to_drip(self.debt, &self.limit);
        Decision {
            remaining: 0,
            wait: decision.wait.map(|wait| wait.saturating_add(drip)),
            reset: decision.reset.saturating_add(drip),
            ..decision
        }
    }
}

/// A batch that records what a heavy charge owes.
fn owed(batch: &Batch, item: &BatchItem, asked: &Asked) -> Batch {
    let mut debt = batch.peek(item);
    for item in &mut debt.items {
        item.limit.count_denied = true;
    }
    for member in &mut debt.members {
        member.charge = Charge::Take(asked.debt);
    }
    debt
}

fn time_to_drip(hits: u64, limit: &Limit) -> Micros {
    let time = u128::from(hits) * u128::from(limit.window.0);
    let drip = time.div_ceil(u128::from(limit.requests.max(1)));
    Micros(u64::try_from(drip).unwrap_or(u64::MAX))
}
