//! A part of the buckets, behind one lock.

use super::bucket::Bucket;
use super::pick;
use crate::clock::Micros;
use indexmap::IndexMap;
use indexmap::map::RawEntryApiV1;
use indexmap::map::raw_entry_v1::RawEntryMut;

/// A bucket's key, hashed once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'a> {
    pub(super) text: &'a str,
    pub(super) hash: u64,
    /// The shard that its hash tag picks.
    pub(super) shard: usize,
}

/// Buckets by key, in an order that allows to draw one at random.
#[derive(Debug)]
pub(super) struct Shard {
    /// Hashed by whoever makes the [`Key`].
    buckets: IndexMap<Box<str>, Bucket, ()>,
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

/// Tables smaller than this never shrink.
const MIN_CAPACITY: usize = 64;

impl Shard {
    pub(super) fn new(seed: u64) -> Self {
        Self { buckets: IndexMap::with_hasher(()), random: seed | 1 }
    }

    /// How many buckets it holds.
    pub(super) fn len(&self) -> usize {
        self.buckets.len()
    }

    pub(super) fn get(&self, key: &Key<'_>) -> Option<&Bucket> {
        Some(self.buckets.get_index(self.find(key)?)?.1)
    }

    pub(super) fn get_mut(&mut self, key: &Key<'_>) -> Option<&mut Bucket> {
        Some(self.buckets.get_index_mut(self.find(key)?)?.1)
    }

    /// Adds a bucket that is not there yet, or has lost its state. The room for it is reserved.
    pub(super) fn insert(&mut self, key: &Key<'_>, bucket: Bucket) {
        match self.buckets.raw_entry_mut_v1().from_hash(key.hash, |text| **text == *key.text) {
            RawEntryMut::Vacant(vacant) => {
                vacant.insert_hashed_nocheck(key.hash, key.text.into(), bucket);
            }
            RawEntryMut::Occupied(mut occupied) => {
                occupied.insert(bucket);
            }
        }
    }

    pub(super) fn remove(&mut self, key: &Key<'_>) -> Option<Freed> {
        let index = self.find(key)?;
        self.remove_at(index)
    }

    /// Looks at some buckets and removes the expired ones.
    pub(super) fn collect(&mut self, now: Micros) -> Freed {
        let mut freed = Freed::default();
        for _ in 0..COLLECT {
            let index = self.draw(self.buckets.len());
            if self.held(index).is_some_and(|bucket| bucket.is_expired(now)) {
                let removed = self.remove_at(index).unwrap_or_default();
                freed.buckets += removed.buckets;
                freed.weight += removed.weight;
            }
        }
        freed
    }

    /// Gives up an expired one of a sample, else the one that is missed least. None that is taken
    /// out.
    pub(super) fn evict(&mut self, now: Micros) -> Option<Evicted> {
        let index = self.sample(now).or_else(|| self.least(0..self.buckets.len(), now))?;
        let live = !self.held(index)?.is_expired(now);
        Some(Evicted { freed: self.remove_at(index)?, live })
    }

    fn sample(&mut self, now: Micros) -> Option<usize> {
        let n = self.buckets.len();
        if n <= SAMPLE {
            return self.least(0..n, now);
        }
        let drawn: [usize; SAMPLE] = std::array::from_fn(|_| self.draw(n));
        self.least(drawn.into_iter(), now)
    }

    fn least(&self, indices: impl Iterator<Item = usize>, now: Micros) -> Option<usize> {
        let held = indices.filter_map(|index| Some((index, self.held(index)?)));
        held.min_by_key(|(_, bucket)| (!bucket.is_expired(now), bucket.worth()))
            .map(|(index, _)| index)
    }

    /// The bucket at that place, unless it is taken out.
    fn held(&self, index: usize) -> Option<&Bucket> {
        let (_, bucket) = self.buckets.get_index(index)?;
        bucket.state.is_some().then_some(bucket)
    }

    fn find(&self, key: &Key<'_>) -> Option<usize> {
        self.buckets.raw_entry_v1().index_from_hash(key.hash, |text| **text == *key.text)
    }

    fn remove_at(&mut self, index: usize) -> Option<Freed> {
        let (_, bucket) = self.buckets.swap_remove_index(index)?;
        self.shrink();
        Some(Freed { buckets: 1, weight: bucket.weight() })
    }

    /// Returns memory once three quarters stand empty, so that a load that moves from shard to
    /// shard does not leave a full table in each.
    fn shrink(&mut self) {
        let n = self.buckets.len();
        if self.buckets.capacity() > MIN_CAPACITY && n < self.buckets.capacity() / 4 {
            self.buckets.shrink_to(n * 2);
        }
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
        self.buckets.values().map(Bucket::weight).sum()
    }

    pub(super) fn capacity(&self) -> usize {
        self.buckets.capacity()
    }
}
