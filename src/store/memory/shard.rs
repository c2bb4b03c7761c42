//! A part of the buckets, behind one lock.

use super::bucket::Bucket;
use super::pick;
use super::table::Table;
use crate::clock::Micros;

/// A bucket's key, hashed once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'a> {
    pub(super) text: &'a str,
    pub(super) hash: u32,
    /// The shard that its hash tag picks.
    pub(super) shard: usize,
}

/// Some of the buckets.
#[derive(Debug)]
pub(super) struct Shard {
    buckets: Table,
    random: u64,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Freed {
    pub(super) buckets: usize,
    pub(super) weight: usize,
}

/// A bucket that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Evicted {
    pub(super) freed: Freed,
    /// Whether it still held something.
    pub(super) live: bool,
}

/// Buckets that an eviction chooses from.
const SAMPLE: usize = 8;

/// Buckets that an insertion looks at for expired ones.
const COLLECT: usize = 2;

impl Shard {
    pub(super) fn new(seed: u64) -> Self {
        Self { buckets: Table::default(), random: seed | 1 }
    }

    /// How many buckets it holds.
    pub(super) fn len(&self) -> usize {
        self.buckets.len()
    }

    pub(super) fn get(&self, key: &Key<'_>) -> Option<&Bucket> {
        self.buckets.get(self.buckets.find(key)?)
    }

    pub(super) fn get_mut(&mut self, key: &Key<'_>) -> Option<&mut Bucket> {
        self.buckets.get_mut(self.buckets.find(key)?)
    }

    /// Adds a bucket that is not there yet, or has lost its state. The room for it is reserved.
    pub(super) fn insert(&mut self, key: &Key<'_>, bucket: Bucket) {
        match self.get_mut(key) {
            Some(lost) => *lost = bucket,
            None => self.buckets.push(key.text, bucket),
        }
    }

    pub(super) fn remove(&mut self, key: &Key<'_>) -> Option<Freed> {
        let place = self.buckets.find(key)?;
        self.remove_at(place)
    }

    /// Looks at some buckets and removes the expired ones.
    pub(super) fn collect(&mut self, now: Micros) -> Freed {
        let mut freed = Freed::default();
        for _ in 0..COLLECT {
            let place = self.draw(self.buckets.len());
            if self.held(place).is_some_and(|bucket| bucket.is_expired(now)) {
                let removed = self.remove_at(place).unwrap_or_default();
                freed.buckets += removed.buckets;
                freed.weight += removed.weight;
            }
        }
        freed
    }

    /// Gives up an expired one of a sample, else the one that is missed least. None that is taken
    /// out.
    pub(super) fn evict(&mut self, now: Micros) -> Option<Evicted> {
        let place = self.sample(now).or_else(|| self.least(0..self.buckets.len(), now))?;
        let live = !self.held(place)?.is_expired(now);
        Some(Evicted { freed: self.remove_at(place)?, live })
    }

    fn sample(&mut self, now: Micros) -> Option<usize> {
        let n = self.buckets.len();
        if n <= SAMPLE {
            return self.least(0..n, now);
        }
        let drawn: [usize; SAMPLE] = std::array::from_fn(|_| self.draw(n));
        self.least(drawn.into_iter(), now)
    }

    fn least(&self, places: impl Iterator<Item = usize>, now: Micros) -> Option<usize> {
        let held = places.filter_map(|place| Some((place, self.held(place)?)));
        held.min_by_key(|(_, bucket)| (!bucket.is_expired(now), bucket.worth(now)))
            .map(|(place, _)| place)
    }

    /// The bucket at that place, unless it is taken out.
    fn held(&self, place: usize) -> Option<&Bucket> {
        let bucket = self.buckets.get(place)?;
        bucket.state.is_some().then_some(bucket)
    }

    fn remove_at(&mut self, place: usize) -> Option<Freed> {
        let bucket = self.buckets.swap_remove(place)?;
        Some(Freed { buckets: 1, weight: bucket.weight() })
    }

    /// A random number below `n` (xorshift64*).
    pub(super) fn draw(&mut self, n: usize) -> usize {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        pick(self.random.wrapping_mul(0x2545_F491_4F6C_DD1D), n)
    }
}

#[cfg(test)]
impl Shard {
    /// What its buckets weigh, one by one.
    pub(super) fn recount(&self) -> usize {
        self.buckets.recount()
    }

    pub(super) fn capacity(&self) -> usize {
        self.buckets.capacity()
    }
}
