//! Variables of envoyproxy/ratelimit that have no effect here. They are read all the same: what it
//! would have died of is a fault, and whoever sets one is told what to use instead.

use super::Environment;
use super::faults::Faults;
use super::words::{self, Read};

/// Such a variable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ignored {
    pub(super) name: &'static str,
    kind: Kind,
    /// What is done in its place.
    pub(super) instead: &'static str,
}

/// What its values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Duration,
    /// Off is no wish.
    Switch,
    /// Both of its values ask for what is done anyway.
    Either,
    /// What to do when no connection is free.
    OnEmpty,
}

const WITH_PROMETHEUS: &str =
    "metrics have the names and labels of its built-in mapping; relabel in the scrape";
const BATCHES: &str =
    "charges that wait for a connection share a call; REDIS_COALESCE=false ends it";
const NODES: &str = "the servers of a cluster are asked at the same time";
const SHARED: &str =
    "connections are shared, so that none is waited for; MAX_IN_FLIGHT bounds calls";
const WAITS: &str = "an absent Redis is waited for; START_GRACE says how long readiness does";
const MEMCACHED: &str = "memcached cannot decide atomically; use Redis or BACKEND_TYPE=memory";

pub(super) const IGNORED: [Ignored; 25] = [
    Ignored::new("PROMETHEUS_MAPPER_YAML", Kind::Text, WITH_PROMETHEUS),
    Ignored::new(
        "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS",
        Kind::Switch,
        "times are in seconds, as their names say",
    ),
    Ignored::new(
        "RUNTIME_WATCH_ROOT",
        Kind::Either,
        "every name on the way to a policy file is watched, links and folders",
    ),
    Ignored::new(
        "LOCAL_CACHE_SIZE_IN_BYTES",
        Kind::Number,
        "refusals are kept by themselves; DENY_CACHE_MAX and DENY_CACHE_ENTRIES bound them",
    ),
    Ignored::new("REDIS_PIPELINE_WINDOW", Kind::Duration, BATCHES),
    Ignored::new("REDIS_PIPELINE_LIMIT", Kind::Number, BATCHES),
    Ignored::new("REDIS_CLUSTER_PIPELINE_PARALLELISM", Kind::Number, NODES),
    Ignored::new("REDIS_POOL_ON_EMPTY_BEHAVIOR", Kind::OnEmpty, SHARED),
    Ignored::new("REDIS_STARTUP_INITIAL_INTERVAL", Kind::Duration, WAITS),
    Ignored::new("REDIS_STARTUP_MAX_INTERVAL", Kind::Duration, WAITS),
    Ignored::new("REDIS_STARTUP_MAX_ELAPSED_TIME", Kind::Duration, WAITS),
    Ignored::new("REDIS_PERSECOND_PIPELINE_WINDOW", Kind::Duration, BATCHES),
    Ignored::new("REDIS_PERSECOND_PIPELINE_LIMIT", Kind::Number, BATCHES),
    Ignored::new("REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM", Kind::Number, NODES),
    Ignored::new("REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR", Kind::OnEmpty, SHARED),
    Ignored::new("REDIS_PERSECOND_STARTUP_MAX_ELAPSED_TIME", Kind::Duration, WAITS),
    Ignored::new("MEMCACHE_HOST_PORT", Kind::Text, MEMCACHED),
    Ignored::new("MEMCACHE_SRV", Kind::Text, MEMCACHED),
    Ignored::new("MEMCACHE_SRV_REFRESH", Kind::Duration, MEMCACHED),
    Ignored::new("MEMCACHE_MAX_IDLE_CONNS", Kind::Number, MEMCACHED),
    Ignored::new("MEMCACHE_TLS", Kind::Switch, MEMCACHED),
    Ignored::new("MEMCACHE_TLS_CLIENT_CERT", Kind::Text, MEMCACHED),
    Ignored::new("MEMCACHE_TLS_CLIENT_KEY", Kind::Text, MEMCACHED),
    Ignored::new("MEMCACHE_TLS_CACERT", Kind::Text, MEMCACHED),
    Ignored::new("MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION", Kind::Switch, MEMCACHED),
];

/// Reads those that are set; a line for each that asks for something.
pub(super) fn read(environment: &Environment<'_>, faults: &mut Faults) -> Vec<String> {
    IGNORED.iter().filter_map(|ignored| ignored.read(&environment(ignored.name)?, faults)).collect()
}

impl Ignored {
    const fn new(name: &'static str, kind: Kind, instead: &'static str) -> Self {
        Self { name, kind, instead }
    }

    fn read(&self, value: &str, faults: &mut Faults) -> Option<String> {
        let asks = faults.read_variable(self.name, value, |value| self.kind.asks(value))?;
        asks.then(|| format!("{} has no effect: {}", self.name, self.instead))
    }
}

impl Kind {
    /// Whether a value asks for something.
    fn asks(self, value: &str) -> Read<bool> {
        match self {
            Self::Text => Ok(!value.is_empty()),
            Self::Number => words::count(value).map(|_| true),
            Self::Duration => words::duration(value).map(|_| true),
            Self::Switch => words::boolean(value),
            Self::Either => words::boolean(value).map(|_| false),
            Self::OnEmpty => on_empty(value),
        }
    }
}

/// envoyproxy/ratelimit does not start with `CREATE` or `ERROR` either.
fn on_empty(value: &str) -> Read<bool> {
    match value.to_ascii_uppercase().as_str() {
        "CREATE" | "ERROR" => Err("`WAIT`"),
        _ => Ok(true),
    }
}
