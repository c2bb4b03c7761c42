//! The store that the settings ask for, and what it means for readiness.

use super::Error;
use super::health::Health;
use crate::clock::Clock;
use crate::idempotency::{MemoryBounds, Records};
use crate::limiter::Limiter;
use crate::rules::{Allows, FailureMode, RuleSet};
use crate::settings::{Backend, RecordBackend, RecordSettings, StoreSettings};
use crate::store::{MemoryConfig, MemoryStore, RedisState, RedisStore, Store};
use crate::telemetry::Metrics;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What a store runs in. It outlives the requests: those under way at the end still need it.
#[derive(Debug, Default)]
pub(super) struct StoreLife {
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// How readiness follows a store.
#[derive(Debug)]
pub(super) struct Readiness {
    limiter: Arc<Limiter>,
    health: Arc<Health>,
    grace_ends: Instant,
    follows_connections: bool,
}

/// Between two looks at a store.
const LOOK: Duration = Duration::from_millis(200);

/// How long connections may take to close.
const LAST_MOMENT: Duration = Duration::from_secs(1);

impl StoreLife {
    /// Makes the store.
    pub(super) fn open(
        &self,
        settings: &StoreSettings,
        clock: &Arc<dyn Clock>,
        metrics: &Metrics,
    ) -> Result<Store, Error> {
        match &settings.backend {
            Backend::Memory => {
                metrics.store_chosen("memory");
                let config = MemoryConfig { max_buckets: settings.memory_max_buckets };
                Ok(Store::Memory(MemoryStore::new(config, Arc::clone(clock))))
            }
            Backend::Redis(config) => {
                metrics.store_chosen("redis");
                let (config, series) = ((**config).clone(), metrics.store_series());
                Ok(Store::Redis(RedisStore::start(config, series, &self.tasks, &self.stop)?))
            }
        }
    }

    /// Runs what tells of requests until the last one is answered.
    pub(super) fn run<T: Future<Output = ()> + Send + 'static>(
        &self,
        task: impl FnOnce(CancellationToken) -> T,
    ) {
        self.tasks.spawn(task(self.stop.clone()));
    }

    /// Makes the store of operations.
    pub(super) fn open_records(
        &self,
        settings: &RecordSettings,
        clock: &Arc<dyn Clock>,
        metrics: &Metrics,
    ) -> Result<Arc<Records>, Error> {
        Ok(Arc::new(match &settings.backend {
            RecordBackend::Memory => {
                let bounds = MemoryBounds {
                    max_records: settings.memory_max_records,
                    max_bytes: settings.memory_max_bytes,
                };
                Records::in_memory(bounds, Arc::clone(clock))
            }
            RecordBackend::Redis(servers) => {
                let (servers, series) = ((**servers).clone(), metrics.record_store_series());
                Records::in_redis(servers, series, &self.tasks, &self.stop)?
            }
        }))
    }

    /// Lets readiness follow the store from now on.
    pub(super) fn watch(&self, readiness: Readiness) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move { stop.run_until_cancelled(readiness.follow()).await });
    }

    /// Closes all connections.
    pub(super) async fn end(&self) {
        self.stop.cancel();
        self.tasks.close();
        let _ = timeout(LAST_MOMENT, self.tasks.wait()).await;
    }
}

impl Readiness {
    pub(super) fn new(
        limiter: &Arc<Limiter>,
        health: &Arc<Health>,
        settings: &StoreSettings,
    ) -> Self {
        Self {
            limiter: Arc::clone(limiter),
            health: Arc::clone(health),
            grace_ends: Instant::now() + settings.start_grace,
            follows_connections: settings.follows_connections,
        }
    }

    /// Looks again and again, for ever.
    async fn follow(self) {
        let Store::Redis(store) = self.limiter.store() else { return };
        loop {
            self.health.store_can_answer(self.can_answer(store)).await;
            sleep(LOOK).await;
        }
    }

    /// Whether every rule can be answered, if only by its `failure_mode`.
    fn can_answer(&self, store: &RedisStore) -> bool {
        match store.state() {
            RedisState::Misconfigured(_) => false,
            RedisState::Waiting if Instant::now() < self.grace_ends => false,
            RedisState::Waiting => self.bears_outages(),
            RedisState::Answered => store.is_reachable() || self.bears_outages(),
        }
    }

    /// Whether readiness outlasts an outage.
    fn bears_outages(&self) -> bool {
        let policies = self.limiter.policies();
        !self.follows_connections && !policies.is_some_and(|all| all_fail(&all.rules))
    }
}

/// Whether in an outage every limit makes its request fail.
fn all_fail(rules: &RuleSet) -> bool {
    let mut limits = rules.rules.iter().filter_map(|rule| match &rule.allows {
        Allows::Limits(limits) => Some(limits.iter()),
        Allows::Unlimited { .. } => None,
    });
    let mut limits = limits.by_ref().flatten().peekable();
    limits.peek().is_some() && limits.all(|limit| limit.failure_mode == FailureMode::Error)
}
