//! Buckets in Redis: single, sentinel or cluster; every decision one atomic script call.
//!
//! A request's charges become units (`call`) that wait in a lane (`lane`), which owns one of the
//! connections to a server (`node`); what waits together is sent together (`exchange`). The servers
//! and their slots (`fleet`, `slots`) are followed by `cluster` and `sentinel`.

mod auth;
mod breaker;
mod call;
mod cluster;
mod connect;
mod exchange;
mod fault;
mod fleet;
mod greeting;
mod health;
mod lane;
mod link;
mod names;
mod node;
mod pending;
mod per_second;
mod report;
mod runner;
mod script;
mod sentinel;
mod servers;
mod slots;
mod speaks;
mod tls;
mod watch;

pub use config::{
    Address, Credentials, KeySecret, NoAddress, OpTimeout, RedisConfig, RedisServers, TlsFiles,
    Topology,
};
pub use fault::Misconfigured;
pub use health::RedisState;
pub use runner::{Run, RunnerConfig, ScriptRunner};
pub use script::Script;

use super::{Batch, BatchItem, Outcomes, Part, StoreError};
use crate::algorithm::Decision;
use crate::settings::servers as config;
use crate::telemetry::StoreSeries;
use names::HashedNames;
use pending::{InFlight, failed};
use per_second::Homes;
use script::Scripts;
use servers::Servers;
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The store.
#[derive(Debug)]
pub struct RedisStore {
    main: Servers,
    per_second: Option<Servers>,
    hashed: Option<HashedNames>,
}

impl RedisStore {
    /// Starts to connect, in tasks that `tasks` tracks and `stop` ends. Fails only for settings
    /// that cannot be right; a Redis that is not there yet is waited for.
    pub fn start(
        config: RedisConfig,
        series: &Arc<StoreSeries>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Result<Self, Misconfigured> {
        if config.key_prefix.contains(['{', '}']) {
            let what = "a brace would choose the hash slot, expected none";
            return Err(Misconfigured::new("CACHE_KEY_PREFIX", what));
        }
        let scripts = Arc::new(Scripts::new());
        let in_flight = InFlight::new(config.max_in_flight);
        let calls = || fleet::Calls {
            scripts: Arc::clone(&scripts),
            coalesce: config.coalesce,
            key_prefix: format!("{}tg:rl:", config.key_prefix).into(),
            expiry_jitter: config.expiry_jitter,
            series: Arc::clone(series),
        };
        let hashed = config.key_secret.as_ref().map(HashedNames::new).transpose()?;
        let start = |servers| Servers::start(servers, calls(), &in_flight, tasks, stop);
        let per_second = config.per_second.map(start).transpose()?;
        Ok(Self { main: start(config.servers)?, per_second, hashed })
    }

    /// The hash slot of every key with this tag.
    pub fn slot(&self, tag: &str) -> u16 {
        match &self.hashed {
            Some(names) => slots::slot(&names.tag(tag)),
            None => slots::slot(tag),
        }
    }

    /// Decides a batch: one outcome per item, in its order. `gives_up` is when the caller does.
    pub async fn decide(&self, batch: &Arc<Batch>, gives_up: Option<Instant>) -> Outcomes {
        let renamed = self.hashed.as_ref().map(|names| Arc::new(names.rename(batch)));
        let batch = renamed.as_ref().unwrap_or(batch);
        let Some(per_second) = &self.per_second else {
            return self.main.decide(batch, gives_up).await;
        };
        match Homes::of(batch) {
            Homes::Main => self.main.decide(batch, gives_up).await,
            Homes::PerSecond => per_second.decide(batch, gives_up).await,
            Homes::Both { main, per_second: other } => {
                let (mains, others) = tokio::join!(
                    self.main.decide(&main.batch, gives_up),
                    per_second.decide(&other.batch, gives_up)
                );
                together(batch.items.len(), [(main, mains), (other, others)])
            }
        }
    }

    /// What a peek at an item's bucket would be answered, if there is one. The batch holds nothing
    /// but its descriptor.
    pub async fn inspect(
        &self,
        batch: &Batch,
        item: &BatchItem,
    ) -> Result<Option<Decision>, StoreError> {
        let (servers, bucket) = self.bucket(batch, item);
        servers.inspect(&bucket).await
    }

    /// Forgets an item's bucket. Says whether there was one.
    pub async fn reset(&self, batch: &Batch, item: &BatchItem) -> Result<bool, StoreError> {
        let (servers, bucket) = self.bucket(batch, item);
        servers.reset(&bucket).await
    }

    /// What is known of it, of the worse where there are two.
    pub fn state(&self) -> RedisState {
        let others = self.per_second.as_ref().map(Servers::state);
        let worse = |state: &RedisState, other: &RedisState| match state {
            RedisState::Answered => true,
            RedisState::Waiting => matches!(other, RedisState::Misconfigured(_)),
            RedisState::Misconfigured(_) => false,
        };
        let state = self.main.state();
        others.filter(|other| worse(&state, other)).unwrap_or(state)
    }

    /// Whether any server of each Redis can be talked to.
    pub fn is_reachable(&self) -> bool {
        self.main.is_reachable() && self.per_second.as_ref().is_none_or(Servers::is_reachable)
    }

    /// Whether one call can hold charges of several hash tags.
    pub fn spans_tags(&self) -> bool {
        self.main.spans_tags() && self.per_second.as_ref().is_none_or(Servers::spans_tags)
    }

    /// The Redis that holds an item's bucket, and a batch that peeks at nothing else.
    fn bucket(&self, batch: &Batch, item: &BatchItem) -> (&Servers, Arc<Batch>) {
        let servers = match (&self.per_second, Homes::of(batch)) {
            (Some(per_second), Homes::PerSecond) => per_second,
            _ => &self.main,
        };
        let bucket = batch.peek(item);
        let bucket = match &self.hashed {
            Some(names) => names.rename(&bucket),
            None => bucket,
        };
        (servers, Arc::new(bucket))
    }
}

/// Puts the outcomes of parts where their items stand in the whole.
fn together(n_items: usize, parts: [(Part, Outcomes); 2]) -> Outcomes {
    let mut whole = failed(n_items, StoreError::Unintelligible);
    for (part, outcomes) in parts {
        for (place, outcome) in part.items.iter().zip(outcomes) {
            whole.get_mut(*place).into_iter().for_each(|slot| *slot = outcome);
        }
    }
    whole
}

#[cfg(test)]
pub(crate) mod tests;
