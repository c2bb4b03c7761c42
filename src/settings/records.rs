//! Where records of operations live: idempotency's, apart from the buckets of rate limits.

use super::BOOL;
use super::faults::Faults;
use super::servers::{RecordServers, RedisServers};
use super::shared::{RawShared, Secret, Words, positive_duration};
use super::store::Backend;
use super::words;

/// Records as they are asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Records of idempotency")]
#[expect(clippy::struct_field_names, reason = "they are the names of the flags")]
pub(super) struct RawRecords {
    /// How long one call to Redis about an operation may take; a claim may take two, a completion three
    #[arg(
        long,
        env = "IDEMPOTENCY_STORE_TIMEOUT",
        value_name = "DURATION",
        default_value = "50ms"
    )]
    idempotency_store_timeout: String,
    /// Claim operations although Redis evicts keys when its memory is full, and so forgets some
    #[arg(long, env = "IDEMPOTENCY_ALLOW_EVICTION", value_name = BOOL, default_value = "false")]
    idempotency_allow_eviction: String,
    /// Most operations in this process's memory; more are refused as by a store that fails
    #[arg(
        long,
        env = "IDEMPOTENCY_MEMORY_MAX_RECORDS",
        value_name = "NUMBER",
        default_value = "100000"
    )]
    idempotency_memory_max_records: String,
    /// About the most bytes of them; answers beyond are not kept, only that the operation ran
    #[arg(
        long,
        env = "IDEMPOTENCY_MEMORY_MAX_BYTES",
        value_name = "NUMBER",
        default_value = "268435456"
    )]
    idempotency_memory_max_bytes: String,
    /// A Redis of their own, as `REDIS_URL`; if unset, they live where buckets do
    #[arg(
        long,
        env = "IDEMPOTENCY_REDIS_URL",
        value_name = "URL",
        default_value = "",
        hide_env_values = true
    )]
    idempotency_redis_url: Secret,
    /// As `REDIS_TYPE`
    #[arg(long, env = "IDEMPOTENCY_REDIS_TYPE", value_name = "TYPE", default_value = "single")]
    idempotency_redis_type: String,
    /// As `REDIS_SOCKET_TYPE`
    #[arg(long, env = "IDEMPOTENCY_REDIS_SOCKET_TYPE", value_name = "TYPE", default_value = "")]
    idempotency_redis_socket_type: String,
    /// As `REDIS_AUTH`
    #[arg(
        long,
        env = "IDEMPOTENCY_REDIS_AUTH",
        value_name = "AUTH",
        default_value = "",
        hide_env_values = true
    )]
    idempotency_redis_auth: Secret,
    /// As `REDIS_AUTH_FILE`
    #[arg(long, env = "IDEMPOTENCY_REDIS_AUTH_FILE", value_name = "PATH", default_value = "")]
    idempotency_redis_auth_file: String,
    /// As `REDIS_SENTINEL_AUTH`
    #[arg(
        long,
        env = "IDEMPOTENCY_REDIS_SENTINEL_AUTH",
        value_name = "AUTH",
        default_value = "",
        hide_env_values = true
    )]
    idempotency_redis_sentinel_auth: Secret,
    /// As `REDIS_TLS`
    #[arg(long, env = "IDEMPOTENCY_REDIS_TLS", value_name = BOOL, default_value = "false")]
    idempotency_redis_tls: String,
    /// As `REDIS_POOL_SIZE`
    #[arg(long, env = "IDEMPOTENCY_REDIS_POOL_SIZE", value_name = "NUMBER", default_value = "4")]
    idempotency_redis_pool_size: String,
    /// As `REDIS_TIMEOUT`
    #[arg(long, env = "IDEMPOTENCY_REDIS_TIMEOUT", value_name = "DURATION", default_value = "10s")]
    idempotency_redis_timeout: String,
}

/// Where records of operations live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSettings {
    /// Which store.
    pub backend: RecordBackend,
    /// Most operations in memory.
    pub memory_max_records: usize,
    /// About the most bytes of them.
    pub memory_max_bytes: usize,
}

/// A kind of store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordBackend {
    /// This process's memory.
    Memory,
    /// Redis.
    Redis(Box<RecordServers>),
}

impl RawRecords {
    /// `buckets` is where buckets live, if that is known.
    pub(super) fn read(
        &self,
        buckets: Option<&Backend>,
        redis: &RawShared,
        faults: &mut Faults,
    ) -> Option<RecordSettings> {
        let max_records = &self.idempotency_memory_max_records;
        let max_records =
            faults.read("IDEMPOTENCY_MEMORY_MAX_RECORDS", max_records, words::positive);
        let max_bytes = &self.idempotency_memory_max_bytes;
        let max_bytes = faults.read("IDEMPOTENCY_MEMORY_MAX_BYTES", max_bytes, words::positive);
        Some(RecordSettings {
            backend: self.backend(buckets, redis, faults)?,
            memory_max_records: max_records?,
            memory_max_bytes: max_bytes?,
        })
    }

    fn backend(
        &self,
        buckets: Option<&Backend>,
        redis: &RawShared,
        faults: &mut Faults,
    ) -> Option<RecordBackend> {
        let timeout = &self.idempotency_store_timeout;
        let timeout = faults.read("IDEMPOTENCY_STORE_TIMEOUT", timeout, positive_duration);
        let evicts = &self.idempotency_allow_eviction;
        let evicts = faults.read("IDEMPOTENCY_ALLOW_EVICTION", evicts, words::boolean);
        let own = !self.idempotency_redis_url.0.is_empty();
        let (servers, max_in_flight, key_prefix) = match buckets {
            Some(Backend::Redis(config)) => {
                let servers =
                    if own { self.own(redis, faults) } else { Some(config.servers.clone()) };
                (servers, config.max_in_flight, config.key_prefix.clone())
            }
            Some(Backend::Memory) if own => {
                let (max, prefix) = (redis.max_in_flight(faults), redis.key_prefix(faults));
                (self.own(redis, faults), max?, prefix?)
            }
            Some(Backend::Memory) => return Some(RecordBackend::Memory),
            None => return None,
        };
        Some(RecordBackend::Redis(Box::new(RecordServers {
            servers: servers?,
            max_in_flight,
            key_prefix,
            timeout: timeout?,
            allow_eviction: evicts?,
        })))
    }

    fn own(&self, redis: &RawShared, faults: &mut Faults) -> Option<RedisServers> {
        let tls = redis.tls(faults);
        self.words().read(tls.as_ref(), faults)
    }

    fn words(&self) -> Words<'_> {
        Words {
            variables: "IDEMPOTENCY_REDIS",
            url: &self.idempotency_redis_url.0,
            kind: &self.idempotency_redis_type,
            socket: &self.idempotency_redis_socket_type,
            auth: &self.idempotency_redis_auth.0,
            auth_file: &self.idempotency_redis_auth_file,
            sentinel_auth: &self.idempotency_redis_sentinel_auth.0,
            tls: &self.idempotency_redis_tls,
            pool_size: &self.idempotency_redis_pool_size,
            timeout: &self.idempotency_redis_timeout,
            // What a call may take is asked for by each.
            op_timeout: "auto",
        }
    }
}
