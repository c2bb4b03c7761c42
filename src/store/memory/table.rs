//! Buckets by key and by place. Places are dense, so that one can be drawn at random; they lie in
//! chunks, so that growing copies nothing but the index and leaves no holes behind.

use super::bucket::Bucket;
use super::shard::Key;
use hashbrown::HashTable;

/// The table.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Places, found by the hashes of their keys.
    index: HashTable<u32>,
    /// All full but the last, which is not empty.
    chunks: Vec<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    key: Box<str>,
    bucket: Bucket,
}

/// Entries of a chunk: 8 KiB.
const CHUNK: usize = 128;

/// Indices smaller than this never shrink.
const MIN_CAPACITY: usize = 64;

impl Table {
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// The place of a key.
    pub(super) fn find(&self, key: &Key<'_>) -> Option<usize> {
        let is_key = |place: &u32| {
            self.entry(widened(*place))
                .is_some_and(|entry| entry.bucket.hash == key.hash && *entry.key == *key.text)
        };
        self.index.find(spread(key.hash), is_key).map(|place| widened(*place))
    }

    pub(super) fn get(&self, place: usize) -> Option<&Bucket> {
        Some(&self.entry(place)?.bucket)
    }

    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut Bucket> {
        Some(&mut self.chunks.get_mut(place / CHUNK)?.get_mut(place % CHUNK)?.bucket)
    }

    /// Adds a bucket whose key has no place yet. No table holds 2^32 of them.
    pub(super) fn push(&mut self, key: &str, bucket: Bucket) {
        let Ok(place) = u32::try_from(self.len()) else { return };
        let hash = spread(bucket.hash);
        let entry = Entry { key: key.into(), bucket };
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(entry),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(entry);
                self.chunks.push(chunk);
            }
        }
        let Self { index, chunks } = self;
        index.insert_unique(hash, place, |place| hash_at(chunks, *place));
    }

    /// Removes a bucket; the last one takes its place.
    pub(super) fn swap_remove(&mut self, place: usize) -> Option<Bucket> {
        let hash = self.get(place)?.hash;
        let last_place = self.len().checked_sub(1)?;
        self.unindex(hash, place);
        let last = self.pop()?;
        if place == last_place {
            return Some(last.bucket);
        }
        if let Some(moved) =
            self.index.find_mut(spread(last.bucket.hash), |at| widened(*at) == last_place)
        {
            *moved = u32::try_from(place).unwrap_or(*moved);
        }
        let entry = self.chunks.get_mut(place / CHUNK)?.get_mut(place % CHUNK)?;
        Some(std::mem::replace(entry, last).bucket)
    }

    fn unindex(&mut self, hash: u32, place: usize) {
        if let Ok(found) = self.index.find_entry(spread(hash), |at| widened(*at) == place) {
            found.remove();
        }
    }

    fn pop(&mut self) -> Option<Entry> {
        let chunk = self.chunks.last_mut()?;
        let entry = chunk.pop();
        if chunk.is_empty() {
            self.chunks.pop();
            self.shrink();
        }
        entry
    }

    /// Returns memory once three quarters of the index stand empty.
    fn shrink(&mut self) {
        let Self { index, chunks } = self;
        if index.capacity() > MIN_CAPACITY && index.len() < index.capacity() / 4 {
            index.shrink_to(index.len() * 2, |place| hash_at(chunks, *place));
            chunks.shrink_to(chunks.len() * 2);
        }
    }

    fn entry(&self, place: usize) -> Option<&Entry> {
        self.chunks.get(place / CHUNK)?.get(place % CHUNK)
    }
}

fn hash_at(chunks: &[Vec<Entry>], place: u32) -> u64 {
    let place = widened(place);
    let entry = chunks.get(place / CHUNK).and_then(|chunk| chunk.get(place % CHUNK));
    entry.map_or(0, |entry| spread(entry.bucket.hash))
}

/// The index looks at the upper and the lower bits of a hash.
const fn spread(hash: u32) -> u64 {
    (hash as u64) << 32 | hash as u64
}

const fn widened(place: u32) -> usize {
    place as usize
}

#[cfg(test)]
impl Table {
    /// What all buckets weigh.
    pub(super) fn recount(&self) -> usize {
        self.chunks.iter().flatten().map(|entry| entry.bucket.weight()).sum()
    }

    pub(super) fn capacity(&self) -> usize {
        self.index.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_takes_64_bytes() {
        assert_eq!(size_of::<Entry>(), 64);
    }
}
