//! The bound on all shards together, and who gives way when it is reached.

use super::MemoryStore;
use super::shard::{Evicted, Shard};
use crate::clock::Micros;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, TryLockError};

/// How much is held, and how much may be.
#[derive(Debug)]
pub(super) struct Room {
    max: usize,
    /// What each shard may hold however full the others are.
    fair: usize,
    held: AtomicUsize,
    evictions: AtomicU64,
}

impl Room {
    pub(super) fn new(max: usize, n_shards: usize) -> Self {
        Self { max, fair: max / n_shards, held: AtomicUsize::new(0), evictions: AtomicU64::new(0) }
    }

    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    pub(super) fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    pub(super) fn count_eviction(&self) {
        self.evictions.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn release(&self, n: usize) {
        if n > 0 {
            self.held.fetch_sub(n, Ordering::Relaxed);
        }
    }

    fn reserve(&self, n: usize) -> bool {
        let grown = |held: usize| held.checked_add(n).filter(|held| *held <= self.max);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok()
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
            self.room.release(evicted.weight);
            if evicted.live {
                self.room.count_eviction();
            }
        }
        true
    }

    /// A shard with its fair share gives way itself; one with less takes from another that has
    /// more, so that a flood in one shard does not drive out the few of the others.
    fn evict(&self, own: &mut Shard, now: Micros) -> Option<Evicted> {
        if own.weight() < self.room.fair
            && let Some(evicted) =
                self.evict_elsewhere(own.draw(self.shards.len()), self.room.fair, now)
        {
            return Some(evicted);
        }
        own.evict(now).or_else(|| self.evict_elsewhere(0, 0, now))
    }

    /// Evicts from the first shard from `start` on that is free and holds more than `fair`.
    fn evict_elsewhere(&self, start: usize, fair: usize, now: Micros) -> Option<Evicted> {
        let (before, from) = self.shards.split_at_checked(start)?;
        from.iter().chain(before).find_map(|slot| {
            let mut shard = match slot.0.try_lock() {
                Ok(shard) => shard,
                Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
                Err(TryLockError::WouldBlock) => return None,
            };
            if shard.weight() > fair { shard.evict(now) } else { None }
        })
    }
}
