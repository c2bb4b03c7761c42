//! Decides several buckets together: takes their states out, and puts back what is left in them.

use super::bucket::Use;
use super::shard::{Key, Shard};
use super::{Batch, BatchItem, Decisions, MemoryStore};
use crate::algorithm::{Decision, Item, Member, State, decide_group};
use crate::clock::Micros;
use crate::store::BatchMember;
use smallvec::SmallVec;
use std::sync::MutexGuard;

/// The distinct buckets of a group.
struct Buckets<'a> {
    /// In the order of their hashes.
    keys: SmallVec<[Key<'a>; 4]>,
    /// Which of them each item charges.
    of_items: SmallVec<[usize; 4]>,
}

/// Locked shards, in their order.
type Locked<'a> = SmallVec<[(usize, MutexGuard<'a, Shard>); 2]>;

impl MemoryStore {
    pub(super) fn decide_group(
        &self,
        batch: &Batch,
        members: &[BatchMember],
        items: &[BatchItem],
        now: Micros,
        decisions: &mut Decisions,
    ) {
        let buckets = Buckets::of(items.iter().map(|item| self.key(batch, item)));
        let (members, items) = as_decided(members, items, &buckets);
        // Whatever needs memory gets it before others may have to wait.
        let n_buckets = buckets.keys.len();
        let mut decided = Vec::with_capacity(items.len());
        let mut states: SmallVec<[Option<State>; 4]> = SmallVec::with_capacity(n_buckets);
        let mut before: SmallVec<[usize; 4]> = SmallVec::with_capacity(n_buckets);
        let mut uses = SmallVec::from_elem(None, n_buckets);
        let mut locked = self.lock_all(&buckets);
        states.extend(buckets.keys.iter().map(|key| take(&mut locked, key)));
        before.extend(states.iter().map(|state| weight(state.as_ref())));
        decide_group(&members, &items, &mut states, now, &mut decided);
        add_uses(&mut uses, &items, &decided, now);
        for (((key, before), state), usage) in buckets.keys.iter().zip(before).zip(states).zip(uses)
        {
            if let (Some(shard), Some(usage)) = (shard(&mut locked, key), usage) {
                self.settle(shard, key, before, state, &usage);
            }
        }
        drop(locked);
        decisions.extend_from_slice(&decided);
    }

    fn settle(
        &self,
        shard: &mut Shard,
        key: &Key<'_>,
        before: usize,
        state: Option<State>,
        usage: &Use,
    ) {
        if before > 0 {
            self.put_back(shard, key, before, state, usage);
        } else if let Some(state) = state {
            self.insert(shard, key, state, usage);
        }
    }

    fn lock_all(&self, buckets: &Buckets<'_>) -> Locked<'_> {
        let mut shards: SmallVec<[usize; 4]> = buckets.keys.iter().map(|key| key.shard).collect();
        shards.sort_unstable();
        shards.dedup();
        let mut locked = Locked::with_capacity(shards.len());
        locked.extend(shards.into_iter().map(|shard| (shard, self.lock(shard))));
        locked
    }
}

impl<'a> Buckets<'a> {
    /// Sorted rather than searched: a request may hold very many.
    fn of(keys: impl Iterator<Item = Key<'a>>) -> Self {
        let keys: SmallVec<[Key<'a>; 4]> = keys.collect();
        let name = |item: &usize| keys.get(*item).map(|key| (key.hash, key.text));
        let mut order: SmallVec<[usize; 4]> = (0..keys.len()).collect();
        order.sort_unstable_by_key(name);
        let mut buckets =
            Self { keys: SmallVec::new(), of_items: SmallVec::from_elem(0, keys.len()) };
        let mut last = None;
        for item in order {
            if last != name(&item) {
                last = name(&item);
                buckets.keys.extend(keys.get(item).copied());
            }
            if let Some(bucket) = buckets.of_items.get_mut(item) {
                *bucket = buckets.keys.len() - 1;
            }
        }
        buckets
    }
}

fn as_decided(
    members: &[BatchMember],
    items: &[BatchItem],
    buckets: &Buckets<'_>,
) -> (SmallVec<[Member; 4]>, SmallVec<[Item; 4]>) {
    let start = members.first().map_or(0, |member| member.items.start);
    let members = members.iter().map(|member| Member {
        charge: member.charge,
        votes: member.votes,
        items: member.items.start - start..member.items.end - start,
    });
    let items = items.iter().zip(&buckets.of_items).map(|(item, bucket)| Item {
        bucket: *bucket,
        limit: item.limit,
        post_paid: item.post_paid,
    });
    (members.collect(), items.collect())
}

/// How each bucket was used: as its last item says, and written if any of its items wrote.
fn add_uses(
    uses: &mut SmallVec<[Option<Use>; 4]>,
    items: &[Item],
    decisions: &[Decision],
    now: Micros,
) {
    for (item, decision) in items.iter().zip(decisions) {
        if let Some(usage) = uses.get_mut(item.bucket) {
            *usage = Some(Use::of(decision, &item.limit, now).after(*usage));
        }
    }
}

fn take(locked: &mut Locked<'_>, key: &Key<'_>) -> Option<State> {
    shard(locked, key)?.get_mut(key)?.state.take()
}

fn shard<'a>(locked: &'a mut Locked<'_>, key: &Key<'_>) -> Option<&'a mut Shard> {
    let place = locked.binary_search_by_key(&key.shard, |(shard, _)| *shard).ok()?;
    locked.get_mut(place).map(|(_, shard)| &mut **shard)
}

pub(super) fn weight(state: Option<&State>) -> usize {
    state.map_or(0, State::weight)
}
