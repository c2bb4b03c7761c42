//! Why a rule answers a descriptor, and why the near misses do not.

use super::{Domain, Entry};

/// What `tidegate explain` says of one descriptor.
#[derive(Debug)]
pub struct Explanation {}

/// Explains the match of `entries` in `domain`.
pub fn explain(domain: &Domain, entries: &[Entry<'_>]) -> Explanation {
    todo!("{domain:?} {entries:?}")
}
