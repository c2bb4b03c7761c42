//! What is remembered of an operation, and how that changes. Pure: time is an argument.
//!
//! ```text
//! (none) ─claim─▶ Running ─complete─▶ Finished ─retention─▶ (none)
//!                 │ ▲  ▲ └renew: lease = now + L
//!          release│ └──┼─ claim with a larger fence, once the lease has ended and `takeover` is
//!                 ▼    │  the rule; under `hold` such a record stays as it is until its retention ends
//!               Released ─claim with a larger fence
//! ```
//!
//! The fingerprint is compared before anything else. Whoever renews, completes or releases must
//! have the owner and the fence of the record. Twin: `lua/record.lua`.

use super::claim::{Attempt, Claim, Claimed, Token, Written};
use super::operation::{Fence, Fingerprint, Owner};
use super::outcome::Outcome;
use crate::clock::Micros;
use crate::rules::OnLeaseExpired;
use std::sync::Arc;
use std::time::Duration;

/// What is remembered of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// How far it is.
    pub phase: Phase,
    /// Whether any attempt before its last one ended without an outcome.
    pub attempt: Attempt,
    /// Its last attempt.
    pub owner: Owner,
    /// The fence of that.
    pub fence: Fence,
    /// What it consists of, as it was first claimed.
    pub fingerprint: Fingerprint,
    /// When the lease ends.
    pub lease_ends: Micros,
    /// When it was claimed last, completed or released.
    pub since: Micros,
    /// When it is forgotten.
    pub expires: Micros,
}

/// How far an operation is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Somebody runs it, or did when the lease ended.
    Running,
    /// It ran.
    Finished(Outcome),
    /// It did not run, as far as its retries are concerned.
    Released,
}

/// What is to be stored, if anything.
pub(super) type Change = Option<Record>;

/// Claims an operation of which this is remembered.
pub(super) fn claim(found: Option<&Record>, asked: &Claim, now: Micros) -> (Claimed, Change) {
    let Some(record) = found else {
        return start(Attempt::First, now_in_millis(now), asked, now);
    };
    if !record.fingerprint.is_comparable(&asked.fingerprint) {
        return (Claimed::Unverifiable, None);
    }
    if record.fingerprint != asked.fingerprint {
        return (Claimed::Mismatch, None);
    }
    match &record.phase {
        Phase::Finished(outcome) => (record.replay(outcome, now), None),
        Phase::Released => start(record.attempt, record.next_fence(now), asked, now),
        Phase::Running if record.owner == asked.owner => again(record, asked, now),
        Phase::Running if now < record.lease_ends => {
            (Claimed::InProgress { lease_left: record.lease_left(now) }, None)
        }
        Phase::Running => match asked.terms.on_lease_expired {
            OnLeaseExpired::Hold => (Claimed::Unknown { since: record.since }, None),
            OnLeaseExpired::Takeover => {
                start(Attempt::Takeover, record.next_fence(now), asked, now)
            }
        },
    }
}

/// Lets a claim hold for another lease, even one that has ended if nobody took over.
pub(super) fn renew(
    found: Option<&Record>,
    token: &Token,
    lease: Duration,
    retention: Duration,
    now: Micros,
) -> (Written, Change) {
    write(found, token, |record| Record {
        lease_ends: now.saturating_add(lease.into()),
        expires: now.saturating_add(retention.into()),
        ..record.clone()
    })
}

/// Says what became of an operation. Retention begins anew.
pub(super) fn complete(
    found: Option<&Record>,
    token: &Token,
    outcome: &Outcome,
    retention: Duration,
    now: Micros,
) -> (Written, Change) {
    write(found, token, |record| Record {
        phase: Phase::Finished(outcome.clone()),
        since: now,
        expires: now.saturating_add(retention.into()),
        ..record.clone()
    })
}

/// Gives an operation back that did not run. Its fingerprint and its fence are remembered.
pub(super) fn release(found: Option<&Record>, token: &Token, now: Micros) -> (Written, Change) {
    write(found, token, |record| Record { phase: Phase::Released, since: now, ..record.clone() })
}

impl Record {
    /// What is left of the lease.
    pub(super) fn lease_left(&self, now: Micros) -> Duration {
        self.lease_ends.saturating_sub(now).into()
    }

    fn replay(&self, outcome: &Outcome, now: Micros) -> Claimed {
        match outcome {
            Outcome::NotStored(told) => Claimed::NotStored(told.clone()),
            Outcome::Stored(answer) => Claimed::Completed {
                answer: Arc::clone(answer),
                age: now.saturating_sub(self.since).into(),
            },
        }
    }

    fn next_fence(&self, now: Micros) -> Fence {
        now_in_millis(now).max(Fence(self.fence.0.saturating_add(1)))
    }
}

/// A new attempt.
fn start(attempt: Attempt, fence: Fence, asked: &Claim, now: Micros) -> (Claimed, Change) {
    let record = Record {
        phase: Phase::Running,
        attempt,
        owner: asked.owner,
        fence,
        fingerprint: asked.fingerprint.clone(),
        lease_ends: now.saturating_add(asked.terms.lease.into()),
        since: now,
        expires: now.saturating_add(asked.terms.retention.into()),
    };
    (given(attempt, fence), Some(record))
}

/// The same attempt asks again: it has not heard the answer.
fn again(record: &Record, asked: &Claim, now: Micros) -> (Claimed, Change) {
    let record = Record {
        lease_ends: now.saturating_add(asked.terms.lease.into()),
        expires: now.saturating_add(asked.terms.retention.into()),
        ..record.clone()
    };
    (given(record.attempt, record.fence), Some(record))
}

const fn given(attempt: Attempt, fence: Fence) -> Claimed {
    match attempt {
        Attempt::First => Claimed::First { fence },
        Attempt::Takeover => Claimed::TakenOver { fence },
    }
}

/// What the holder of a claim makes of its record.
fn write(
    found: Option<&Record>,
    token: &Token,
    change: impl FnOnce(&Record) -> Record,
) -> (Written, Change) {
    match found {
        None => (Written::Missing, None),
        Some(record) if (record.owner, record.fence) != (token.owner, token.fence) => {
            (Written::Stale, None)
        }
        Some(record) if matches!(record.phase, Phase::Running) => {
            (Written::Done, Some(change(record)))
        }
        Some(_) => (Written::Already, None),
    }
}

/// So a fence grows even if what was remembered is lost.
const fn now_in_millis(now: Micros) -> Fence {
    Fence(now.0 / 1000)
}
