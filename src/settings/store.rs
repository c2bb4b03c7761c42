//! Where buckets live.

use super::Environment;
use super::faults::Faults;
use super::words;

/// The store as it is asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Store")]
pub(super) struct RawStore {
    /// Where buckets live: memory; if unset, memory unless something about Redis is set
    #[arg(long, env = "BACKEND_TYPE", value_name = "STORE", default_value = "")]
    backend_type: String,
    /// Most buckets in this process's memory; a sliding log's entries count one each
    #[arg(long, env = "MEMORY_MAX_BUCKETS", value_name = "NUMBER", default_value = "1000000")]
    memory_max_buckets: String,
}

/// Where buckets live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// Which store.
    pub backend: Backend,
    /// Most buckets in memory.
    pub memory_max_buckets: usize,
    /// What an operator should know about the choice.
    pub warning: Option<&'static str>,
}

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// This process's memory.
    Memory,
}

/// Variables that ask for Redis. What Kubernetes sets for a Service called `redis` (`REDIS_PORT`,
/// `REDIS_SERVICE_HOST`, …) is not among them.
const REDIS: [&str; 44] = [
    "REDIS_URL",
    "REDIS_TYPE",
    "REDIS_SOCKET_TYPE",
    "REDIS_AUTH",
    "REDIS_AUTH_FILE",
    "REDIS_SENTINEL_AUTH",
    "REDIS_POOL_SIZE",
    "REDIS_POOL_ON_EMPTY_BEHAVIOR",
    "REDIS_PIPELINE_WINDOW",
    "REDIS_PIPELINE_LIMIT",
    "REDIS_CLUSTER_PIPELINE_PARALLELISM",
    "REDIS_TIMEOUT",
    "REDIS_OP_TIMEOUT",
    "REDIS_COALESCE",
    "REDIS_TLS",
    "REDIS_TLS_CLIENT_CERT",
    "REDIS_TLS_CLIENT_KEY",
    "REDIS_TLS_CACERT",
    "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION",
    "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION",
    "REDIS_STARTUP_INITIAL_INTERVAL",
    "REDIS_STARTUP_MAX_INTERVAL",
    "REDIS_STARTUP_MAX_ELAPSED_TIME",
    "REDIS_PERSECOND",
    "REDIS_PERSECOND_URL",
    "REDIS_PERSECOND_TYPE",
    "REDIS_PERSECOND_SOCKET_TYPE",
    "REDIS_PERSECOND_AUTH",
    "REDIS_PERSECOND_AUTH_FILE",
    "REDIS_PERSECOND_SENTINEL_AUTH",
    "REDIS_PERSECOND_POOL_SIZE",
    "REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR",
    "REDIS_PERSECOND_PIPELINE_WINDOW",
    "REDIS_PERSECOND_PIPELINE_LIMIT",
    "REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM",
    "REDIS_PERSECOND_TIMEOUT",
    "REDIS_PERSECOND_OP_TIMEOUT",
    "REDIS_PERSECOND_TLS",
    "REDIS_PERSECOND_TLS_CLIENT_CERT",
    "REDIS_PERSECOND_TLS_CLIENT_KEY",
    "REDIS_PERSECOND_TLS_CACERT",
    "REDIS_PERSECOND_TLS_SKIP_HOSTNAME_VERIFICATION",
    "REDIS_PERSECOND_HEALTH_CHECK_ACTIVE_CONNECTION",
    "REDIS_PERSECOND_STARTUP_MAX_ELAPSED_TIME",
];

impl RawStore {
    pub(super) fn read(
        self,
        environment: &Environment<'_>,
        faults: &mut Faults,
    ) -> Option<StoreSettings> {
        let max = faults.read("MEMORY_MAX_BUCKETS", &self.memory_max_buckets, words::positive);
        let asks_for_redis = REDIS.into_iter().find(|name| environment(name).is_some());
        let backend = choose(&self.backend_type, asks_for_redis, faults);
        let warning = warning(&self.backend_type, environment);
        Some(StoreSettings { backend: backend?, memory_max_buckets: max?, warning })
    }
}

fn choose(wanted: &str, asks_for_redis: Option<&str>, faults: &mut Faults) -> Option<Backend> {
    const NO_REDIS: &str = "Redis is not built in yet; BACKEND_TYPE=memory counts in this process";
    match (wanted, asks_for_redis) {
        ("memory", _) | ("", None) => return Some(Backend::Memory),
        ("", Some(variable)) => {
            faults.add("BACKEND_TYPE", format!("unset, and {variable} is set: {NO_REDIS}"));
        }
        ("redis", _) => faults.add("BACKEND_TYPE", format!("found `redis`: {NO_REDIS}")),
        ("memcache", _) => faults.add(
            "BACKEND_TYPE",
            "found `memcache`, which cannot decide atomically; expected `memory` or `redis`",
        ),
        (other, _) => faults.add(
            "BACKEND_TYPE",
            format!("found `{}`, expected `memory` or `redis`", other.escape_debug()),
        ),
    }
    None
}

fn warning(wanted: &str, environment: &Environment<'_>) -> Option<&'static str> {
    if wanted == "memory" && environment("REDIS_URL").is_some() {
        Some("BACKEND_TYPE=memory: REDIS_URL is set and not used")
    } else if wanted.is_empty() && environment("KUBERNETES_SERVICE_HOST").is_some() {
        Some(
            "nothing about Redis is set: every replica counts for itself, \
             so that n replicas allow n times each limit (BACKEND_TYPE=memory accepts this)",
        )
    } else {
        None
    }
}
