//! How Redis is used: by all requests of all servers.

use super::BOOL;
use super::faults::Faults;
use super::reach::{Main, PerSecond, RawServers};
use super::servers::{KeySecret, RedisConfig, RedisServers, TlsFiles};
use super::words::{self, Read};

/// Redis as it is asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Redis")]
pub(super) struct RawShared {
    #[command(flatten)]
    servers: RawServers<Main>,
    /// Authorities in PEM that are trusted besides the system's; this and the next three also for limits per second
    #[arg(long, env = "REDIS_TLS_CACERT", value_name = "PATH", default_value = "")]
    redis_tls_cacert: String,
    /// Our certificate in PEM
    #[arg(long, env = "REDIS_TLS_CLIENT_CERT", value_name = "PATH", default_value = "")]
    redis_tls_client_cert: String,
    /// Its key
    #[arg(long, env = "REDIS_TLS_CLIENT_KEY", value_name = "PATH", default_value = "")]
    redis_tls_client_key: String,
    /// Let a trusted certificate be for another host
    #[arg(long, env = "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", value_name = BOOL, default_value = "false")]
    redis_tls_skip_hostname_verification: String,
    /// Let requests that wait for a connection share a call
    #[arg(long, env = "REDIS_COALESCE", value_name = BOOL, default_value = "true")]
    redis_coalesce: String,
    /// Say not ready whenever no connection to Redis stands
    #[arg(long, env = "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", value_name = BOOL, default_value = "false")]
    redis_health_check_active_connection: String,
    /// Stands before every key
    #[arg(long, env = "CACHE_KEY_PREFIX", value_name = "TEXT", default_value = "")]
    cache_key_prefix: String,
    /// What keys show: text (domain and entries) or hashed (nothing)
    #[arg(long, env = "KEY_FORMAT", value_name = "FORMAT", default_value = "text")]
    key_format: String,
    /// What keys are hashed with, the same for all servers; another one starts afresh
    #[arg(long, env = "KEY_SECRET_FILE", value_name = "PATH", default_value = "")]
    key_secret_file: String,
    /// Each key expires later by less than that many seconds, at random
    #[arg(
        long,
        env = "EXPIRATION_JITTER_MAX_SECONDS",
        value_name = "NUMBER",
        default_value = "300"
    )]
    expiration_jitter_max_seconds: String,
    /// Most charges under way to Redis; more are answered by `failure_mode` at once
    #[arg(long, env = "MAX_IN_FLIGHT", value_name = "NUMBER", default_value = "65536")]
    max_in_flight: String,
    #[command(flatten)]
    per_second: RawPerSecond,
}

/// A second Redis.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Redis for limits per second")]
struct RawPerSecond {
    /// Keep descriptors whose limits are all per second in a Redis of their own
    #[arg(long, env = "REDIS_PERSECOND", value_name = BOOL, default_value = "false")]
    redis_persecond: String,
    #[command(flatten)]
    servers: RawServers<PerSecond>,
}

impl RawShared {
    /// Whether it says where Redis is.
    pub(super) fn has_url(&self) -> bool {
        self.servers.has_url()
    }

    /// Whether readiness follows connections.
    pub(super) fn follows_connections(&self, faults: &mut Faults) -> Option<bool> {
        let text = &self.redis_health_check_active_connection;
        faults.read("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", text, words::boolean)
    }

    /// None also if it does not say where Redis is, which may be no fault.
    pub(super) fn read(&self, faults: &mut Faults) -> Option<RedisConfig> {
        let tls = self.tls(faults);
        let servers = self.servers.read(tls.as_ref(), faults);
        let per_second = self.per_second.read(tls.as_ref(), faults);
        let coalesce = faults.read("REDIS_COALESCE", &self.redis_coalesce, words::boolean);
        let (max, prefix) = (self.max_in_flight(faults), self.key_prefix(faults));
        let jitter = &self.expiration_jitter_max_seconds;
        let jitter = faults.read("EXPIRATION_JITTER_MAX_SECONDS", jitter, words::seconds);
        let secret = self.secret(faults);
        Some(RedisConfig {
            servers: servers?,
            per_second,
            coalesce: coalesce?,
            max_in_flight: max?,
            key_prefix: prefix?,
            key_secret: secret,
            expiry_jitter: jitter?,
        })
    }

    pub(super) fn max_in_flight(&self, faults: &mut Faults) -> Option<usize> {
        faults.read("MAX_IN_FLIGHT", &self.max_in_flight, words::positive)
    }

    pub(super) fn key_prefix(&self, faults: &mut Faults) -> Option<Box<str>> {
        faults.read("CACHE_KEY_PREFIX", &self.cache_key_prefix, prefix)
    }

    pub(super) fn tls(&self, faults: &mut Faults) -> Option<TlsFiles> {
        let skip = &self.redis_tls_skip_hostname_verification;
        let skip = faults.read("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", skip, words::boolean)?;
        Some(TlsFiles {
            ca: words::path(&self.redis_tls_cacert),
            client_cert: words::path(&self.redis_tls_client_cert),
            client_key: words::path(&self.redis_tls_client_key),
            skip_hostname_verification: skip,
        })
    }

    /// What keys are hashed with, if they are and there is no fault.
    fn secret(&self, faults: &mut Faults) -> Option<KeySecret> {
        if !faults.read("KEY_FORMAT", &self.key_format, is_hashed)? {
            return None;
        }
        let Some(file) = words::path(&self.key_secret_file) else {
            faults.add("KEY_SECRET_FILE", "unset, expected a file: KEY_FORMAT=hashed needs one");
            return None;
        };
        let fault = match std::fs::read(&file) {
            Ok(secret) if !secret.trim_ascii().is_empty() => {
                return Some(KeySecret(secret.trim_ascii().into()));
            }
            Ok(_) => format!("{} is empty", file.display()),
            Err(error) => format!("{}: {error}", file.display()),
        };
        faults.add("KEY_SECRET_FILE", fault);
        None
    }
}

impl RawPerSecond {
    /// The second Redis, if it is wanted and there is no fault.
    fn read(&self, tls: Option<&TlsFiles>, faults: &mut Faults) -> Option<RedisServers> {
        let wanted = faults.read("REDIS_PERSECOND", &self.redis_persecond, words::boolean)?;
        if !wanted {
            self.servers.how(faults);
            return None;
        }
        if !self.servers.has_url() {
            RawServers::<PerSecond>::miss_url(faults);
        }
        self.servers.read(tls, faults)
    }
}

fn is_hashed(text: &str) -> Read<bool> {
    match text {
        "" | "text" => Ok(false),
        "hashed" => Ok(true),
        _ => Err("`text` or `hashed`"),
    }
}

fn prefix(text: &str) -> Read<Box<str>> {
    if text.contains(['{', '}']) {
        Err("no brace, which would choose the hash slot")
    } else {
        Ok(text.into())
    }
}
