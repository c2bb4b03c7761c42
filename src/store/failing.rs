//! A store for tests: a memory store, parts of which fail as the test says.

use super::{Batch, MemoryStore, Outcomes, Part, StoreError};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The store.
#[derive(Debug)]
pub struct FailingStore {
    memory: MemoryStore,
    /// A group fails if a key of it holds this text.
    dead: Mutex<Vec<(&'static str, StoreError)>>,
    calls: AtomicUsize,
}

impl FailingStore {
    /// Nothing fails yet.
    pub fn new(memory: MemoryStore) -> Self {
        Self { memory, dead: Mutex::default(), calls: AtomicUsize::new(0) }
    }

    /// What does not fail.
    pub fn memory(&self) -> &MemoryStore {
        &self.memory
    }

    /// From now on these fail, and nothing else.
    pub fn fail(&self, dead: &[(&'static str, StoreError)]) {
        *self.dead.lock().unwrap_or_else(PoisonError::into_inner) = dead.to_vec();
    }

    /// How often it was asked.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    pub(super) fn decide(&self, batch: &Arc<Batch>) -> Outcomes {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let dead = self.dead.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = |at: usize| {
            let group = batch.groups.iter().find(|group| {
                let members = batch.members.get((*group).clone()).unwrap_or_default();
                members.iter().any(|member| member.items.contains(&at))
            })?;
            let items = batch.group(group.clone()).1;
            let dead = dead
                .iter()
                .find(|(text, _)| items.iter().any(|item| batch.key(item).contains(text)))?;
            Some(dead.1)
        };
        let alive = Part::of(batch, |member| fault(member.items.start).is_none());
        let mut decisions = self.memory.decide(&alive.batch).into_iter();
        let outcome = |at: usize| match fault(at) {
            Some(error) => Err(error),
            None => decisions.next().ok_or(StoreError::Unintelligible),
        };
        (0..batch.items.len()).map(outcome).collect()
    }
}
