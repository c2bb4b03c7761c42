//! Records for tests: in memory, where what fails is what the test says.

use super::claim::{Claim, Claimed, Token, Written};
use super::error::RecordsError;
use super::memory::MemoryRecords;
use super::outcome::Outcome;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The records.
#[derive(Debug)]
pub(crate) struct FailingRecords {
    memory: MemoryRecords,
    faults: Mutex<VecDeque<Option<Fault>>>,
}

/// What happens to one call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Nothing is done.
    Refused(RecordsError),
    /// It is done, and the answer is lost.
    Lost(RecordsError),
}

impl FailingRecords {
    /// Nothing fails yet.
    pub(crate) fn new(memory: MemoryRecords) -> Self {
        Self { memory, faults: Mutex::default() }
    }

    /// The next calls meet these, one each; `None` is none.
    pub(crate) fn meet(&self, faults: impl IntoIterator<Item = Option<Fault>>) {
        self.faults().extend(faults);
    }

    pub(super) fn claim(&self, asked: &Claim) -> Result<Claimed, RecordsError> {
        self.call(|| self.memory.claim(asked))?
    }

    pub(super) fn renew(
        &self,
        token: &Token,
        lease: Duration,
        retention: Duration,
    ) -> Result<Written, RecordsError> {
        self.call(|| self.memory.renew(token, lease, retention))
    }

    pub(super) fn complete(
        &self,
        token: &Token,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Written, RecordsError> {
        self.call(|| self.memory.complete(token, outcome, retention))
    }

    pub(super) fn release(&self, token: &Token) -> Result<Written, RecordsError> {
        self.call(|| self.memory.release(token))
    }

    fn call<T>(&self, call: impl FnOnce() -> T) -> Result<T, RecordsError> {
        let fault = self.faults().pop_front().flatten();
        match fault {
            None => Ok(call()),
            Some(Fault::Refused(error)) => Err(error),
            Some(Fault::Lost(error)) => {
                call();
                Err(error)
            }
        }
    }

    fn faults(&self) -> std::sync::MutexGuard<'_, VecDeque<Option<Fault>>> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
