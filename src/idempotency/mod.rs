//! One logical mutation runs once, and its retries get the same answer.
//!
//! `record` is what is remembered of an operation and how that changes; `records` is where such
//! records live. Their keys, their memory and their failures have nothing in common with those of
//! rate limits.

mod claim;
mod error;
#[cfg(test)]
mod failing;
#[cfg(test)]
mod histories;
mod layout;
mod memory;
mod operation;
mod outcome;
mod record;
mod records;
mod redis;

pub use claim::{Attempt, Claim, Claimed, Terms, Token, Written};
pub use error::RecordsError;
#[cfg(test)]
pub(crate) use failing::{FailingRecords, Fault};
pub use memory::{MemoryBounds, MemoryRecords};
pub use operation::{Fence, Fingerprint, OperationId, Owner, frame};
pub use outcome::{NotStored, Outcome, StoredAnswer};
pub use record::{Phase, Record};
pub use records::Records;
