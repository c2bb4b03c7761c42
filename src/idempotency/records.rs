//! Where records live, and how long their keepers are waited for.

use super::claim::{Claim, Claimed, Token, Written};
use super::error::RecordsError;
use super::memory::MemoryRecords;
use super::outcome::Outcome;
use std::time::Duration;

/// Where records live.
#[derive(Debug)]
pub enum Records {
    /// In this process.
    Memory(MemoryRecords),
}

impl Records {
    /// Asks to run an operation. A lost answer is asked for once more.
    #[expect(clippy::unused_async, reason = "Redis is to be waited for")]
    pub async fn claim(&self, asked: &Claim) -> Result<Claimed, RecordsError> {
        match self {
            Self::Memory(memory) => Ok(memory.claim(asked)),
        }
    }

    /// Lets a claim hold for another lease.
    #[expect(clippy::unused_async, reason = "Redis is to be waited for")]
    pub async fn renew(
        &self,
        token: &Token,
        lease: Duration,
        retention: Duration,
    ) -> Result<Written, RecordsError> {
        match self {
            Self::Memory(memory) => Ok(memory.renew(token, lease, retention)),
        }
    }

    /// Says what became of an operation. A lost answer is asked for twice more; whoever then gets
    /// [`Written::Already`] has completed it.
    #[expect(clippy::unused_async, reason = "Redis is to be waited for")]
    pub async fn complete(
        &self,
        token: &Token,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Written, RecordsError> {
        match self {
            Self::Memory(memory) => Ok(memory.complete(token, outcome, retention)),
        }
    }

    /// Gives an operation back that did not run.
    #[expect(clippy::unused_async, reason = "Redis is to be waited for")]
    pub async fn release(&self, token: &Token) -> Result<Written, RecordsError> {
        match self {
            Self::Memory(memory) => Ok(memory.release(token)),
        }
    }
}
