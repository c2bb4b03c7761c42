//! Decides the charges of several buckets together, all or nothing. Twin: `lua/group.lua`.

use super::sliding_window_log::Tail;
use super::{Algorithm, Charge, Decision, Limit, State, decide};
use crate::clock::Micros;
use smallvec::SmallVec;
use std::ops::Range;

/// One limit of a descriptor: which bucket it keeps, what that is measured against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Index of the bucket among those given to [`decide_group`]; two items may share one.
    pub bucket: usize,
    /// What the bucket is measured against.
    pub limit: Limit,
    /// Whether the policy itself says `count_denied: true`: the cost is spent whoever refuses.
    pub post_paid: bool,
}

/// One descriptor: one charge to all of its limits, which fits only if it fits every one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// What is asked of each of its buckets.
    pub charge: Charge,
    /// Whether its refusal refuses the group: enforced, neither shadow nor quota.
    /// Peeks and refunds never do, whatever this says.
    pub votes: bool,
    /// Its items.
    pub items: Range<usize>,
}

/// Decides the members in order, appends one decision per item to `decisions`, and leaves in
/// `buckets` what they hold afterwards.
///
/// A member alone, or a group of which nobody who votes refuses: each member that fits consumes.
/// A refused group consumes only refunds, charges that their own limit refused and counts
/// (`count_denied`), and every charge of a post-paid limit; the charges that would have fitted
/// are reported as allowed with what remains without them.
pub fn decide_group(
    members: &[Member],
    items: &[Item],
    buckets: &mut [Option<State>],
    now: Micros,
    decisions: &mut Vec<Decision>,
) {
    let mut group = Group { items, buckets, now, undo: SmallVec::new(), in_doubt: false };
    if let [member] = members {
        group.decide_member(member, decisions);
        group.keep();
        return;
    }
    let first = decisions.len();
    group.in_doubt = members.iter().any(Member::can_refuse);
    let mut refused = false;
    for member in members {
        let fits = group.decide_member(member, decisions);
        refused |= !fits && member.can_refuse();
    }
    if refused {
        group.in_doubt = false;
        group.restore(0);
        let mut verdicts = decisions.get_mut(first..).unwrap_or_default().iter_mut();
        for member in members {
            group.settle(member, &mut verdicts);
        }
    }
    group.keep();
}

/// Buckets on which charges are tried.
struct Group<'a> {
    items: &'a [Item],
    buckets: &'a mut [Option<State>],
    now: Micros,
    /// What buckets held before the charges that may have to be undone, in their order.
    undo: SmallVec<[(&'a Item, Before); 4]>,
    /// Whether a later member may undo everything.
    in_doubt: bool,
}

/// What a bucket held before a charge.
#[derive(Debug)]
enum Before {
    /// All of it.
    State(Option<State>),
    /// What a take has changed of a log, which may be long.
    Tail(Tail),
}

impl Member {
    fn can_refuse(&self) -> bool {
        self.votes && matches!(self.charge, Charge::Take(_))
    }
}

impl<'a> Group<'a> {
    /// Decides a member as if it were alone; says whether it fits.
    fn decide_member(&mut self, member: &Member, decisions: &mut Vec<Decision>) -> bool {
        let items = self.items_of(member);
        let (first, mark) = (decisions.len(), self.undo.len());
        let is_list = items.len() > 1 && matches!(member.charge, Charge::Take(_));
        let may_undo = is_list || (self.in_doubt && member.charge != Charge::Peek);
        let mut fits = true;
        for item in items {
            let decision = self.apply(item, member.charge, may_undo);
            fits &= decision.allowed;
            decisions.push(decision);
        }
        if is_list && !fits {
            self.restore(mark);
            self.settle(member, &mut decisions.get_mut(first..).unwrap_or_default().iter_mut());
        }
        fits
    }

    /// Consumes what a refused member or group consumes all the same. The verdicts stand, the
    /// rest of each decision is that of what is left.
    fn settle<'d>(
        &mut self,
        member: &Member,
        verdicts: &mut impl Iterator<Item = &'d mut Decision>,
    ) {
        for (item, verdict) in self.items_of(member).iter().zip(verdicts) {
            let spared = matches!(member.charge, Charge::Take(_)) && !item.is_spent(verdict);
            let charge = if spared { Charge::Peek } else { member.charge };
            let decision = self.apply(item, charge, self.in_doubt);
            let recorded = charge != Charge::Peek && !decision.allowed;
            let wait = if recorded { decision.wait } else { verdict.wait };
            *verdict = Decision {
                allowed: verdict.allowed,
                wait: wait.filter(|_| !verdict.allowed),
                // A peek that set a clock back was not undone.
                written: decision.written || (member.charge == Charge::Peek && verdict.written),
                ..decision
            };
        }
    }

    fn items_of(&self, member: &Member) -> &'a [Item] {
        self.items.get(member.items.clone()).unwrap_or_default()
    }

    fn apply(&mut self, item: &'a Item, charge: Charge, may_undo: bool) -> Decision {
        let mut nowhere = None;
        let bucket = self.buckets.get_mut(item.bucket).unwrap_or(&mut nowhere);
        if may_undo {
            if let Some((decision, tail)) = try_take_of_log(bucket, item, charge, self.now) {
                if decision.written {
                    self.undo.push((item, Before::Tail(tail)));
                }
                return decision;
            }
            self.undo.push((item, Before::State(bucket.clone())));
        }
        let (state, decision) = decide(bucket.take(), &item.limit, charge, self.now);
        *bucket = state;
        decision
    }

    /// Undoes all but the first `mark` charges.
    fn restore(&mut self, mark: usize) {
        while self.undo.len() > mark
            && let Some((item, before)) = self.undo.pop()
        {
            match (self.buckets.get_mut(item.bucket), before) {
                (Some(bucket), Before::State(state)) => *bucket = state,
                (Some(Some(State::SlidingWindowLog(log))), Before::Tail(tail)) => log.restore(tail),
                (_, Before::Tail(_)) | (None, _) => {}
            }
        }
    }

    /// Ends the time in which charges may be undone.
    fn keep(&mut self) {
        for (item, before) in self.undo.drain(..) {
            if let (Before::Tail(_), Some(Some(State::SlidingWindowLog(log)))) =
                (before, self.buckets.get_mut(item.bucket))
            {
                log.drop_dead(&item.limit, self.now);
            }
        }
    }
}

fn try_take_of_log(
    bucket: &mut Option<State>,
    item: &Item,
    charge: Charge,
    now: Micros,
) -> Option<(Decision, Tail)> {
    match (bucket, item.limit.algorithm, charge) {
        (Some(State::SlidingWindowLog(log)), Algorithm::SlidingWindowLog, Charge::Take(hits)) => {
            log.try_take(&item.limit, hits, now)
        }
        _ => None,
    }
}

impl Item {
    /// Whether its charge is consumed although the member or the group was refused.
    fn is_spent(&self, verdict: &Decision) -> bool {
        self.post_paid || (!verdict.allowed && self.limit.count_denied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_not_copied_to_undo_a_take_of_it() {
        let limit = Limit {
            algorithm: Algorithm::SlidingWindowLog,
            requests: 100,
            window: Micros::from_secs(10),
            burst: 0,
            count_denied: false,
        };
        let mut state = None;
        for second in 0..15 {
            let now = Micros::from_secs(100 + second);
            state = decide(state, &limit, Charge::Take(1), now).0;
        }
        let items = [Item { bucket: 0, limit, post_paid: false }];
        // By now three entries are dead, which an undone take must leave where they are.
        let (before, now) = (state.clone(), Micros::from_secs(117));
        let mut buckets = [state];
        let (buckets, items) = (&mut buckets, &items);
        let mut group = Group { items, buckets, now, undo: SmallVec::new(), in_doubt: true };
        for _ in 0..3 {
            assert!(group.apply(&items[0], Charge::Take(2), true).allowed);
        }
        assert!(matches!(*group.undo, [(_, Before::Tail(_)), (_, Before::Tail(_)), _]));
        group.restore(0);
        assert_eq!(group.buckets[0], before);
        group.apply(&items[0], Charge::Take(2), true);
        group.keep();
        let expected = decide(before, &limit, Charge::Take(2), now).0;
        assert_eq!(group.buckets[0], expected);
    }
}
