//! Records in this process's memory.

use super::claim::{Claim, Claimed, Token, Written};
use super::operation::OperationId;
use super::outcome::Outcome;
use super::record::{self, Change, Record};
use crate::clock::{Clock, Micros};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Records in this process's memory.
#[derive(Debug)]
pub struct MemoryRecords {
    records: Mutex<HashMap<OperationId, Record, ahash::RandomState>>,
    clock: Arc<dyn Clock>,
}

impl MemoryRecords {
    /// None yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { records: Mutex::default(), clock }
    }

    pub(super) fn claim(&self, asked: &Claim) -> Claimed {
        self.change(asked.operation, |found, now| record::claim(found, asked, now))
    }

    pub(super) fn renew(&self, token: &Token, lease: Duration, retention: Duration) -> Written {
        self.change(token.operation, |found, now| {
            record::renew(found, token, lease, retention, now)
        })
    }

    pub(super) fn complete(&self, token: &Token, outcome: &Outcome, keep: Duration) -> Written {
        self.change(token.operation, |found, now| {
            record::complete(found, token, outcome, keep, now)
        })
    }

    pub(super) fn release(&self, token: &Token) -> Written {
        self.change(token.operation, |found, now| record::release(found, token, now))
    }

    fn change<T>(
        &self,
        operation: OperationId,
        decide: impl FnOnce(Option<&Record>, Micros) -> (T, Change),
    ) -> T {
        let now = self.clock.now();
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let found = records.get(&operation).filter(|record| now < record.expires);
        let (answer, change) = decide(found, now);
        if let Some(record) = change {
            records.insert(operation, record);
        }
        answer
    }
}
