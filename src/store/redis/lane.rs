//! One connection to a server and the queue before it, with one batch of calls under way at most.
//!
//! What arrives meanwhile goes together into the next batch, so charges of one tag are decided in
//! the order of their arrival, and an idle lane adds no delay.

use super::exchange::{self, Verdict};
use super::fault::ConnectError;
use super::fleet::Fleet;
use super::link::Link;
use super::node::NodeState;
use super::pending::{Pending, failed};
use crate::store::StoreError;
use crate::telemetry::StoreOp;
use redis::aio::MultiplexedConnection;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// A connection and its queue.
#[derive(Debug)]
pub(super) struct Lane {
    fleet: Arc<Fleet>,
    node: Arc<NodeState>,
    index: usize,
    queue: UnboundedReceiver<Pending>,
    stop: CancellationToken,
}

/// Most units in a batch.
const MAX_UNITS: usize = 64;

/// Charges wait so long for a connection that is being opened; then they are told that there is
/// none.
const PATIENCE: Duration = Duration::from_millis(100);

/// Pauses between attempts to connect: the first, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

impl Lane {
    pub(super) fn new(
        fleet: Arc<Fleet>,
        node: Arc<NodeState>,
        index: usize,
        queue: UnboundedReceiver<Pending>,
        stop: CancellationToken,
    ) -> Self {
        Self { fleet, node, index, queue, stop }
    }

    /// Connects and serves until it is stopped.
    pub(super) async fn run(mut self) {
        while let Some(link) = self.connect().await {
            let stop = self.stop.clone();
            self.show(Some(Arc::clone(&link)));
            self.node.series.connections.inc();
            stop.run_until_cancelled(self.serve(&link)).await;
            self.node.series.connections.dec();
            self.show(None);
            link.close();
        }
        self.queue.close();
        while let Ok(pending) = self.queue.try_recv() {
            pending.fail(StoreError::Unreachable);
        }
    }

    fn show(&self, link: Option<Arc<Link>>) {
        self.node.show(self.index, link);
    }

    /// Opens a connection, however often it takes; `None` when stopped.
    async fn connect(&mut self) -> Option<Arc<Link>> {
        let mut pause = BACKOFF.0;
        loop {
            match self.attempt().await? {
                Ok(link) => {
                    self.fleet.health.connected();
                    self.node.recovered();
                    return Some(link);
                }
                Err(error) => {
                    self.fleet.health.not_connected(&error);
                    self.fleet.doubt();
                    self.node.failed();
                    let jittered = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
                    self.refuse_during(sleep(jittered), error.error).await?;
                    pause = (pause * 2).min(BACKOFF.1);
                }
            }
        }
    }

    /// One attempt. Charges wait for it, though not for long.
    async fn attempt(&mut self) -> Option<Result<Arc<Link>, ConnectError>> {
        let fleet = Arc::clone(&self.fleet);
        let node = Arc::clone(&self.node);
        let mut opening = pin!(fleet.connector.open(&node.address, fleet.expects));
        tokio::select! {
            biased;
            () = self.stop.cancelled() => return None,
            opened = &mut opening => return Some(opened),
            () = sleep(PATIENCE) => node.failed(),
        }
        self.refuse_during(opening, StoreError::Unreachable).await
    }

    /// Answers charges with an error until something has happened; `None` when stopped.
    async fn refuse_during<T>(
        &mut self,
        happening: impl Future<Output = T>,
        error: StoreError,
    ) -> Option<T> {
        let mut happening = pin!(happening);
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                happened = &mut happening => return Some(happened),
                pending = self.queue.recv() => self.node.refuse(pending?, error),
            }
        }
    }

    /// Makes calls until the connection ends.
    async fn serve(&mut self, link: &Link) {
        let mut connection = link.connection();
        let mut closed = pin!(link.closed());
        let mut waiting = Vec::with_capacity(MAX_UNITS);
        loop {
            let n = tokio::select! {
                biased;
                () = &mut closed => return,
                n = self.queue.recv_many(&mut waiting, MAX_UNITS) => n,
            };
            if n == 0 {
                return;
            }
            self.drop_unwanted(&mut waiting);
            if !waiting.is_empty() {
                self.decide(link, &mut connection, &mut waiting).await;
            }
        }
    }

    /// Removes what nobody waits for any more, and everything while the server is known to fail.
    fn drop_unwanted(&self, waiting: &mut Vec<Pending>) {
        if self.node.breaker.is_open() {
            waiting.drain(..).for_each(|one| self.node.refuse(one, StoreError::BreakerOpen));
        }
        let (now, n_waiting) = (Instant::now(), waiting.len());
        waiting.retain(|pending| pending.is_wanted(now));
        if waiting.len() < n_waiting {
            let reason = StoreError::Timeout.reason();
            self.node.series.not_decided(reason, n_waiting - waiting.len());
        }
    }

    /// Has everything decided that waits, and deals out the answers.
    async fn decide(
        &mut self,
        link: &Link,
        connection: &mut MultiplexedConnection,
        waiting: &mut Vec<Pending>,
    ) {
        exchange::order(waiting, self.fleet.is_clustered());
        let (units, waiters): (Vec<_>, Vec<_>) =
            waiting.drain(..).map(|pending| (pending.unit, pending.waiter)).unzip();
        let sent = Instant::now();
        let verdicts =
            exchange::decide(connection, &self.fleet, &self.node.address, &units, &waiters).await;
        self.count(&verdicts, sent.elapsed());
        self.note(link, &verdicts, sent);
        let mut pending =
            units.into_iter().zip(waiters).map(|(unit, waiter)| Pending { unit, waiter });
        for (n_units, verdict) in verdicts {
            let pending = pending.by_ref().take(n_units);
            match verdict {
                Verdict::Decided(outcomes) => {
                    pending.zip(outcomes).for_each(|(one, outcome)| one.waiter.answer(outcome));
                }
                Verdict::Failed(error) => pending.for_each(|one| {
                    let outcomes = failed(one.unit.n_items(), error);
                    one.waiter.answer(outcomes);
                }),
                Verdict::Redirected(to) => pending.for_each(|one| self.fleet.redirect(one, &to)),
            }
        }
    }

    /// Tells operators.
    fn count(&self, verdicts: &[(usize, Verdict)], waited: Duration) {
        let series = &self.node.series;
        let n_units: usize = verdicts.iter().map(|(n_units, _)| n_units).sum();
        series.calls.inc_by(u64::try_from(verdicts.len()).unwrap_or(u64::MAX));
        series.units.inc_by(u64::try_from(n_units).unwrap_or(u64::MAX));
        series.answered(StoreOp::Decide, waited);
        for (n_units, verdict) in verdicts {
            match verdict {
                Verdict::Failed(error) => series.not_decided(error.reason(), *n_units),
                Verdict::Decided(outcomes) => {
                    let failed = outcomes.iter().filter_map(|unit| unit.iter().find_map(error_of));
                    failed.for_each(|error| series.not_decided(error.reason(), 1));
                }
                Verdict::Redirected(_) => {}
            }
        }
    }

    /// Draws the conclusions: for the breaker, the connection, the topology and the log.
    fn note(&self, link: &Link, verdicts: &[(usize, Verdict)], sent: Instant) {
        for error in verdicts.iter().filter_map(|(_, verdict)| verdict.error()) {
            self.node.heed(&self.fleet, link, error);
        }
        let first = verdicts.first().and_then(|(_, verdict)| verdict.error());
        self.node.weigh(link, first, sent);
    }
}

fn error_of<T>(outcome: &Result<T, StoreError>) -> Option<StoreError> {
    outcome.as_ref().err().copied()
}
