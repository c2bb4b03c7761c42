//! Pushes metrics to a statsd server: what was counted since the last time, read from the series
//! that are there anyway.

mod line;
mod samples;
mod sink;
#[cfg(test)]
mod tests;

use super::Metrics;
use crate::settings::PushSettings;
use line::Writer;
use samples::Sample;
use sink::Sink;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_util::sync::CancellationToken;

/// How long one packet may take.
const SEND: Duration = Duration::from_secs(2);

/// How long the last push may take.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// Pushes metrics.
#[derive(Debug)]
pub struct Push {
    metrics: Arc<Metrics>,
    every: Duration,
    writer: Writer,
    sink: Sink,
    /// What the server was told of each series so far.
    told: Told,
    /// Whether the last push failed.
    failing: bool,
}

type Told = HashMap<Box<str>, u64>;

/// Lines that are sent together, and the totals that the server then knows.
#[derive(Debug, Default)]
struct Packet {
    lines: String,
    told: Vec<(Box<str>, u64)>,
}

impl Push {
    /// Pushes to the server of these settings.
    pub fn new(settings: &PushSettings, metrics: Arc<Metrics>) -> Self {
        let PushSettings { dialect, transport, host, port, tags, interval } = settings;
        Self {
            metrics,
            every: *interval,
            writer: Writer::new(*dialect, tags),
            sink: Sink::new(*transport, host, *port),
            told: Told::default(),
            failing: false,
        }
    }

    /// Pushes at every interval until the stop, and once more then.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut tick = interval_at(Instant::now() + self.every, self.every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(tick.tick()).await.is_some() {
            self.push().await;
        }
        let _ = timeout(LAST_MOMENT, self.push()).await;
    }

    /// What cannot be sent now is part of the next push: totals are kept, not lines.
    async fn push(&mut self) {
        let metrics = Arc::clone(&self.metrics);
        // With very many rules this takes milliseconds: not for request threads.
        let Ok(samples) = spawn_blocking(move || samples::of(&metrics)).await else { return };
        let sent = self.send(&samples).await;
        let server = &self.sink;
        match &sent {
            Err(error) if !self.failing => {
                tracing::warn!(%server, %error, "metrics cannot be pushed; they are kept for later");
            }
            Ok(()) if self.failing => tracing::info!(%server, "metrics are pushed again"),
            Ok(()) | Err(_) => {}
        }
        self.failing = sent.is_err();
    }

    async fn send(&mut self, samples: &[Sample]) -> io::Result<()> {
        for packet in self.packets(samples) {
            let sent = timeout(SEND, self.sink.send(packet.lines.as_bytes())).await;
            sent.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
            self.told.extend(packet.told);
        }
        Ok(())
    }

    /// What is due. Of series that are gone nothing is kept.
    fn packets(&mut self, samples: &[Sample]) -> Vec<Packet> {
        let before = std::mem::take(&mut self.told);
        let mut packets = Vec::new();
        for sample in samples {
            let Some(total) = sample.total() else {
                self.add(&mut packets, &self.writer.line(sample, 0), None);
                continue;
            };
            let key = sample.key();
            // A total that has shrunk is one that began anew.
            let told = before.get(&key).copied().filter(|told| *told <= total).unwrap_or_default();
            self.told.insert(key.clone(), told);
            if total > told {
                let line = self.writer.line(sample, total - told);
                self.add(&mut packets, &line, Some((key, total)));
            }
        }
        packets
    }

    fn add(&self, packets: &mut Vec<Packet>, line: &str, told: Option<(Box<str>, u64)>) {
        let fits = |packet: &&mut Packet| packet.lines.len() + line.len() <= self.sink.max_packet();
        match packets.last_mut().filter(fits) {
            Some(packet) => {
                packet.lines.push_str(line);
                packet.told.extend(told);
            }
            None => {
                packets.push(Packet { lines: line.to_owned(), told: told.into_iter().collect() });
            }
        }
    }
}
