//! One logical mutation runs once, and its retries get the same answer.
//!
//! `record` is what is remembered of an operation and how that changes; `records` is where such
//! records live. Their keys, their memory and their failures have nothing in common with those of
//! rate limits.

mod answer;
mod caller;
mod claim;
mod error;
mod execution;
mod fingerprint;
mod head;
mod key;
mod keyed;
mod memory;
mod operation;
mod outcome;
mod protection;
mod record;
mod records;
mod verdict;

pub use answer::{Answer, Problem};
pub use claim::{Attempt, Claim, Claimed, Terms, Token, Written};
pub use error::RecordsError;
pub use execution::{Execution, Rest};
pub use head::{Certificate, Headers, RequestHead, ResponseHead};
pub use keyed::{Keyed, Next};
pub use memory::MemoryRecords;
pub use operation::{Fence, Fingerprint, OperationId, Owner, frame};
pub use outcome::{NotStored, Outcome, StoredAnswer};
pub use protection::{Begin, Protection, ProtectionOptions};
pub use record::{Phase, Record};
pub use records::Records;
pub use verdict::{RESULT, RETENTION, Unknown};
