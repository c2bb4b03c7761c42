//! Sends spans in batches. What cannot be sent is dropped and counted.

use super::send::{Collector, Unsent};
use super::{Span, encode};
use crate::settings::{TlsFault, TraceSettings};
use prometheus::IntCounter;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

/// Most spans of a batch.
const MAX_BATCH: usize = 2048;

/// How long a span waits for others.
const EVERY: Duration = Duration::from_secs(5);

/// How long the last batch may take.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// Sends spans.
#[derive(Debug)]
pub struct Exporter {
    service: Vec<(&'static str, String)>,
    collector: Collector,
    spans: mpsc::Receiver<Span>,
    dropped: IntCounter,
    /// Whether the last batch could not be sent.
    failing: bool,
}

impl Exporter {
    pub(super) fn new(
        settings: TraceSettings,
        spans: mpsc::Receiver<Span>,
        dropped: IntCounter,
    ) -> Result<Self, TlsFault> {
        let mut service = settings.service.clone();
        if service.iter().all(|(name, _)| *name != "service.instance.id") {
            service.push(("service.instance.id", made_up_id()));
        }
        let collector = Collector::new(settings)?;
        Ok(Self { service, collector, spans, dropped, failing: false })
    }

    /// Sends until the stop, and what is left then.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut tick = interval(EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut batch = Vec::new();
        loop {
            let room = MAX_BATCH.saturating_sub(batch.len());
            tokio::select! {
                n_new = self.spans.recv_many(&mut batch, room) => match n_new {
                    // Nobody makes spans any more.
                    0 => break,
                    _ if batch.len() < MAX_BATCH => continue,
                    _ => {}
                },
                _ = tick.tick() => {}
                () = stop.cancelled() => break,
            }
            self.send(&mut batch).await;
        }
        while let Ok(span) = self.spans.try_recv() {
            batch.push(span);
        }
        let _ = timeout(LAST_MOMENT, self.send(&mut batch)).await;
    }

    async fn send(&mut self, batch: &mut Vec<Span>) {
        if batch.is_empty() {
            return;
        }
        let sent = self.collector.send(encode::request(&self.service, batch)).await;
        if sent.is_err() {
            self.dropped.inc_by(batch.len() as u64);
        }
        batch.clear();
        self.tell(&sent);
    }

    fn tell(&mut self, sent: &Result<(), Unsent>) {
        match sent {
            Err(error) if !self.failing => {
                tracing::warn!(%error, "traces cannot be sent and are dropped");
            }
            Ok(()) if self.failing => tracing::info!("traces are sent again"),
            Ok(()) | Err(_) => {}
        }
        self.failing = sent.is_err();
    }
}

/// A random UUID.
fn made_up_id() -> String {
    let id = fastrand::u128(..) & !(0xf000 << 64) & !(0xc000 << 48) | 0x4000 << 64 | 0x8000 << 48;
    let hex = format!("{id:032x}");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| hex.get(part).unwrap_or_default());
    parts.join("-")
}
