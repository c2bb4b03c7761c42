//! What is asked about an operation, and what is answered.

use super::operation::{Fence, Fingerprint, OperationId, Owner};
use super::outcome::{NotStored, StoredAnswer};
use crate::clock::Micros;
use crate::rules::OnLeaseExpired;
use std::sync::Arc;
use std::time::Duration;

/// Asks to run an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Which one.
    pub operation: OperationId,
    /// The attempt that asks. Asking twice is asking once.
    pub owner: Owner,
    /// What it consists of.
    pub fingerprint: Fingerprint,
    /// For how long.
    pub terms: Terms,
}

/// How long things last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long a claim holds unless it is renewed.
    pub lease: Duration,
    /// How long an operation is remembered after it was last claimed, renewed or completed.
    pub retention: Duration,
    /// What becomes of it when the lease ends without an outcome.
    pub on_lease_expired: OnLeaseExpired,
}

/// Who runs an operation: what a claim gives, and what is shown to renew, complete or release it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Which operation.
    pub operation: OperationId,
    /// The attempt that claimed it.
    pub owner: Owner,
    /// The fence that it was given.
    pub fence: Fence,
}

/// What a claim is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The operation is the caller's to run.
    First {
        /// To be handed to whoever does the work.
        fence: Fence,
    },
    /// The same, and an earlier attempt may have run it.
    TakenOver {
        /// Larger than that of every earlier attempt.
        fence: Fence,
    },
    /// Somebody else runs it.
    InProgress {
        /// How long the other may be silent.
        lease_left: Duration,
    },
    /// An attempt ended without an outcome.
    Unknown {
        /// When it was claimed, by the store's clock.
        since: Micros,
    },
    /// It ran.
    Completed {
        /// Its answer.
        answer: Arc<StoredAnswer>,
        /// How long ago it was completed.
        age: Duration,
    },
    /// It ran, and its answer was not kept.
    NotStored(NotStored),
    /// Its key was used for something else.
    Mismatch,
    /// It was recorded by another version, and cannot be compared.
    Unverifiable,
}

/// What renewing, completing or releasing came to. Only `Done` changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is done.
    Done,
    /// Another attempt holds the operation.
    Stale,
    /// This attempt has completed or released it before.
    Already,
    /// The operation is not remembered.
    Missing,
}

/// Whether an earlier attempt may have run the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// None has.
    First,
    /// One may have: its lease ended without an outcome.
    Takeover,
}

impl Claim {
    /// What is shown afterwards, once the claim was given this fence.
    pub const fn token(&self, fence: Fence) -> Token {
        Token { operation: self.operation, owner: self.owner, fence }
    }
}

impl Claimed {
    /// The fence, if the operation is the caller's to run.
    pub const fn fence(&self) -> Option<Fence> {
        match self {
            Self::First { fence } | Self::TakenOver { fence } => Some(*fence),
            Self::InProgress { .. }
            | Self::Unknown { .. }
            | Self::Completed { .. }
            | Self::NotStored(_)
            | Self::Mismatch
            | Self::Unverifiable => None,
        }
    }
}

impl Written {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Done, Self::Stale, Self::Already, Self::Missing];

    /// Its word in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Done => "ok",
            Self::Stale => "stale",
            Self::Already => "already",
            Self::Missing => "missing",
        }
    }
}
