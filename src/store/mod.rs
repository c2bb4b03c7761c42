//! Where buckets live. Stores report what they cannot do, they never allow.

mod batch;
mod deny_cache;
mod error;
#[cfg(test)]
mod failing;
mod memory;
mod redis;

#[cfg(test)]
pub(crate) use self::redis::tests::support::redis as redis_support;
pub use batch::{Batch, BatchItem, BatchMember, Decisions, Outcomes, Part};
pub use deny_cache::{DenyCache, DenyConfig, Refused};
pub use error::StoreError;
#[cfg(test)]
pub use failing::FailingStore;
pub use memory::{MemoryConfig, MemoryStore};
pub use redis::{
    Address, Credentials, KeySecret, Misconfigured, NoAddress, OpTimeout, RedisConfig,
    RedisServers, RedisState, RedisStore, Run, RunnerConfig, Script, ScriptRunner, TlsFiles,
    Topology,
};

use crate::algorithm::Decision;
use std::sync::Arc;
use tokio::time::Instant;

/// A store.
#[derive(Debug)]
pub enum Store {
    /// In this process.
    Memory(MemoryStore),
    /// In Redis.
    Redis(RedisStore),
    /// In memory, where a test says what fails.
    #[cfg(test)]
    Failing(FailingStore),
}

impl Store {
    /// Decides a batch: one outcome per item, in its order. `gives_up` is when the caller does.
    pub async fn decide(&self, batch: &Arc<Batch>, gives_up: Option<Instant>) -> Outcomes {
        match self {
            Self::Memory(memory) => memory.decide(batch).into_iter().map(Ok).collect(),
            Self::Redis(redis) => redis.decide(batch, gives_up).await,
            #[cfg(test)]
            Self::Failing(failing) => failing.decide(batch),
        }
    }

    /// What a peek at an item's bucket would be answered, if there is one. Changes nothing, not
    /// even when the bucket was last used. The batch holds nothing but its descriptor.
    pub async fn inspect(
        &self,
        batch: &Batch,
        item: &BatchItem,
    ) -> Result<Option<Decision>, StoreError> {
        match self {
            Self::Memory(memory) => Ok(memory.inspect(batch, item)),
            Self::Redis(redis) => redis.inspect(batch, item).await,
            #[cfg(test)]
            Self::Failing(failing) => Ok(failing.memory().inspect(batch, item)),
        }
    }

    /// Forgets an item's bucket. Says whether there was one. The batch holds nothing but its
    /// descriptor.
    pub async fn reset(&self, batch: &Batch, item: &BatchItem) -> Result<bool, StoreError> {
        match self {
            Self::Memory(memory) => Ok(memory.reset(batch, item)),
            Self::Redis(redis) => redis.reset(batch, item).await,
            #[cfg(test)]
            Self::Failing(failing) => Ok(failing.memory().reset(batch, item)),
        }
    }

    /// The hash slot of every key with this tag, if it is in Redis.
    pub fn slot(&self, tag: &str) -> Option<u16> {
        match self {
            Self::Redis(redis) => Some(redis.slot(tag)),
            Self::Memory(_) => None,
            #[cfg(test)]
            Self::Failing(_) => None,
        }
    }

    /// Whether charges of several hash tags can be decided atomically.
    pub fn spans_tags(&self) -> bool {
        match self {
            Self::Memory(_) => true,
            Self::Redis(redis) => redis.spans_tags(),
            #[cfg(test)]
            Self::Failing(_) => true,
        }
    }
}
