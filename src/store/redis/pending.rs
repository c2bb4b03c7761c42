//! Charges that wait for a connection, and who waits for them.

use super::call::Unit;
use crate::store::{Outcomes, StoreError};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Charges of one request that are sent together, and who waits for them.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) unit: Unit,
    pub(super) waiter: Waiter,
}

/// Who waits, and how the charges are to be sent.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) answer: oneshot::Sender<Outcomes>,
    pub(super) deadline: Instant,
    /// Chooses the connection: charges of one tag are decided in the order of their arrival.
    pub(super) tag_hash: u64,
    /// The hash slot, 0 outside of clusters.
    pub(super) slot: u16,
    /// How often another server was named.
    pub(super) redirects: u8,
    pub(super) sending: Sending,
    /// Given back when nobody waits any more.
    pub(super) _ticket: Ticket,
}

/// How charges are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sending {
    /// With others of the slot.
    Together,
    /// Alone, because keys of the slot are on the move.
    Alone,
    /// Alone, to the server that the slot moves to.
    Asking,
}

/// The number of charges under way, and the most there may be.
#[derive(Debug)]
pub(super) struct InFlight {
    now: AtomicUsize,
    max: usize,
}

/// One of those under way.
#[derive(Debug)]
pub(super) struct Ticket(Arc<InFlight>);

impl Pending {
    /// Answers all of it with an error.
    pub(super) fn fail(self, error: StoreError) {
        let outcomes = failed(self.unit.n_items(), error);
        self.waiter.answer(outcomes);
    }

    /// Whether anybody still waits for it.
    pub(super) fn is_wanted(&self, now: Instant) -> bool {
        now < self.waiter.deadline && !self.waiter.answer.is_closed()
    }
}

impl Waiter {
    /// Hands over what became of the charges.
    pub(super) fn answer(self, outcomes: Outcomes) {
        // Whoever waited may have gone.
        _ = self.answer.send(outcomes);
    }
}

impl InFlight {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { now: AtomicUsize::new(0), max })
    }

    /// Counts one more, if there may be.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Ticket> {
        let ticket = Ticket(Arc::clone(self));
        (self.now.fetch_add(1, Ordering::Relaxed) < self.max).then_some(ticket)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The same error for every item.
pub(super) fn failed(n_items: usize, error: StoreError) -> Outcomes {
    SmallVec::from_elem(Err(error), n_items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_under_way_than_may_be() {
        let in_flight = InFlight::new(2);
        let first = in_flight.enter();
        let _second = in_flight.enter().unwrap();
        assert!(in_flight.enter().is_none());
        assert!(in_flight.enter().is_none());
        drop(first);
        assert!(in_flight.enter().is_some());
    }
}
