//! Records in this process's memory: bounded by number and bytes, each change under a short lock.
//!
//! What is full refuses new operations: to forget one that is remembered could run it twice. An
//! operation that was admitted can always be completed, if need be without its answer.

use super::claim::{Claim, Claimed, Token, Written};
use super::error::RecordsError;
use super::operation::OperationId;
use super::outcome::{NotStored, Outcome};
use super::record::{self, Change, Record};
use crate::clock::{Clock, Micros};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How much a memory store may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBounds {
    /// Most operations, at least 1.
    pub max_records: usize,
    /// Most bytes of all of them.
    pub max_bytes: usize,
}

/// Records in this process's memory.
#[derive(Debug)]
pub struct MemoryRecords {
    shards: Box<[Mutex<Shard>]>,
    hasher: ahash::RandomState,
    bounds: MemoryBounds,
    n_records: AtomicUsize,
    n_bytes: AtomicUsize,
    clock: Arc<dyn Clock>,
}

/// Some of the records.
#[derive(Debug, Default)]
struct Shard {
    records: HashMap<OperationId, Record, ahash::RandomState>,
    /// When each is forgotten, soonest first.
    ends: BTreeSet<(Micros, OperationId)>,
}

/// There is no room.
#[derive(Clone, Copy, Debug)]
struct Full;

/// More than threads, so that two seldom want the same one.
const N_SHARDS: usize = 64;

/// What a record takes besides its texts: itself, its place in a table that has just grown and in an
/// order, and what allocations round up. `benches/memory.rs` measures it.
pub(super) const RECORD_BYTES: usize = 640;

/// What an answer that is kept takes besides its texts, and what each of its headers does.
const ANSWER_BYTES: usize = 96;
const HEADER_BYTES: usize = 40;

/// So many expired ones are dropped at each change, so that there are never many.
const COLLECTED: usize = 4;

impl MemoryRecords {
    /// None yet.
    pub fn new(bounds: MemoryBounds, clock: Arc<dyn Clock>) -> Self {
        Self {
            shards: (0..N_SHARDS).map(|_| Mutex::default()).collect(),
            hasher: ahash::RandomState::new(),
            bounds,
            n_records: AtomicUsize::new(0),
            n_bytes: AtomicUsize::new(0),
            clock,
        }
    }

    pub(super) fn claim(&self, asked: &Claim) -> Result<Claimed, RecordsError> {
        let decide = |found: Option<&Record>, now| record::claim(found, asked, now);
        let claimed = self.change(asked.operation, decide).or_else(|Full| {
            self.collect();
            self.change(asked.operation, decide)
        });
        claimed.map_err(|Full| RecordsError::Full)
    }

    pub(super) fn renew(&self, token: &Token, lease: Duration, retention: Duration) -> Written {
        self.rewrite(token, |found, now| record::renew(found, token, lease, retention, now))
    }

    pub(super) fn release(&self, token: &Token) -> Written {
        self.rewrite(token, |found, now| record::release(found, token, now))
    }

    /// Says what became of an operation; without its answer if there is no room for it.
    pub(super) fn complete(&self, token: &Token, outcome: &Outcome, keep: Duration) -> Written {
        let complete = |outcome: &Outcome| {
            self.change(token.operation, |found, now| {
                record::complete(found, token, outcome, keep, now)
            })
        };
        let written = complete(outcome).or_else(|Full| {
            self.collect();
            complete(outcome)
                .or_else(|Full| complete(&Outcome::NotStored(outcome.without_answer())))
        });
        let bare = NotStored { status: outcome.status(), location: None };
        written.or_else(|Full| complete(&Outcome::NotStored(bare))).unwrap_or(Written::Missing)
    }

    /// How many operations are remembered; some may have expired.
    pub fn n_records(&self) -> usize {
        self.n_records.load(Ordering::Relaxed)
    }

    /// About how many bytes they take.
    pub fn n_bytes(&self) -> usize {
        self.n_bytes.load(Ordering::Relaxed)
    }

    /// A change that takes no more room.
    fn rewrite(
        &self,
        token: &Token,
        decide: impl Fn(Option<&Record>, Micros) -> (Written, Change),
    ) -> Written {
        self.change(token.operation, decide).unwrap_or(Written::Missing)
    }

    fn change<T>(
        &self,
        operation: OperationId,
        decide: impl Fn(Option<&Record>, Micros) -> (T, Change),
    ) -> Result<T, Full> {
        let now = self.clock.now();
        let mut shard = self.shard(&operation);
        self.leave(shard.collect(now, COLLECTED));
        let found = shard.records.get(&operation).filter(|record| now < record.expires);
        let (answer, change) = decide(found, now);
        if let Some(record) = change {
            self.put(&mut shard, operation, record)?;
        }
        Ok(answer)
    }

    fn put(&self, shard: &mut Shard, operation: OperationId, record: Record) -> Result<(), Full> {
        let before = shard.records.get(&operation).map(Record::n_bytes);
        let bytes = record.n_bytes();
        self.enter(usize::from(before.is_none()), bytes.saturating_sub(before.unwrap_or(0)))?;
        self.leave((0, before.unwrap_or(0).saturating_sub(bytes)));
        shard.put(operation, record);
        Ok(())
    }

    /// Takes room, if there is enough.
    fn enter(&self, n_records: usize, n_bytes: usize) -> Result<(), Full> {
        let records = self.n_records.fetch_add(n_records, Ordering::Relaxed) + n_records;
        let bytes = self.n_bytes.fetch_add(n_bytes, Ordering::Relaxed) + n_bytes;
        let too_many = n_records > 0 && records > self.bounds.max_records;
        if too_many || n_bytes > 0 && bytes > self.bounds.max_bytes {
            self.leave((n_records, n_bytes));
            return Err(Full);
        }
        Ok(())
    }

    fn leave(&self, (n_records, n_bytes): (usize, usize)) {
        self.n_records.fetch_sub(n_records, Ordering::Relaxed);
        self.n_bytes.fetch_sub(n_bytes, Ordering::Relaxed);
    }

    /// Drops all that has expired, in one shard after the other.
    pub(super) fn collect(&self) {
        let now = self.clock.now();
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            self.leave(shard.collect(now, usize::MAX));
        }
    }

    #[expect(clippy::indexing_slicing, reason = "a remainder of their number")]
    fn shard(&self, operation: &OperationId) -> MutexGuard<'_, Shard> {
        let hash = usize::try_from(self.hasher.hash_one(operation) >> 32).unwrap_or(0);
        self.shards[hash % N_SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn put(&mut self, operation: OperationId, record: Record) {
        self.ends.insert((record.expires, operation));
        let expires = record.expires;
        if let Some(before) = self.records.insert(operation, record)
            && before.expires != expires
        {
            self.ends.remove(&(before.expires, operation));
        }
    }

    /// Drops expired ones, so many at most: how many it were, and their bytes.
    fn collect(&mut self, now: Micros, most: usize) -> (usize, usize) {
        let mut freed = (0, 0);
        while freed.0 < most
            && let Some((expires, operation)) = self.ends.first().copied()
            && expires <= now
        {
            self.ends.remove(&(expires, operation));
            let record = self.records.remove(&operation);
            freed = (freed.0 + 1, freed.1 + record.map_or(0, |record| record.n_bytes()));
        }
        freed
    }
}

impl Record {
    fn n_bytes(&self) -> usize {
        let outcome = match &self.phase {
            record::Phase::Finished(outcome) => n_bytes(outcome),
            record::Phase::Running | record::Phase::Released => 0,
        };
        RECORD_BYTES + self.fingerprint.text().len() + outcome
    }
}

/// What an outcome takes.
fn n_bytes(outcome: &Outcome) -> usize {
    let texts = outcome.n_bytes();
    // Allocations are rounded up by an eighth at most.
    let allocated = texts + texts / 8;
    match outcome {
        Outcome::NotStored(_) => allocated,
        Outcome::Stored(answer) => allocated + ANSWER_BYTES + answer.headers.len() * HEADER_BYTES,
    }
}
