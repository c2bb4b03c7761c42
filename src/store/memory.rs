//! Buckets in this process's memory: sharded by hash tag, bounded, each group under a short lock.

use super::{Batch, Decisions};
use crate::clock::Clock;
use std::sync::Arc;

/// How much a memory store may hold.
#[derive(Clone, Copy, Debug)]
pub struct MemoryConfig {
    /// Most buckets; a log's entries count one each.
    pub max_buckets: usize,
}

/// The store.
#[derive(Debug)]
pub struct MemoryStore {}

impl MemoryStore {
    /// An empty store.
    pub fn new(config: MemoryConfig, clock: Arc<dyn Clock>) -> Self {
        todo!("{config:?} {clock:?}")
    }

    /// Decides a batch: one decision per item, in its order.
    pub fn decide(&self, batch: &Batch) -> Decisions {
        todo!("{batch:?}")
    }
}
