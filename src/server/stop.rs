//! The end: say no to health, go on for a moment, finish what is under way, let go of the rest.

use super::Error;
use super::connections::Life;
use super::health::Health;
use crate::settings::Stop;
use std::io;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep, timeout};

/// How long what was let go of may take to notice.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// Signals that are listened to; from the first on none of them ends the process by itself.
#[derive(Debug)]
pub(super) struct Signals {
    reload: Signal,
    stop: StopSignals,
}

/// The two that ask for an end.
#[derive(Debug)]
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self {
            reload: signal(SignalKind::hangup())?,
            stop: StopSignals { terminate, interrupt },
        })
    }

    /// The one that asks for a reload, and the others.
    pub(super) fn split(self) -> (Signal, StopSignals) {
        (self.reload, self.stop)
    }
}

impl StopSignals {
    /// Waits for one. An orchestrator sends SIGTERM and needs time to send requests elsewhere,
    /// which takes the delay; a person at a terminal sends SIGINT and does not.
    async fn recv(&mut self, drain_delay: Duration) -> Duration {
        tokio::select! {
            _ = self.terminate.recv() => drain_delay,
            _ = self.interrupt.recv() => Duration::ZERO,
        }
    }

    /// Waits for another one.
    async fn again(&mut self, began: Instant) {
        loop {
            self.recv(Duration::ZERO).await;
            if began.elapsed() >= SAME_SIGNAL {
                return;
            }
        }
    }
}

/// A signal that comes again so soon is the same one, sent to the process and to its group.
const SAME_SIGNAL: Duration = Duration::from_secs(1);

/// Waits for a signal, then ends everything. A second signal ends it at once.
pub(super) async fn at_signal(
    mut signals: StopSignals,
    stop: Stop,
    health: &Health,
    life: &Life,
) -> Result<(), Error> {
    let drain_delay = signals.recv(stop.drain_delay).await;
    let began = Instant::now();
    tracing::info!(?drain_delay, timeout = ?stop.timeout, "stopping");
    tokio::select! {
        () = finish(drain_delay, stop.timeout, health, life) => {
            tracing::info!("stopped");
            Ok(())
        }
        () = signals.again(began) => Err(Error::StoppedAtOnce),
    }
}

async fn finish(drain_delay: Duration, at_most: Duration, health: &Health, life: &Life) {
    health.drain().await;
    sleep(drain_delay).await;
    health.end().await;
    life.stop.cancel();
    life.tasks.close();
    if timeout(at_most, life.tasks.wait()).await.is_err() {
        tracing::warn!(n_tasks = life.tasks.len(), "not everything has finished in time");
        life.cut.cancel();
        let _ = timeout(LAST_MOMENT, life.tasks.wait()).await;
    }
}
