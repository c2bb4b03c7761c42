//! The bound on all shards together, and who gives way when it is reached.

use super::MemoryStore;
use super::shard::{Evicted, Freed, Shard};
use crate::clock::Micros;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, TryLockError};

/// How much is held, and how much may be.
#[derive(Debug)]
pub(super) struct Room {
    max: usize,
    n_shards: usize,
    weight: AtomicUsize,
    buckets: AtomicUsize,
    evictions: AtomicU64,
}

impl Room {
    pub(super) fn new(max: usize, n_shards: usize) -> Self {
        let [weight, buckets] = [AtomicUsize::new(0), AtomicUsize::new(0)];
        Self { max, n_shards, weight, buckets, evictions: AtomicU64::new(0) }
    }

    /// What all buckets count towards the bound.
    pub(super) fn weight(&self) -> usize {
        self.weight.load(Ordering::Relaxed)
    }

    pub(super) fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    pub(super) fn count_eviction(&self) {
        self.evictions.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a new bucket, whose weight is reserved.
    pub(super) fn count_bucket(&self) {
        self.buckets.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn free(&self, freed: Freed) {
        if freed != Freed::default() {
            self.buckets.fetch_sub(freed.buckets, Ordering::Relaxed);
            self.weight.fetch_sub(freed.weight, Ordering::Relaxed);
        }
    }

    fn reserve(&self, n: usize) -> bool {
        let grown = |weight: usize| weight.checked_add(n).filter(|weight| *weight <= self.max);
        self.weight.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok()
    }

    /// How many buckets a shard holds on average. Buckets rather than their weights: one long log
    /// must not make its neighbours pay for everybody.
    fn fair(&self) -> usize {
        self.buckets.load(Ordering::Relaxed) / self.n_shards
    }
}

impl MemoryStore {
    /// Reserves room for `growth` more of a bucket in `own` that will weigh `weight`, and evicts
    /// others until there is. False if it is heavier than the whole store or nothing can give way.
    pub(super) fn make_room(
        &self,
        own: &mut Shard,
        weight: usize,
        growth: usize,
        now: Micros,
    ) -> bool {
        if weight > self.room.max {
            return false;
        }
        while !self.room.reserve(growth) {
            let Some(evicted) = self.evict(own, now) else { return false };
            self.room.free(evicted.freed);
            if evicted.live {
                self.room.count_eviction();
            }
        }
        true
    }

    /// A shard with its fair share of buckets gives way itself; for one with less, another does
    /// that has more, so that a flood in one shard does not drive out the few of the others.
    fn evict(&self, own: &mut Shard, now: Micros) -> Option<Evicted> {
        let fair = self.room.fair();
        if own.len() < fair
            && let Some(evicted) = self.evict_elsewhere(own.draw(self.shards.len()), fair, now)
        {
            return Some(evicted);
        }
        own.evict(now).or_else(|| self.evict_elsewhere(0, 0, now))
    }

    /// Evicts from the first shard from `start` on that nobody locks and that holds more buckets
    /// than `fair`.
    fn evict_elsewhere(&self, start: usize, fair: usize, now: Micros) -> Option<Evicted> {
        let (before, from) = self.shards.split_at_checked(start)?;
        from.iter().chain(before).find_map(|slot| {
            let mut shard = match slot.0.try_lock() {
                Ok(shard) => shard,
                Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
                Err(TryLockError::WouldBlock) => return None,
            };
            if shard.len() > fair { shard.evict(now) } else { None }
        })
    }
}
