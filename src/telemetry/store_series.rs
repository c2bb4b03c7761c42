//! What a store of servers tells operators, by server. Addresses come from settings and from what
//! the cluster or the sentinels say, so there are as many label sets as servers.

use super::declare::Declare;
use prometheus::core::Collector;
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};
use std::sync::Arc;
use std::time::Duration;

/// The series of every server.
#[derive(Debug)]
pub struct StoreSeries {
    seconds: HistogramVec,
    calls: IntCounterVec,
    units: IntCounterVec,
    errors: IntCounterVec,
    breakers: IntGaugeVec,
    connections: IntGaugeVec,
    memory: IntGaugeVec,
    evicted: IntGaugeVec,
}

/// What is asked of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOp {
    /// A batch of script calls.
    Decide,
    /// Whether a bucket is there.
    Inspect,
    /// That a bucket be forgotten.
    Reset,
}

/// The series of one server.
#[derive(Debug)]
pub struct ServerSeries {
    all: Arc<StoreSeries>,
    node: String,
    decide: Histogram,
    inspect: Histogram,
    reset: Histogram,
    /// Script calls sent.
    pub calls: IntCounter,
    /// Requests' charges that were sent in them.
    pub units: IntCounter,
    /// 1 while the server is known to fail.
    pub breaker: IntGauge,
    /// Open connections.
    pub connections: IntGauge,
    /// Bytes that the server says it uses.
    pub memory: IntGauge,
    /// Keys that the server says it evicted.
    pub evicted: IntGauge,
}

impl StoreSeries {
    pub(super) fn new(declare: &Declare) -> Arc<Self> {
        Arc::new(Self {
            seconds: declare.store_seconds(),
            calls: declare.store_calls(),
            units: declare.store_units(),
            errors: declare.store_errors(),
            breakers: declare.store_breakers(),
            connections: declare.store_connections(),
            memory: declare.redis_memory(),
            evicted: declare.redis_evicted(),
        })
    }

    /// The series of a server, from now on with value 0 if they are new.
    pub fn server(self: &Arc<Self>, node: &str) -> ServerSeries {
        let seconds = |op| self.seconds.with_label_values(&[op, node]);
        ServerSeries {
            all: Arc::clone(self),
            node: node.to_owned(),
            decide: seconds("decide"),
            inspect: seconds("inspect"),
            reset: seconds("reset"),
            calls: self.calls.with_label_values(&[node]),
            units: self.units.with_label_values(&[node]),
            breaker: self.breakers.with_label_values(&[node]),
            connections: self.connections.with_label_values(&[node]),
            memory: self.memory.with_label_values(&[node]),
            evicted: self.evicted.with_label_values(&[node]),
        }
    }

    /// Open connections to all servers; none without servers.
    pub(super) fn n_connections(&self) -> Option<i64> {
        let families = self.connections.collect();
        let metrics = families.iter().flat_map(prometheus::proto::MetricFamily::get_metric);
        #[expect(clippy::cast_possible_truncation, reason = "a count of connections")]
        let open = |metric: &prometheus::proto::Metric| metric.get_gauge().get_value() as i64;
        metrics.map(open).reduce(|sum, more| sum + more)
    }

    /// Counts charges that were not decided; without a node where none was found to ask.
    pub fn not_decided(&self, node: &str, reason: &'static str, n_units: usize) {
        let n_units = u64::try_from(n_units).unwrap_or(u64::MAX);
        self.errors.with_label_values(&[node, reason]).inc_by(n_units);
    }
}

impl ServerSeries {
    /// Notes how long the server took to answer.
    pub fn answered(&self, op: StoreOp, took: Duration) {
        let histogram = match op {
            StoreOp::Decide => &self.decide,
            StoreOp::Inspect => &self.inspect,
            StoreOp::Reset => &self.reset,
        };
        histogram.observe(took.as_secs_f64());
    }

    /// Counts charges that were not decided.
    pub fn not_decided(&self, reason: &'static str, n_units: usize) {
        self.all.not_decided(&self.node, reason, n_units);
    }

    /// Shows what the server is now no more: it is not one of the store's any longer. Its counts
    /// stay.
    pub fn left(&self) {
        for gauges in
            [&self.all.breakers, &self.all.connections, &self.all.memory, &self.all.evicted]
        {
            // It may have been asked to leave before.
            let _ = gauges.remove_label_values(&[&self.node]);
        }
    }
}
