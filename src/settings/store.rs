//! Where buckets live.

use super::Environment;
use super::faults::Faults;
use super::ignored::IGNORED;
use super::outage::{OutageSettings, RawOutage};
use super::records::{RawRecords, RecordSettings};
use super::servers::RedisConfig;
use super::shared::RawShared;
use super::words;
use clap::ArgMatches;
use clap::parser::ValueSource;
use std::time::Duration;

/// The store as it is asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Store")]
pub(super) struct RawStore {
    /// Where buckets live: memory or redis; if unset, memory unless something about Redis is set
    #[arg(long, env = "BACKEND_TYPE", value_name = "STORE", default_value = "")]
    backend_type: String,
    /// Most buckets in this process's memory; a sliding log's entries count one each
    #[arg(long, env = "MEMORY_MAX_BUCKETS", value_name = "NUMBER", default_value = "1000000")]
    memory_max_buckets: String,
    /// How long after the start readiness waits for Redis to answer
    #[arg(long, env = "START_GRACE", value_name = "DURATION", default_value = "15s")]
    start_grace: String,
    #[command(flatten)]
    outage: RawOutage,
    #[command(flatten)]
    redis: RawShared,
    #[command(flatten)]
    records: RawRecords,
}

/// Where buckets live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// Which store.
    pub backend: Backend,
    /// Most buckets in memory.
    pub memory_max_buckets: usize,
    /// How long readiness waits for a store that has not answered yet.
    pub start_grace: Duration,
    /// What stands in for a store that cannot decide.
    pub outage: OutageSettings,
    /// Where records of operations live.
    pub records: RecordSettings,
    /// Whether readiness follows the connections to Redis.
    pub follows_connections: bool,
    /// What an operator should know about the choice.
    pub warnings: Vec<String>,
}

/// A kind of store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// This process's memory.
    Memory,
    /// Redis.
    Redis(Box<RedisConfig>),
}

impl RawStore {
    pub(super) fn read(
        self,
        matches: &ArgMatches,
        environment: &Environment<'_>,
        faults: &mut Faults,
    ) -> Option<StoreSettings> {
        let max = faults.read("MEMORY_MAX_BUCKETS", &self.memory_max_buckets, words::positive);
        let grace = faults.read("START_GRACE", &self.start_grace, words::duration);
        let outage = self.outage.read(faults);
        let follows_connections = self.redis.follows_connections(faults);
        let trace = trace(matches, environment);
        let backend = self.backend(trace.as_deref(), faults);
        let records = self.records.read(backend.as_ref(), &self.redis, faults);
        let warnings = self.warnings(backend.as_ref(), environment);
        Some(StoreSettings {
            backend: backend?,
            memory_max_buckets: max?,
            start_grace: grace?,
            outage: outage?,
            records: records?,
            follows_connections: follows_connections?,
            warnings,
        })
    }

    /// `trace` is a setting that asks for Redis.
    fn backend(&self, trace: Option<&str>, faults: &mut Faults) -> Option<Backend> {
        let trace = match (self.backend_type.as_str(), trace) {
            ("memory", _) | ("", None) => {
                // Not used, but still no place for values that cannot be.
                self.redis.read(faults);
                return Some(Backend::Memory);
            }
            ("redis", _) => "BACKEND_TYPE=redis",
            ("", Some(trace)) => trace,
            ("memcache", _) => {
                let text = "found `memcache`, which cannot decide atomically; expected `memory` or `redis`";
                faults.add("BACKEND_TYPE", text);
                return None;
            }
            (other, _) => {
                let other = other.escape_debug();
                faults
                    .add("BACKEND_TYPE", format!("found `{other}`, expected `memory` or `redis`"));
                return None;
            }
        };
        if !self.redis.has_url() {
            let text = format!(
                "unset, and {trace} asks for Redis: expected where it is, such as `redis:6379` \
                 (BACKEND_TYPE=memory counts in this process)"
            );
            faults.add("REDIS_URL", text);
            return None;
        }
        self.redis.read(faults).map(|config| Backend::Redis(Box::new(config)))
    }

    fn warnings(&self, backend: Option<&Backend>, environment: &Environment<'_>) -> Vec<String> {
        match backend {
            Some(Backend::Memory) if self.backend_type == "memory" && self.redis.has_url() => {
                vec!["BACKEND_TYPE=memory: REDIS_URL is set and not used".to_owned()]
            }
            Some(Backend::Memory)
                if self.backend_type.is_empty()
                    && environment("KUBERNETES_SERVICE_HOST").is_some() =>
            {
                let text = "nothing about Redis is set: every replica counts for itself, so that \
                            n replicas allow n times each limit (BACKEND_TYPE=memory accepts this)";
                vec![text.to_owned()]
            }
            Some(_) | None => Vec::new(),
        }
    }
}

/// A setting that asks for Redis, if any was given, whatever to. What Kubernetes sets for a Service
/// called `redis` (`REDIS_PORT`, `REDIS_SERVICE_HOST`, …) is none.
fn trace(matches: &ArgMatches, environment: &Environment<'_>) -> Option<String> {
    let given = |id: &str| {
        matches.value_source(id).is_some_and(|source| source != ValueSource::DefaultValue)
    };
    let mut known = matches.ids().map(clap::Id::as_str);
    let known = known.find(|id| id.starts_with("redis_") && given(id)).map(str::to_uppercase);
    let mut others = IGNORED.iter().map(|ignored| ignored.name);
    let is_trace = |name: &&str| name.starts_with("REDIS_") && environment(name).is_some();
    known.or_else(|| others.find(is_trace).map(str::to_owned))
}
