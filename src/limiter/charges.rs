//! From limits to what the store is asked: keys, charges, and which of them stand or fall together.

use super::plan::{Plan, Planned};
use super::{Descriptor, Options, Request};
use crate::rules::{Consume, Domain, Entry, KeyRange, write_key};
use crate::store::{Batch, BatchItem, BatchMember};
use smallvec::SmallVec;
use std::ops::Range;

/// What the store is asked for a request.
#[derive(Debug)]
pub(super) struct Charges {
    pub(super) batch: Batch,
    /// The items of each descriptor, in their order; empty for one that nothing limits.
    pub(super) items: Items,
}

/// The items of each descriptor.
pub(super) type Items = SmallVec<[Range<usize>; 4]>;

/// Which descriptors stand or fall together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grouping {
    Each,
    ByTag,
    Whole,
}

/// What a key takes at a guess, so that the text of most requests is allocated once.
const KEY_BYTES: usize = 128;

impl Charges {
    pub(super) fn of(
        domain: &Domain,
        request: &Request<'_>,
        plan: &Plan<'_>,
        options: Options,
        spans_tags: bool,
    ) -> Self {
        let n = request.descriptors.len();
        let mut charges = Self { batch: Batch::default(), items: SmallVec::from_elem(0..0, n) };
        let grouping = Grouping::of(domain, n, options, spans_tags);
        let mut push = |at: usize| {
            if let (Some(descriptor), Some(planned)) =
                (request.descriptors.get(at), plan.descriptors.get(at))
            {
                let items = charges.push(domain, descriptor, planned, options, grouping);
                charges.items.get_mut(at).into_iter().for_each(|place| *place = items.clone());
            }
        };
        match grouping {
            Grouping::ByTag => by_tag(domain, request, plan).into_iter().for_each(push),
            Grouping::Each | Grouping::Whole => (0..n).for_each(&mut push),
        }
        charges
    }

    fn push(
        &mut self,
        domain: &Domain,
        descriptor: &Descriptor<'_>,
        planned: &Planned<'_>,
        options: Options,
        grouping: Grouping,
    ) -> Range<usize> {
        let start = self.batch.items.len();
        for limit in planned.limits() {
            if self.batch.keys.is_empty() {
                self.batch.keys.reserve(KEY_BYTES);
            }
            let key = planned.write_key(&mut self.batch.keys, domain, descriptor, &limit.kind);
            let (limit, post_paid) = (limit.limit, limit.post_paid);
            self.batch.items.push(BatchItem { key, limit, post_paid });
        }
        let items = start..self.batch.items.len();
        if !items.is_empty() {
            let votes = !options.quota_mode && planned.is_enforced();
            let charge = descriptor.charge;
            self.batch.members.push(BatchMember { charge, votes, items: items.clone() });
            self.group_last(grouping);
        }
        items
    }

    /// Puts the last member into the last group or a new one.
    fn group_last(&mut self, grouping: Grouping) {
        let joins = match grouping {
            Grouping::Each => false,
            Grouping::Whole => true,
            Grouping::ByTag => match &*self.batch.members {
                [.., before, last] => self.tag(before) == self.tag(last),
                _ => false,
            },
        };
        let end = self.batch.members.len();
        match self.batch.groups.last_mut() {
            Some(group) if joins => group.end = end,
            _ => self.batch.groups.push(end - 1..end),
        }
    }

    fn tag(&self, member: &BatchMember) -> &str {
        self.batch.items.get(member.items.start).map_or("", |item| self.batch.tag(item))
    }
}

impl Grouping {
    fn of(domain: &Domain, n_descriptors: usize, options: Options, spans_tags: bool) -> Self {
        match domain.consume {
            _ if n_descriptors == 1 => Self::Each,
            _ if options.stop_when_over_limit && spans_tags => Self::Whole,
            _ if options.stop_when_over_limit => Self::ByTag,
            Consume::AllOrNothing => Self::ByTag,
            Consume::Each => Self::Each,
        }
    }
}

impl Planned<'_> {
    /// Whether its refusal refuses the request, and so the others of its group: neither shadow nor
    /// quota.
    fn is_enforced(&self) -> bool {
        self.rule().is_none_or(|rule| !rule.shadow_mode && !rule.quota_mode)
    }

    /// Writes the key of the bucket of that kind.
    pub(super) fn write_key(
        &self,
        text: &mut String,
        domain: &Domain,
        descriptor: &Descriptor<'_>,
        kind: &str,
    ) -> KeyRange {
        let entries = descriptor.entries.iter().copied();
        match self {
            Self::Rule(matched) => {
                let counted = entries.zip(&matched.found.nodes).map(|(entry, node)| Entry {
                    key: entry.key,
                    value: node.bucket_value(entry.value),
                });
                write_key(text, domain, counted, kind)
            }
            Self::Unmatched | Self::Override(_) => write_key(text, domain, entries, kind),
        }
    }
}

/// The descriptors in an order in which those of one hash tag stand beside each other, each tag's
/// in the order of the request.
fn by_tag(domain: &Domain, request: &Request<'_>, plan: &Plan<'_>) -> SmallVec<[usize; 4]> {
    let mut text = String::new();
    let ranges = request.descriptors.iter().zip(&plan.descriptors);
    let tags: SmallVec<[Range<usize>; 4]> = ranges
        .map(|(descriptor, planned)| planned.write_key(&mut text, domain, descriptor, "").tag)
        .collect();
    let mut order: SmallVec<[usize; 4]> = (0..tags.len()).collect();
    order.sort_by_key(|at| tags.get(*at).and_then(|tag| text.get(tag.clone())));
    order
}
