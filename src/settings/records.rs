//! Where records of operations live: idempotency's, apart from the buckets of rate limits.

use super::BOOL;
use super::faults::Faults;
use super::reach::{ForRecords, RawServers};
use super::servers::{RecordServers, RedisServers};
use super::shared::RawShared;
use super::store::Backend;
use super::words;

/// Records as they are asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Records of idempotency")]
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
    #[command(flatten)]
    servers: RawServers<ForRecords>,
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
        let timeout = faults.read("IDEMPOTENCY_STORE_TIMEOUT", timeout, words::positive_duration);
        let evicts = &self.idempotency_allow_eviction;
        let evicts = faults.read("IDEMPOTENCY_ALLOW_EVICTION", evicts, words::boolean);
        let own = self.servers.has_url();
        if !own {
            self.servers.how(faults);
        }
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
        self.servers.read(tls.as_ref(), faults)
    }
}
