//! Traces: a span for each sampled request, sent to an OpenTelemetry collector aside. A request
//! waits for none of it: a span that finds no place is dropped and counted.

mod context;
mod encode;
mod export;
mod send;
#[cfg(test)]
mod tests;

pub use context::Caller;
pub use export::Exporter;

use crate::clock::{Clock, Micros};
use crate::settings::{TlsFault, TraceSettings};
use context::{SpanId, TraceId, random};
use prometheus::IntCounter;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Makes spans.
#[derive(Debug)]
pub struct Tracer {
    clock: Arc<dyn Clock>,
    /// Of 2^63 traces, how many are sampled.
    threshold: u64,
    spans: mpsc::Sender<Span>,
    dropped: IntCounter,
}

/// A span that has begun.
#[derive(Debug)]
pub struct Begun {
    trace: TraceId,
    parent: Option<SpanId>,
    state: Box<str>,
    at: Micros,
}

/// What became of a request, in words that hold nothing of its caller's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The domain, if policies name it.
    pub domain: Option<String>,
    /// `OK` or `OVER_LIMIT`; none of an error.
    pub code: Option<&'static str>,
    /// Of each descriptor, its rule's path, or nothing.
    pub rules: Vec<String>,
    /// Of each descriptor, `OK` or `OVER_LIMIT`.
    pub statuses: Vec<&'static str>,
    /// Of each descriptor, who decided.
    pub decided_by: Vec<&'static str>,
    /// Status code of the call.
    pub grpc_status: i32,
    /// Why there is no answer.
    pub error: Option<String>,
}

/// A span that has ended.
#[derive(Debug)]
struct Span {
    begun: Begun,
    id: SpanId,
    ended: Micros,
    outcome: Outcome,
}

/// Spans that wait to be sent.
const MAX_WAITING: usize = 8192;

impl Tracer {
    /// A tracer, and what sends its spans. Fails if the collector's authority cannot be read.
    pub fn new(
        settings: TraceSettings,
        clock: Arc<dyn Clock>,
        dropped: IntCounter,
    ) -> Result<(Self, Exporter), TlsFault> {
        let (spans, ended) = mpsc::channel(MAX_WAITING);
        let threshold = threshold(settings.sampling_rate);
        let exporter = Exporter::new(settings, ended, dropped.clone())?;
        Ok((Self { clock, threshold, spans, dropped }, exporter))
    }

    /// Begins a span if this request is sampled: as its caller says, or else by chance.
    pub fn begin(&self, caller: Option<Caller>) -> Option<Begun> {
        let at = self.clock.now();
        let Some(caller) = caller else {
            let trace = TraceId(random());
            return self.samples(trace).then(|| Begun {
                trace,
                parent: None,
                state: Box::default(),
                at,
            });
        };
        let Caller { trace, span, sampled, state } = caller;
        sampled.then_some(Begun { trace, parent: Some(span), state, at })
    }

    /// Ends it.
    pub fn end(&self, begun: Begun, outcome: Outcome) {
        let span = Span { begun, id: SpanId(random()), ended: self.clock.now(), outcome };
        if self.spans.try_send(span).is_err() {
            self.dropped.inc();
        }
    }

    /// As OpenTelemetry's `TraceIdRatioBased` does, so that all who see a trace decide alike.
    fn samples(&self, trace: TraceId) -> bool {
        trace.low() >> 1 < self.threshold
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share from 0 to 1 of 2^63"
)]
fn threshold(share: f32) -> u64 {
    (f64::from(share) * (1_u64 << 63) as f64) as u64
}
