//! What a store of servers tells operators, by server. Addresses come from settings and from what
//! the cluster or the sentinels say, so there are as many label sets as servers.

use super::declare::Declare;
use prometheus::core::Collector;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
};
use std::sync::Arc;
use std::time::Duration;

/// The series of every server.
#[derive(Debug)]
pub struct StoreSeries {
    ops: &'static [StoreOp],
    seconds: HistogramVec,
    calls: IntCounterVec,
    units: IntCounterVec,
    errors: IntCounterVec,
    breakers: IntGaugeVec,
    connections: IntGaugeVec,
    memory: IntGaugeVec,
    evicted: IntGaugeVec,
    keeps_keys: IntGaugeVec,
    time_offset: GaugeVec,
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
    /// Whether an operation may run.
    Claim,
    /// That its lease begin anew.
    Renew,
    /// That its outcome be kept.
    Complete,
    /// That it be given back.
    Release,
}

/// The series of one server.
#[derive(Debug)]
pub struct ServerSeries {
    all: Arc<StoreSeries>,
    node: String,
    seconds: Vec<(StoreOp, Histogram)>,
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
    /// 1 if the server says that it does not evict keys when its memory is full.
    pub keeps_keys: IntGauge,
    /// Seconds by which the server's clock is ahead of ours.
    pub time_offset: Gauge,
}

impl StoreOp {
    const OF_BUCKETS: [Self; 3] = [Self::Decide, Self::Inspect, Self::Reset];
    const OF_RECORDS: [Self; 4] = [Self::Claim, Self::Renew, Self::Complete, Self::Release];

    const fn word(self) -> &'static str {
        match self {
            Self::Decide => "decide",
            Self::Inspect => "inspect",
            Self::Reset => "reset",
            Self::Claim => "claim",
            Self::Renew => "renew",
            Self::Complete => "complete",
            Self::Release => "release",
        }
    }
}

impl StoreSeries {
    pub(super) fn new(declare: &Declare) -> Arc<Self> {
        Arc::new(Self {
            ops: &StoreOp::OF_BUCKETS,
            seconds: declare.store_seconds(),
            calls: declare.store_calls(),
            units: declare.store_units(),
            errors: declare.store_errors(),
            breakers: declare.store_breakers(),
            connections: declare.store_connections(),
            memory: declare.redis_memory(),
            evicted: declare.redis_evicted(),
            keeps_keys: declare.redis_keeps_keys(),
            time_offset: declare.redis_time_offset(),
        })
    }

    /// Those of a store of records. What a server says of itself is shown once, whoever asked it.
    pub(super) fn of_records(declare: &Declare, buckets: &Self) -> Arc<Self> {
        let series = declare.record_store();
        Arc::new(Self {
            ops: &StoreOp::OF_RECORDS,
            seconds: series.seconds,
            calls: series.calls,
            units: series.units,
            errors: series.errors,
            breakers: series.breakers,
            connections: series.connections,
            memory: buckets.memory.clone(),
            evicted: buckets.evicted.clone(),
            keeps_keys: buckets.keeps_keys.clone(),
            time_offset: buckets.time_offset.clone(),
        })
    }

    /// The series of a server, from now on with value 0 if they are new.
    pub fn server(self: &Arc<Self>, node: &str) -> ServerSeries {
        let seconds = |op: &StoreOp| (*op, self.seconds.with_label_values(&[op.word(), node]));
        ServerSeries {
            all: Arc::clone(self),
            node: node.to_owned(),
            seconds: self.ops.iter().map(seconds).collect(),
            calls: self.calls.with_label_values(&[node]),
            units: self.units.with_label_values(&[node]),
            breaker: self.breakers.with_label_values(&[node]),
            connections: self.connections.with_label_values(&[node]),
            memory: self.memory.with_label_values(&[node]),
            evicted: self.evicted.with_label_values(&[node]),
            keeps_keys: self.keeps_keys.with_label_values(&[node]),
            time_offset: self.time_offset.with_label_values(&[node]),
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
        if let Some((_, seconds)) = self.seconds.iter().find(|(known, _)| *known == op) {
            seconds.observe(took.as_secs_f64());
        }
    }

    /// Counts charges that were not decided.
    pub fn not_decided(&self, reason: &'static str, n_units: usize) {
        self.all.not_decided(&self.node, reason, n_units);
    }

    /// Shows what the server is now no more: it is not one of the store's any longer. Its counts
    /// stay.
    pub fn left(&self) {
        let all = &self.all;
        // It may have been asked to leave before.
        for gauges in [&all.breakers, &all.connections, &all.memory, &all.evicted, &all.keeps_keys]
        {
            let _ = gauges.remove_label_values(&[&self.node]);
        }
        let _ = all.time_offset.remove_label_values(&[&self.node]);
    }
}
