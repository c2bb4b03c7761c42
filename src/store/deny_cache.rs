//! Refusals that this server saw from the store: while their wait runs, the store need not be asked
//! again, and when it cannot be asked they still hold.

use crate::algorithm::Limit;
use crate::clock::Micros;
use indexmap::IndexMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How much is remembered, and for how long it stands in for the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenyConfig {
    /// `DENY_CACHE_MAX`: how long at most a refusal answers instead of the store; 0: never.
    pub max: Micros,
    /// `DENY_CACHE_ENTRIES`: most buckets whose refusals are kept.
    pub entries: usize,
}

/// The refusals, by bucket.
#[derive(Debug)]
pub struct DenyCache {
    shards: Box<[Mutex<Shard>]>,
    shard_entries: usize,
    /// Nothing is looked up while nothing is refused.
    len: AtomicUsize,
    max: Micros,
    hasher: ahash::RandomState,
}

/// A refusal by the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The hits that were refused, 0 for a peek.
    pub hits: u64,
    /// The instant before the store was asked.
    pub asked_at: Micros,
    /// How long from then on as many hits are refused.
    pub wait: Micros,
    /// Whether the same charge, asked again, would change nothing: the store may be left out.
    pub repeatable: bool,
}

#[derive(Debug, Default)]
struct Shard {
    entries: IndexMap<Box<str>, Entry, ahash::RandomState>,
    /// Refusals that were asked for before may be older than a refund.
    refunded_at: Option<Micros>,
    /// Where the next entry to give up is looked for.
    hand: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    limit: Limit,
    /// The last refusal; holds when the store fails.
    last: Held,
    /// The last repeatable one, and until when it answers instead of the store.
    denied: Held,
    denied_until: Micros,
}

/// As many hits or more are refused until then.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    hits: u64,
    until: Micros,
}

const MAX_SHARDS: usize = 64;

/// Fewer entries than this in a shard would be given up too soon.
const MIN_SHARD_ENTRIES: usize = 64;

/// Of so many entries the one that ends first is given up.
const SAMPLE: usize = 8;

impl Default for DenyConfig {
    fn default() -> Self {
        Self { max: Micros::SECOND, entries: 65_536 }
    }
}

impl DenyCache {
    /// An empty cache.
    pub fn new(config: DenyConfig) -> Self {
        let n_shards = (config.entries / MIN_SHARD_ENTRIES).clamp(1, MAX_SHARDS);
        Self {
            shards: (0..n_shards).map(|_| Mutex::default()).collect(),
            shard_entries: config.entries / n_shards,
            len: AtomicUsize::new(0),
            max: config.max,
            hasher: ahash::RandomState::new(),
        }
    }

    /// How long from now on a charge of these hits is refused without asking the store.
    pub fn denied(&self, key: &str, limit: &Limit, hits: u64, now: Micros) -> Option<Micros> {
        let entry = self.entry(key, limit)?;
        (now < entry.denied_until).then_some(entry.denied)?.wait(hits, now)
    }

    /// How long from now on a charge of these hits is refused, as far as the store has said.
    pub fn refused(&self, key: &str, limit: &Limit, hits: u64, now: Micros) -> Option<Micros> {
        self.entry(key, limit)?.last.wait(hits, now)
    }

    /// Remembers a refusal.
    pub fn remember(&self, key: &str, limit: &Limit, refused: &Refused) {
        let mut shard = self.lock(key);
        if shard.refunded_at.is_some_and(|at| refused.asked_at <= at) {
            return;
        }
        if let Some(entry) = shard.entries.get_mut(key) {
            entry.update(limit, refused, self.max);
        } else if self.shard_entries > 0 {
            self.make_room(&mut shard);
            shard.entries.insert(key.into(), Entry::of(limit, refused, self.max));
            self.len.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The store admitted these hits: a refusal of no more does not hold any longer.
    pub fn admitted(&self, key: &str, hits: u64) {
        if self.is_empty() {
            return;
        }
        let mut shard = self.lock(key);
        if shard.entries.get(key).is_some_and(|entry| entry.last.hits <= hits) {
            self.remove(&mut shard, key);
        }
    }

    /// Hits were given back, or the bucket was reset: no refusal holds that was asked for by now.
    pub fn refunded(&self, key: &str, now: Micros) {
        let mut shard = self.lock(key);
        shard.refunded_at = shard.refunded_at.max(Some(now));
        self.remove(&mut shard, key);
    }

    fn entry(&self, key: &str, limit: &Limit) -> Option<Entry> {
        if self.is_empty() {
            return None;
        }
        let found = self.lock(key).entries.get(key).copied();
        found.filter(|entry| entry.limit == *limit)
    }

    fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    fn remove(&self, shard: &mut Shard, key: &str) {
        if shard.entries.swap_remove(key).is_some() {
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn make_room(&self, shard: &mut Shard) {
        if shard.entries.len() < self.shard_entries {
            return;
        }
        shard.give_one_up();
        self.len.fetch_sub(1, Ordering::Relaxed);
    }

    #[expect(clippy::indexing_slicing, reason = "the index is a remainder of the length")]
    fn lock(&self, key: &str) -> MutexGuard<'_, Shard> {
        #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
        let shard = self.hasher.hash_one(key) as usize % self.shards.len();
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn give_one_up(&mut self) {
        let n = self.entries.len();
        let sample = (0..SAMPLE).map(|step| (self.hand + step) % n.max(1));
        let ends = |at: &usize| self.entries.get_index(*at).map(|(_, entry)| entry.last.until);
        let first = sample.min_by_key(ends).unwrap_or(0);
        self.entries.swap_remove_index(first);
        self.hand = (self.hand + SAMPLE) % n.max(1);
    }
}

impl Entry {
    fn of(limit: &Limit, refused: &Refused, max: Micros) -> Self {
        let last = Held::of(refused);
        let mut entry =
            Self { limit: *limit, last, denied: Held::default(), denied_until: Micros(0) };
        entry.deny(refused, max);
        entry
    }

    fn update(&mut self, limit: &Limit, refused: &Refused, max: Micros) {
        if self.limit != *limit {
            *self = Self::of(limit, refused, max);
            return;
        }
        // That fewer hits are refused says more, as long as it holds.
        if refused.hits <= self.last.hits || self.last.until <= refused.asked_at {
            self.last = Held::of(refused);
        }
        self.deny(refused, max);
    }

    fn deny(&mut self, refused: &Refused, max: Micros) {
        if refused.repeatable {
            self.denied = Held::of(refused);
            self.denied_until = refused.asked_at.saturating_add(refused.wait.min(max));
        }
    }
}

impl Held {
    fn of(refused: &Refused) -> Self {
        Self { hits: refused.hits, until: refused.asked_at.saturating_add(refused.wait) }
    }

    fn wait(self, hits: u64, now: Micros) -> Option<Micros> {
        (hits >= self.hits && now < self.until).then(|| self.until.saturating_sub(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Algorithm;

    const LIMIT: Limit = Limit {
        algorithm: Algorithm::TokenBucket,
        requests: 10,
        window: Micros::from_secs(60),
        burst: 10,
        count_denied: false,
    };

    fn cache(max_secs: u64, entries: usize) -> DenyCache {
        DenyCache::new(DenyConfig { max: Micros::from_secs(max_secs), entries })
    }

    fn refused(hits: u64, at: u64, wait: u64) -> Refused {
        let (asked_at, wait) = (Micros::from_secs(at), Micros::from_secs(wait));
        Refused { hits, asked_at, wait, repeatable: true }
    }

    /// Whole seconds for which hits are denied, and refused, at a second.
    fn held(cache: &DenyCache, hits: u64, at: u64) -> (Option<u64>, Option<u64>) {
        let at = Micros::from_secs(at);
        let secs = |wait: Option<Micros>| wait.map(Micros::ceil_secs);
        (secs(cache.denied("k", &LIMIT, hits, at)), secs(cache.refused("k", &LIMIT, hits, at)))
    }

    #[test]
    fn a_refusal_holds_for_as_heavy_charges_and_counts_down() {
        let cache = cache(2, 10);
        cache.remember("k", &LIMIT, &refused(3, 100, 30));
        assert_eq!(held(&cache, 3, 100), (Some(30), Some(30)));
        assert_eq!(held(&cache, 9, 101), (Some(29), Some(29)));
        assert_eq!(held(&cache, 2, 101), (None, None));
        assert_eq!(held(&cache, 3, 102), (None, Some(28)));
        assert_eq!(held(&cache, 3, 130), (None, None));
    }

    #[test]
    fn a_refusal_is_of_its_limit_alone() {
        let cache = cache(2, 10);
        cache.remember("k", &LIMIT, &refused(1, 100, 30));
        let raised = Limit { requests: 11, ..LIMIT };
        assert_eq!(cache.refused("k", &raised, 1, Micros::from_secs(100)), None);
    }

    #[test]
    fn switched_off_it_still_knows_the_last_refusal() {
        let cache = cache(0, 10);
        cache.remember("k", &LIMIT, &refused(1, 100, 30));
        assert_eq!(held(&cache, 1, 100), (None, Some(30)));
    }

    #[test]
    fn a_refund_drops_a_refusal_and_those_still_under_way() {
        let cache = cache(2, 10);
        cache.remember("k", &LIMIT, &refused(1, 100, 30));
        cache.refunded("k", Micros::from_secs(101));
        assert_eq!(held(&cache, 1, 101), (None, None));
        cache.remember("k", &LIMIT, &refused(1, 101, 30));
        assert_eq!(held(&cache, 1, 101), (None, None));
        cache.remember("k", &LIMIT, &refused(1, 102, 30));
        assert_eq!(held(&cache, 1, 102), (Some(30), Some(30)));
    }

    #[test]
    fn an_admission_drops_a_refusal_of_as_few_hits() {
        let cache = cache(2, 10);
        cache.remember("k", &LIMIT, &refused(3, 100, 30));
        cache.admitted("k", 2);
        assert_eq!(held(&cache, 3, 101).1, Some(29));
        cache.admitted("k", 3);
        assert_eq!(held(&cache, 3, 101).1, None);
    }

    #[test]
    fn a_refused_peek_is_known_but_answers_nothing_while_the_store_does() {
        let cache = cache(2, 10);
        cache.remember("k", &LIMIT, &Refused { repeatable: false, ..refused(0, 100, 30) });
        assert_eq!(held(&cache, 0, 100), (None, Some(30)));
        cache.remember("k", &LIMIT, &refused(5, 100, 40));
        assert_eq!(held(&cache, 0, 100), (None, Some(30)), "fewer hits say more");
        assert_eq!(held(&cache, 5, 100), (Some(40), Some(30)));
    }

    #[test]
    fn it_stays_bounded_and_gives_up_what_ends_first() {
        let cache = cache(1, 8);
        for i in 0..100 {
            cache.remember(&format!("k{i}"), &LIMIT, &refused(1, 100, 100 - i));
        }
        assert_eq!(cache.len.load(Ordering::Relaxed), 8);
        assert!(cache.refused("k0", &LIMIT, 1, Micros::from_secs(100)).is_some());
        let none = self::cache(1, 0);
        none.remember("k", &LIMIT, &refused(1, 100, 30));
        assert_eq!(held(&none, 1, 100), (None, None));
    }
}
