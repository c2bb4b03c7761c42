//! A store as these tests use it, and what they ask of it.

use crate::support::eventually;
use crate::support::redis::{Redis, RedisCluster};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tidegate::algorithm::{Algorithm, Charge, Decision, Limit};
use tidegate::clock::Micros;
use tidegate::rules::KeyRange;
use tidegate::store::{
    Address, Batch, BatchItem, BatchMember, OpTimeout, Outcomes, RedisConfig, RedisServers,
    RedisState, RedisStore, StoreError, Topology,
};
use tidegate::telemetry::Metrics;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub const DAY: Micros = Micros::from_secs(86_400);

/// A store with the tasks that it runs in.
pub struct House {
    pub store: RedisStore,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl House {
    /// Starts a store.
    pub fn start(config: RedisConfig) -> Self {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let store =
            RedisStore::start(config, Metrics::new(1).store_series(), &tasks, &stop).unwrap();
        Self { store, tasks, stop }
    }

    /// Starts a store and waits until it can decide.
    pub async fn open(config: RedisConfig) -> Self {
        let house = Self::start(config);
        house.decides().await;
        house
    }

    /// Waits until it can decide.
    pub async fn decides(&self) {
        eventually("a decision", async || self.take("probe", limit(1000)).await.ok()).await;
    }

    /// Waits for a setting that it finds to be wrong, and says which.
    pub async fn complaint(&self) -> String {
        eventually("a wrong setting", async || match self.store.state() {
            RedisState::Misconfigured(what) => Some(what.to_string()),
            RedisState::Waiting | RedisState::Answered => None,
        })
        .await
    }

    /// Takes one hit.
    pub async fn take(&self, tag: &str, limit: Limit) -> Result<Decision, StoreError> {
        self.ask(tag, limit, Charge::Take(1)).await
    }

    /// One charge to one bucket.
    pub async fn ask(
        &self,
        tag: &str,
        limit: Limit,
        charge: Charge,
    ) -> Result<Decision, StoreError> {
        self.decide(&batch(&[(tag, limit, charge)])).await.pop().unwrap()
    }

    /// A whole batch, for a caller that gives up in time for `auto` to wait its longest.
    pub async fn decide(&self, batch: &Arc<Batch>) -> Outcomes {
        self.store.decide(batch, Some(Instant::now() + Duration::from_millis(200))).await
    }

    /// Ends every task.
    pub async fn close(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// A token bucket that saves a day's hits.
pub fn limit(requests: u32) -> Limit {
    limit_by(Algorithm::TokenBucket, requests)
}

/// So many hits a day, all at once if they like.
pub fn limit_by(algorithm: Algorithm, requests: u32) -> Limit {
    Limit { algorithm, requests, window: DAY, burst: requests, count_denied: false }
}

/// Charges of one request, each in a group of its own.
pub fn batch(charges: &[(&str, Limit, Charge)]) -> Arc<Batch> {
    let mut batch = Batch::default();
    for (at, (tag, limit, charge)) in charges.iter().enumerate() {
        let key = push_key(&mut batch.keys, tag, limit);
        batch.items.push(BatchItem { key, limit: *limit, post_paid: false });
        batch.members.push(BatchMember { charge: *charge, votes: true, items: at..at + 1 });
        batch.groups.push(at..at + 1);
    }
    Arc::new(batch)
}

/// The same in one group.
pub fn group(charges: &[(&str, Limit, Charge)]) -> Arc<Batch> {
    let batch = Arc::unwrap_or_clone(batch(charges));
    let groups = std::iter::once(0..charges.len()).collect();
    Arc::new(Batch { groups, ..batch })
}

fn push_key(text: &mut String, tag: &str, limit: &Limit) -> KeyRange {
    let start = text.len();
    let kind = limit.algorithm.name();
    write!(text, "{{d|k={tag}}}:{kind}/{}", limit.window.ceil_secs()).unwrap();
    KeyRange { key: start..text.len(), tag: start + 1..start + 5 + tag.len() }
}

/// The key of a bucket as Redis knows it.
pub fn key(tag: &str, limit: Limit) -> String {
    let mut text = String::from("tg:rl:");
    push_key(&mut text, tag, &limit);
    text
}

/// One server.
pub fn single(redis: &Redis) -> RedisServers {
    at(&redis.address())
}

/// One server at an address.
pub fn at(address: &str) -> RedisServers {
    servers(Topology::Single(address.parse().unwrap()))
}

/// A cluster.
pub fn cluster(cluster: &RedisCluster) -> RedisServers {
    let seeds = cluster.addresses().iter().map(|address| address.parse().unwrap()).collect();
    servers(Topology::Cluster { seeds })
}

/// Servers reached in the plainest way.
pub fn servers(topology: Topology) -> RedisServers {
    RedisServers {
        variables: "REDIS",
        topology,
        database: 0,
        auth: None,
        auth_file: None,
        sentinel_auth: None,
        tls: None,
        pool_size: 4,
        connect_timeout: Duration::from_secs(10),
        op_timeout: OpTimeout::Auto,
    }
}

/// A store that waits patiently.
pub fn patient(servers: RedisServers) -> RedisConfig {
    config(RedisServers { op_timeout: OpTimeout::Fixed(Duration::from_secs(20)), ..servers })
}

/// A store as the defaults have it.
pub fn config(servers: RedisServers) -> RedisConfig {
    RedisConfig {
        servers,
        per_second: None,
        coalesce: true,
        max_in_flight: 65_536,
        key_prefix: Box::default(),
        key_secret: None,
        expiry_jitter: Duration::ZERO,
    }
}

/// A unix socket.
pub fn unix(path: &std::path::Path) -> RedisServers {
    servers(Topology::Single(Address::Unix(path.to_owned())))
}

/// How many of these may pass.
pub fn n_allowed(outcomes: &[Result<Decision, StoreError>]) -> usize {
    outcomes.iter().filter(|outcome| outcome.as_ref().unwrap().allowed).count()
}
