//! One logical mutation runs once, and its retries get the same answer.
//!
//! `record` is what is remembered of an operation and how that changes; `records` is where such
//! records live. Their keys, their memory and their failures have nothing in common with those of
//! rate limits.

mod amends;
mod answer;
mod caller;
mod claim;
mod error;
mod execution;
#[cfg(test)]
mod failing;
mod fingerprint;
mod head;
#[cfg(test)]
mod histories;
mod key;
mod keyed;
mod layout;
mod memory;
mod operation;
mod outcome;
mod protection;
mod record;
mod records;
mod redis;
mod verdict;

pub use answer::{Answer, Problem};
pub use claim::{Attempt, Claim, Claimed, Terms, Token, Written};
pub use error::RecordsError;
pub use execution::{Execution, Rest};
#[cfg(test)]
pub(crate) use failing::{FailingRecords, Fault};
pub use head::{Certificate, Headers, RequestHead, ResponseHead};
pub use keyed::{Keyed, Next};
pub use memory::{MemoryBounds, MemoryRecords};
pub use operation::{Fence, Fingerprint, OperationId, Owner, frame};
pub use outcome::{NotStored, Outcome, StoredAnswer};
pub use protection::{Begin, Protection, ProtectionOptions};
pub use record::{Phase, Record};
pub use records::Records;
pub use verdict::{RESULT, RETENTION, Unknown};
