//! What stands in for Redis: its last refusals, and local buckets while it cannot decide.

use super::faults::Faults;
use super::words;
use std::time::Duration;

/// The stand-in as it is asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Store")]
pub(super) struct RawOutage {
    /// Part of each limit that this server gives out by itself while Redis cannot decide: `1/3` or
    /// `0.33` for one of three servers
    #[arg(long, env = "LOCAL_FALLBACK_SHARE", value_name = "SHARE", default_value = "1")]
    local_fallback_share: String,
    /// How long at most a refusal by Redis answers as heavy charges to its bucket; 0: never
    #[arg(long, env = "DENY_CACHE_MAX", value_name = "DURATION", default_value = "1s")]
    deny_cache_max: String,
    /// Most buckets whose refusals are kept
    #[arg(long, env = "DENY_CACHE_ENTRIES", value_name = "NUMBER", default_value = "65536")]
    deny_cache_entries: String,
}

/// What stands in for Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutageSettings {
    /// Part of each limit that this server gives out by itself, as a ratio of the two.
    pub local_fallback_share: (u32, u32),
    /// How long at most a refusal answers instead of Redis.
    pub deny_cache_max: Duration,
    /// Most buckets whose refusals are kept.
    pub deny_cache_entries: usize,
}

impl RawOutage {
    pub(super) fn read(&self, faults: &mut Faults) -> Option<OutageSettings> {
        let share = faults.read("LOCAL_FALLBACK_SHARE", &self.local_fallback_share, words::share);
        let max = faults.read("DENY_CACHE_MAX", &self.deny_cache_max, words::duration);
        let entries = faults.read("DENY_CACHE_ENTRIES", &self.deny_cache_entries, words::positive);
        Some(OutageSettings {
            local_fallback_share: share?,
            deny_cache_max: max?,
            deny_cache_entries: entries?,
        })
    }
}
