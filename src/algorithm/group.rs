//! Decides the charges of several buckets together, all or nothing. Twin: `lua/driver.lua`.

use super::{Charge, Decision, Limit, State};
use crate::clock::Micros;
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

/// Decides the members in order, one decision per item into `decisions`, and leaves in `buckets`
/// what they hold afterwards.
///
/// A member alone, or a group of which nobody who votes refuses: each member that fits consumes.
/// A refused group consumes only refunds, charges that their own limit refused and counts
/// (`count_denied`), and every charge of a post-paid limit; the charges that would have fitted
/// are reported as allowed with what remains without them.
pub fn decide_group(
    _members: &[Member],
    _items: &[Item],
    _buckets: &mut [Option<State>],
    _now: Micros,
    _decisions: &mut Vec<Decision>,
) {
    todo!()
}
