//! Keys that a mapping has twice, and those that YAML's `<<` merges into it.

use super::raw::{Place, RawEntry};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

/// Indices of keys that stand before already, with the place of the first.
pub(super) fn duplicates(entries: &[RawEntry]) -> Vec<(usize, Place)> {
    let mut first: HashMap<Option<&str>, Place, ahash::RandomState> = HashMap::default();
    let mut duplicates = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        match first.entry(entry.key.literal()) {
            Entry::Occupied(place) => {
                duplicates.push((index, *place.get()));
            }
            Entry::Vacant(vacant) => {
                vacant.insert(entry.key.place);
            }
        }
    }
    duplicates
}

/// A mapping's own keys win over merged ones, and earlier merged ones over later.
pub(super) fn add_missing(entries: &mut Vec<RawEntry>, additions: Vec<RawEntry>) {
    let present: HashSet<String> =
        entries.iter().filter_map(|entry| entry.key.literal()).map(String::from).collect();
    let missing = |entry: &RawEntry| entry.key.literal().is_some_and(|key| !present.contains(key));
    entries.extend(additions.into_iter().filter(missing));
}
