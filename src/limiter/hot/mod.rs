//! Which buckets, and which hash slots of Redis, are asked most. A sample is looked at, its size
//! bounded by time and what is kept by number; a request that does not belong to it pays for one
//! random number.

mod top;

use crate::store::{Batch, Store};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use top::Top;

/// About how many requests a second are looked at: twice this, and it is every second of those.
const SAMPLED: u32 = 1000;

/// How soon half of what was seen is forgotten.
const HALF_LIFE: Duration = Duration::from_secs(10);

/// The most asked buckets and slots.
#[derive(Debug)]
pub(super) struct Hot {
    /// Of so many requests, as a power of two, one is looked at.
    rarity: AtomicU32,
    seen: Mutex<Seen>,
}

/// What has been seen.
#[derive(Debug)]
struct Seen {
    buckets: Top<Box<str>>,
    slots: Top<u16>,
    /// Since when requests are counted for `rarity`, and how many there were.
    second: (Instant, u32),
    halved: Instant,
}

/// What is asked most, by its share of all charges of the last seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hottest {
    /// Buckets by their keys, which may hold what clients sent.
    pub buckets: Vec<(String, f64)>,
    /// Hash slots of Redis.
    pub slots: Vec<(u16, f64)>,
}

impl Default for Hot {
    fn default() -> Self {
        let now = Instant::now();
        let seen =
            Seen { buckets: Top::default(), slots: Top::default(), second: (now, 0), halved: now };
        Self { rarity: AtomicU32::new(0), seen: Mutex::new(seen) }
    }
}

impl Hot {
    /// Looks at what a request asks of the store, if it belongs to the sample.
    pub(super) fn note(&self, batch: &Batch, store: &Store) {
        let rarity = self.rarity.load(Ordering::Relaxed);
        if rarity > 0 && fastrand::u64(..) >> (64 - rarity) != 0 {
            return;
        }
        // Whoever finds it taken leaves no gap that matters.
        let Ok(mut seen) = self.seen.try_lock() else { return };
        seen.note(batch, store, 1 << rarity);
        self.rarity.store(seen.next_rarity(rarity), Ordering::Relaxed);
    }

    /// The most asked of each, the hottest first, at most so many.
    pub(super) fn hottest(&self, at_most: usize) -> Hottest {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.forget(Instant::now());
        let Seen { buckets, slots, .. } = &*seen;
        Hottest {
            buckets: buckets.shares(at_most).map(|(key, share)| (key.to_string(), share)).collect(),
            slots: slots.shares(at_most).map(|(slot, share)| (*slot, share)).collect(),
        }
    }
}

impl Seen {
    fn note(&mut self, batch: &Batch, store: &Store, weight: u64) {
        self.forget(Instant::now());
        for item in &batch.items {
            self.buckets.add(batch.key(item), weight);
            if let Some(slot) = store.slot(batch.tag(item)) {
                self.slots.add(&slot, weight);
            }
        }
    }

    /// Halves what was seen for each half-life that has passed.
    fn forget(&mut self, now: Instant) {
        while now - self.halved >= HALF_LIFE {
            self.halved = if self.buckets.is_empty() { now } else { self.halved + HALF_LIFE };
            self.buckets.halve();
            self.slots.halve();
        }
    }

    /// Looks more seldom as soon as there is too much, and more often after a second with little.
    fn next_rarity(&mut self, rarity: u32) -> u32 {
        let (since, n) = &mut self.second;
        *n += 1;
        if *n > 2 * SAMPLED {
            self.second = (Instant::now(), 0);
            return (rarity + 1).min(32);
        }
        if since.elapsed() < Duration::from_secs(1) {
            return rarity;
        }
        let is_little = *n < SAMPLED / 2;
        self.second = (Instant::now(), 0);
        if is_little { rarity.saturating_sub(1) } else { rarity }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Algorithm, Anchor, Limit};
    use crate::clock::{ManualClock, Micros};
    use crate::rules::KeyRange;
    use crate::store::{BatchItem, MemoryConfig, MemoryStore};
    use std::sync::Arc;
    use tokio::time::advance;

    fn store() -> Store {
        let config = MemoryConfig { max_buckets: 10 };
        Store::Memory(MemoryStore::new(config, Arc::new(ManualClock::default())))
    }

    fn batch(key: &str) -> Batch {
        let range = 0..key.len();
        let limit = Limit {
            algorithm: Algorithm::FixedWindow(Anchor::Epoch),
            requests: 1,
            window: Micros(1),
            burst: 0,
            count_denied: true,
        };
        let key_range = KeyRange { key: range.clone(), tag: range };
        let item = BatchItem { key: key_range, limit, post_paid: false };
        Batch { keys: key.to_owned(), items: [item].into_iter().collect(), ..Batch::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn at_little_traffic_every_request_counts() {
        let (hot, store) = (Hot::default(), store());
        for key in ["a", "b", "a", "a"] {
            hot.note(&batch(key), &store);
        }
        assert_eq!(hot.hottest(1).buckets, [("a".to_owned(), 0.75)]);
        assert_eq!(hot.hottest(5).slots, [], "there is no Redis");
    }

    #[tokio::test(start_paused = true)]
    async fn a_hot_bucket_is_found_in_a_flood_of_others() {
        let (hot, store) = (Hot::default(), store());
        for n in 0..100_000_u32 {
            let key = if n % 2 == 0 { "hot".to_owned() } else { n.to_string() };
            hot.note(&batch(&key), &store);
        }
        let (key, share) = hot.hottest(1).buckets.remove(0);
        assert_eq!(key, "hot");
        assert!((0.4..=0.6).contains(&share), "{share}");
        assert!(hot.rarity.load(Ordering::Relaxed) >= 3, "few of them are looked at");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_hot_is_forgotten() {
        let (hot, store) = (Hot::default(), store());
        for _ in 0..1000 {
            hot.note(&batch("before"), &store);
        }
        advance(20 * HALF_LIFE).await;
        hot.note(&batch("now"), &store);
        assert_eq!(hot.hottest(5).buckets, [("now".to_owned(), 1.0)]);
    }
}
