//! Names of buckets: `{<tag>}<rest>:<kind>`, the same in Redis (after a prefix) and in memory.

use super::{Domain, Entry};

/// Where a key and its hash tag (without the braces) stand in the text they were written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The whole key.
    pub key: std::ops::Range<usize>,
    /// The hash tag in it.
    pub tag: std::ops::Range<usize>,
}

/// Appends the key of the bucket that `entries` and `kind` name. Entries hold the values that the
/// bucket counts by: stripped of a query, or a shared pattern.
pub fn write_key<'a>(
    text: &mut String,
    domain: &Domain,
    entries: impl Iterator<Item = Entry<'a>> + Clone,
    kind: &str,
) -> KeyRange {
    todo!("{text} {domain:?} {} {kind}", entries.count())
}

/// Appends `text` with everything escaped that has a meaning in keys.
pub(super) fn escape(key: &mut String, text: &str) {
    todo!("{key} {text}")
}
