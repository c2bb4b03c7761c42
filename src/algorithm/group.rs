//! Decides the charges of several buckets together, all or nothing. Twin: `lua/group.lua`.

use super::{Charge, Decision, Limit, State, decide};
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
}

/// Buckets on which charges are tried.
struct Group<'a> {
    items: &'a [Item],
    buckets: &'a mut [Option<State>],
    now: Micros,
    /// What buckets held before the charges that may have to be undone, in their order.
    undo: SmallVec<[(usize, Option<State>); 4]>,
    /// Whether a later member may undo everything.
    in_doubt: bool,
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

    fn apply(&mut self, item: &Item, charge: Charge, may_undo: bool) -> Decision {
        let mut nowhere = None;
        let bucket = self.buckets.get_mut(item.bucket).unwrap_or(&mut nowhere);
        if may_undo {
            self.undo.push((item.bucket, bucket.clone()));
        }
        let (state, decision) = decide(bucket.take(), &item.limit, charge, self.now);
        *bucket = state;
        decision
    }

    /// Undoes all but the first `mark` charges.
    fn restore(&mut self, mark: usize) {
        while self.undo.len() > mark
            && let Some((bucket, state)) = self.undo.pop()
        {
            if let Some(bucket) = self.buckets.get_mut(bucket) {
                *bucket = state;
            }
        }
    }
}

impl Item {
    /// Whether its charge is consumed although the member or the group was refused.
    fn is_spent(&self, verdict: &Decision) -> bool {
        self.post_paid || (!verdict.allowed && self.limit.count_denied)
    }
}
