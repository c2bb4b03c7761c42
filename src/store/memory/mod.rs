//! Buckets in this process's memory: sharded by hash tag, bounded, each group under a short lock.
//!
//! A thread waits for a second lock only in the order of the shards, for a group that spans hash
//! tags. To make room it may also try other shards while it holds one, but never waits for them.

mod bucket;
mod group;
mod room;
mod shard;

use super::{Batch, BatchItem, Decisions};
use crate::algorithm::{Charge, Decision, Limit, State, decide};
use crate::clock::{Clock, Micros};
use bucket::{Bucket, Use};
use room::Room;
use shard::{Freed, Key, Shard};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How much a memory store may hold.
#[derive(Clone, Copy, Debug)]
pub struct MemoryConfig {
    /// Most buckets, at least 1; a log's entries count one each.
    pub max_buckets: usize,
}

/// The store.
#[derive(Debug)]
pub struct MemoryStore {
    shards: Box<[Slot]>,
    room: Room,
    hasher: ahash::RandomState,
    clock: Arc<dyn Clock>,
}

/// A shard on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Slot(Mutex<Shard>);

/// More shards than threads, so that two seldom want the same one.
const MAX_SHARDS: usize = 128;

/// Fewer buckets than this in a shard make a poor sample.
const MIN_SHARD_BUCKETS: usize = 64;

impl MemoryStore {
    /// An empty store.
    pub fn new(config: MemoryConfig, clock: Arc<dyn Clock>) -> Self {
        let n_shards = (config.max_buckets / MIN_SHARD_BUCKETS).clamp(1, MAX_SHARDS);
        let hasher = ahash::RandomState::new();
        let shards = (0..n_shards).map(|i| Slot(Mutex::new(Shard::new(hasher.hash_one(i)))));
        Self {
            shards: shards.collect(),
            room: Room::new(config.max_buckets, n_shards),
            hasher,
            clock,
        }
    }

    /// Decides a batch: one decision per item, in its order.
    pub fn decide(&self, batch: &Batch) -> Decisions {
        let now = self.clock.now();
        let mut decisions = Decisions::with_capacity(batch.items.len());
        for group in &batch.groups {
            match batch.group(group.clone()) {
                ([member], [item]) => {
                    let key = self.key(batch, item);
                    decisions.push(self.decide_alone(&key, &item.limit, member.charge, now));
                }
                (members, items) => self.decide_group(batch, members, items, now, &mut decisions),
            }
        }
        decisions
    }

    /// What a peek would be answered, if the bucket exists; changes nothing.
    pub fn inspect(&self, batch: &Batch, item: &BatchItem) -> Option<Decision> {
        let key = self.key(batch, item);
        let state = self.lock(key.shard).get(&key)?.state.clone()?;
        Some(decide(Some(state), &item.limit, Charge::Peek, self.clock.now()).1)
    }

    /// Forgets a bucket. Says whether there was one.
    pub fn reset(&self, batch: &Batch, item: &BatchItem) -> bool {
        let key = self.key(batch, item);
        let freed = self.lock(key.shard).remove(&key);
        self.room.free(freed.unwrap_or_default());
        freed.is_some()
    }

    /// How many buckets it holds, a log's entries one each; some may have expired.
    pub fn live_buckets(&self) -> usize {
        self.room.weight()
    }

    /// How many live buckets were given up for want of room, since the start.
    pub fn evictions(&self) -> u64 {
        self.room.evictions()
    }

    fn decide_alone(&self, key: &Key<'_>, limit: &Limit, charge: Charge, now: Micros) -> Decision {
        let mut shard = self.lock(key.shard);
        let Some(bucket) = shard.get_mut(key) else {
            let (state, decision) = decide(None, limit, charge, now);
            if let Some(state) = state {
                self.insert(&mut shard, key, state, &Use::of(&decision, limit, now));
            }
            return decision;
        };
        let before = bucket.weight();
        let (state, decision) = decide(bucket.state.take(), limit, charge, now);
        let usage = Use::of(&decision, limit, now);
        if state.as_ref().map_or(0, State::weight) == before {
            bucket.put_back(state, &usage);
        } else {
            self.put_back(&mut shard, key, before, state, &usage);
        }
        decision
    }

    /// Puts a bucket's state back that was taken out when it weighed `before`.
    fn put_back(
        &self,
        shard: &mut Shard,
        key: &Key<'_>,
        before: usize,
        state: Option<State>,
        usage: &Use,
    ) {
        let after = state.as_ref().map_or(0, State::weight);
        self.room.free(Freed { buckets: 0, weight: before.saturating_sub(after) });
        if after <= before || self.make_room(shard, after, after - before, usage.at) {
            if let Some(bucket) = shard.get_mut(key) {
                bucket.put_back(state, usage);
            }
            return;
        }
        shard.remove(key);
        self.room.free(Freed { buckets: 1, weight: before });
        self.room.count_eviction();
    }

    fn insert(&self, shard: &mut Shard, key: &Key<'_>, state: State, usage: &Use) {
        self.room.free(shard.collect(usage.at));
        let weight = state.weight();
        if self.make_room(shard, weight, weight, usage.at) {
            shard.insert(key, Bucket::new(state, usage));
            self.room.count_bucket();
        } else {
            self.room.count_eviction();
        }
    }

    fn key<'a>(&self, batch: &'a Batch, item: &BatchItem) -> Key<'a> {
        let text = batch.key(item);
        let shard = pick(self.hasher.hash_one(batch.tag(item)), self.shards.len());
        Key { text, hash: self.hasher.hash_one(text), shard }
    }

    #[expect(clippy::indexing_slicing, reason = "a key's shard is picked among those there are")]
    fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.shards[shard].0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number below `n`, made of the higher bits of a random one.
#[expect(clippy::cast_possible_truncation, reason = "the result is below n")]
fn pick(random: u64, n: usize) -> usize {
    ((u128::from(random) * n as u128) >> 64) as usize
}

#[cfg(test)]
mod tests;
