//! What one request asks of a store.

use super::StoreError;
use crate::algorithm::{Charge, Decision, Limit};
use crate::rules::KeyRange;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// What one request asks of the store: charges to buckets, in groups that are decided atomically.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Text that the key ranges point into.
    pub keys: String,
    /// Limits, in the order of the members.
    pub items: SmallVec<[BatchItem; 4]>,
    /// Descriptors that have limits, in the order of the groups.
    pub members: SmallVec<[BatchMember; 4]>,
    /// Members that stand or fall together, as ranges of them. All of one hash tag, save under
    /// `STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT`.
    pub groups: SmallVec<[Range<usize>; 4]>,
}

/// One limit of a descriptor.
#[derive(Clone, Debug)]
pub struct BatchItem {
    /// Its bucket's key.
    pub key: KeyRange,
    /// What the bucket is measured against.
    pub limit: Limit,
    /// Whether the policy itself says `count_denied: true`.
    pub post_paid: bool,
}

/// One descriptor.
#[derive(Clone, Debug)]
pub struct BatchMember {
    /// What is asked of each of its buckets.
    pub charge: Charge,
    /// Whether its refusal refuses its group.
    pub votes: bool,
    /// Its items.
    pub items: Range<usize>,
}

/// Some of a request's charges. What is left of a group stays a group.
#[derive(Debug, Default)]
pub struct Part {
    /// The charges.
    pub batch: Arc<Batch>,
    /// Where its items stand in the whole.
    pub items: SmallVec<[usize; 4]>,
}

/// What became of each item of a batch, in its order.
pub type Outcomes = SmallVec<[Result<Decision, StoreError>; 4]>;

/// One decision per item of the batch, in its order.
pub type Decisions = SmallVec<[Decision; 4]>;

impl Batch {
    /// The key of an item.
    pub fn key(&self, item: &BatchItem) -> &str {
        self.keys.get(item.key.key.clone()).unwrap_or_default()
    }

    /// The hash tag of an item.
    pub fn tag(&self, item: &BatchItem) -> &str {
        self.keys.get(item.key.tag.clone()).unwrap_or_default()
    }

    /// A batch that does nothing but peek at an item's bucket.
    #[must_use]
    pub fn peek(&self, item: &BatchItem) -> Self {
        let member = BatchMember { charge: Charge::Peek, votes: false, items: 0..1 };
        Self {
            keys: self.keys.clone(),
            items: SmallVec::from_iter([item.clone()]),
            members: SmallVec::from_iter([member]),
            groups: std::iter::once(0..1).collect(),
        }
    }

    /// The members of a group and the items of all of them.
    pub fn group(&self, group: Range<usize>) -> (&[BatchMember], &[BatchItem]) {
        let members = self.members.get(group).unwrap_or_default();
        let (Some(first), Some(last)) = (members.first(), members.last()) else {
            return (&[], &[]);
        };
        (members, self.items.get(first.items.start..last.items.end).unwrap_or_default())
    }
}

impl Part {
    /// The charges of the members that belong to it.
    pub fn of(batch: &Batch, belongs: impl Fn(&BatchMember) -> bool) -> Self {
        let mut part = Batch { keys: batch.keys.clone(), ..Batch::default() };
        let mut places = SmallVec::new();
        for group in &batch.groups {
            let start = part.members.len();
            let members = batch.members.get(group.clone()).unwrap_or_default();
            for member in members.iter().filter(|member| belongs(member)) {
                let first = part.items.len();
                let items = batch.items.get(member.items.clone()).unwrap_or_default();
                part.items.extend(items.iter().cloned());
                places.extend(member.items.clone());
                part.members.push(BatchMember { items: first..part.items.len(), ..*member });
            }
            if part.members.len() > start {
                part.groups.push(start..part.members.len());
            }
        }
        Self { batch: Arc::new(part), items: places }
    }
}
