//! Where buckets live. Stores report what they cannot do, they never allow.

mod batch;
mod error;
mod memory;
mod redis;

pub use batch::{Batch, BatchItem, BatchMember, Decisions};
pub use error::StoreError;
pub use memory::{MemoryConfig, MemoryStore};

use crate::algorithm::Decision;

/// A store.
#[derive(Debug)]
pub enum Store {
    /// In this process.
    Memory(MemoryStore),
}

#[expect(clippy::unused_async, reason = "stores outside this process wait")]
impl Store {
    /// Decides a batch: one decision per item, in its order.
    pub async fn decide(&self, batch: &Batch) -> Decisions {
        match self {
            Self::Memory(memory) => memory.decide(batch),
        }
    }

    /// What a peek at an item's bucket would be answered, if there is one. Changes nothing, not
    /// even when the bucket was last used.
    pub async fn inspect(&self, batch: &Batch, item: &BatchItem) -> Option<Decision> {
        match self {
            Self::Memory(memory) => memory.inspect(batch, item),
        }
    }

    /// Forgets an item's bucket. Says whether there was one.
    pub async fn reset(&self, batch: &Batch, item: &BatchItem) -> bool {
        match self {
            Self::Memory(memory) => memory.reset(batch, item),
        }
    }
}
