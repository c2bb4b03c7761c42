//! How Redis is reached and used.

use super::BOOL;
use super::faults::{Faults, name};
use super::redis_url::{self, Kind, masked};
use super::servers::{Credentials, KeySecret, OpTimeout, RedisConfig, RedisServers, TlsFiles};
use super::words::{self, Read};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Redis as it is asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Redis")]
pub(super) struct RawShared {
    /// Where Redis is: `host:port`, `redis://user:password@host:port/database`, `rediss://…`, a unix socket's path; sentinel: `master,host:port,…`; cluster: `host:port,…`
    #[arg(long, env = "REDIS_URL", value_name = "URL", default_value = "", hide_env_values = true)]
    redis_url: Secret,
    /// What is there: single, sentinel or cluster
    #[arg(long, env = "REDIS_TYPE", value_name = "TYPE", default_value = "single")]
    redis_type: String,
    /// How a single server is reached: tcp or unix; if unset, unix for a path
    #[arg(long, env = "REDIS_SOCKET_TYPE", value_name = "TYPE", default_value = "")]
    redis_socket_type: String,
    /// `password` or `user:password`; wins over those in the URL
    #[arg(
        long,
        env = "REDIS_AUTH",
        value_name = "AUTH",
        default_value = "",
        hide_env_values = true
    )]
    redis_auth: Secret,
    /// File that holds the same, wins over it, and is read again when it changes
    #[arg(long, env = "REDIS_AUTH_FILE", value_name = "PATH", default_value = "")]
    redis_auth_file: String,
    /// The same for sentinels, which are never told `REDIS_AUTH`
    #[arg(
        long,
        env = "REDIS_SENTINEL_AUTH",
        value_name = "AUTH",
        default_value = "",
        hide_env_values = true
    )]
    redis_sentinel_auth: Secret,
    /// Speak TLS; implied by `rediss://`
    #[arg(long, env = "REDIS_TLS", value_name = BOOL, default_value = "false")]
    redis_tls: String,
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
    /// Connections to each server
    #[arg(long, env = "REDIS_POOL_SIZE", value_name = "NUMBER", default_value = "10")]
    redis_pool_size: String,
    /// How long a first connection may take to be accepted
    #[arg(long, env = "REDIS_TIMEOUT", value_name = "DURATION", default_value = "10s")]
    redis_timeout: String,
    /// How long a decision may take; auto: 3 ms less than the caller waits, at most 100 ms, and 15 ms if it does not say
    #[arg(long, env = "REDIS_OP_TIMEOUT", value_name = "DURATION", default_value = "auto")]
    redis_op_timeout: String,
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
#[expect(clippy::struct_field_names, reason = "they are the names of the flags")]
struct RawPerSecond {
    /// Keep descriptors whose limits are all per second in a Redis of their own
    #[arg(long, env = "REDIS_PERSECOND", value_name = BOOL, default_value = "false")]
    redis_persecond: String,
    /// As `REDIS_URL`
    #[arg(
        long,
        env = "REDIS_PERSECOND_URL",
        value_name = "URL",
        default_value = "",
        hide_env_values = true
    )]
    redis_persecond_url: Secret,
    /// As `REDIS_TYPE`
    #[arg(long, env = "REDIS_PERSECOND_TYPE", value_name = "TYPE", default_value = "single")]
    redis_persecond_type: String,
    /// As `REDIS_SOCKET_TYPE`
    #[arg(long, env = "REDIS_PERSECOND_SOCKET_TYPE", value_name = "TYPE", default_value = "")]
    redis_persecond_socket_type: String,
    /// As `REDIS_AUTH`
    #[arg(
        long,
        env = "REDIS_PERSECOND_AUTH",
        value_name = "AUTH",
        default_value = "",
        hide_env_values = true
    )]
    redis_persecond_auth: Secret,
    /// As `REDIS_AUTH_FILE`
    #[arg(long, env = "REDIS_PERSECOND_AUTH_FILE", value_name = "PATH", default_value = "")]
    redis_persecond_auth_file: String,
    /// As `REDIS_SENTINEL_AUTH`
    #[arg(
        long,
        env = "REDIS_PERSECOND_SENTINEL_AUTH",
        value_name = "AUTH",
        default_value = "",
        hide_env_values = true
    )]
    redis_persecond_sentinel_auth: Secret,
    /// As `REDIS_TLS`
    #[arg(long, env = "REDIS_PERSECOND_TLS", value_name = BOOL, default_value = "false")]
    redis_persecond_tls: String,
    /// As `REDIS_POOL_SIZE`
    #[arg(long, env = "REDIS_PERSECOND_POOL_SIZE", value_name = "NUMBER", default_value = "10")]
    redis_persecond_pool_size: String,
    /// As `REDIS_TIMEOUT`
    #[arg(long, env = "REDIS_PERSECOND_TIMEOUT", value_name = "DURATION", default_value = "10s")]
    redis_persecond_timeout: String,
    /// As `REDIS_OP_TIMEOUT`
    #[arg(
        long,
        env = "REDIS_PERSECOND_OP_TIMEOUT",
        value_name = "DURATION",
        default_value = "auto"
    )]
    redis_persecond_op_timeout: String,
}

/// Text that is never shown.
#[derive(Clone)]
pub(super) struct Secret(pub(super) String);

/// The settings of one Redis, as text.
pub(super) struct Words<'a> {
    pub(super) variables: &'static str,
    pub(super) url: &'a str,
    pub(super) kind: &'a str,
    pub(super) socket: &'a str,
    pub(super) auth: &'a str,
    pub(super) auth_file: &'a str,
    pub(super) sentinel_auth: &'a str,
    pub(super) tls: &'a str,
    pub(super) pool_size: &'a str,
    pub(super) timeout: &'a str,
    pub(super) op_timeout: &'a str,
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl RawShared {
    /// Whether it says where Redis is.
    pub(super) fn has_url(&self) -> bool {
        !self.redis_url.0.is_empty()
    }

    /// Whether readiness follows connections.
    pub(super) fn follows_connections(&self, faults: &mut Faults) -> Option<bool> {
        let text = &self.redis_health_check_active_connection;
        faults.read("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", text, words::boolean)
    }

    pub(super) fn read(&self, faults: &mut Faults) -> Option<RedisConfig> {
        let tls = self.tls(faults);
        let servers = self.words().read(tls.as_ref(), faults);
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

    fn words(&self) -> Words<'_> {
        Words {
            variables: "REDIS",
            url: &self.redis_url.0,
            kind: &self.redis_type,
            socket: &self.redis_socket_type,
            auth: &self.redis_auth.0,
            auth_file: &self.redis_auth_file,
            sentinel_auth: &self.redis_sentinel_auth.0,
            tls: &self.redis_tls,
            pool_size: &self.redis_pool_size,
            timeout: &self.redis_timeout,
            op_timeout: &self.redis_op_timeout,
        }
    }

    pub(super) fn tls(&self, faults: &mut Faults) -> Option<TlsFiles> {
        let skip = &self.redis_tls_skip_hostname_verification;
        let skip = faults.read("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", skip, words::boolean)?;
        Some(TlsFiles {
            ca: path(&self.redis_tls_cacert),
            client_cert: path(&self.redis_tls_client_cert),
            client_key: path(&self.redis_tls_client_key),
            skip_hostname_verification: skip,
        })
    }

    /// What keys are hashed with, if they are and there is no fault.
    fn secret(&self, faults: &mut Faults) -> Option<KeySecret> {
        if !faults.read("KEY_FORMAT", &self.key_format, is_hashed)? {
            return None;
        }
        let Some(file) = path(&self.key_secret_file) else {
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
        if wanted { self.words().read(tls, faults) } else { None }
    }

    fn words(&self) -> Words<'_> {
        Words {
            variables: "REDIS_PERSECOND",
            url: &self.redis_persecond_url.0,
            kind: &self.redis_persecond_type,
            socket: &self.redis_persecond_socket_type,
            auth: &self.redis_persecond_auth.0,
            auth_file: &self.redis_persecond_auth_file,
            sentinel_auth: &self.redis_persecond_sentinel_auth.0,
            tls: &self.redis_persecond_tls,
            pool_size: &self.redis_persecond_pool_size,
            timeout: &self.redis_persecond_timeout,
            op_timeout: &self.redis_persecond_op_timeout,
        }
    }
}

impl Words<'_> {
    pub(super) fn read(
        &self,
        files: Option<&TlsFiles>,
        faults: &mut Faults,
    ) -> Option<RedisServers> {
        let place = self.place(faults);
        let tls = faults.read(&self.variable("TLS"), self.tls, words::boolean);
        let pool = faults.read(&self.variable("POOL_SIZE"), self.pool_size, words::positive);
        let timeout = faults.read(&self.variable("TIMEOUT"), self.timeout, positive_duration);
        let op = faults.read(&self.variable("OP_TIMEOUT"), self.op_timeout, op_timeout);
        let place = place?;
        Some(RedisServers {
            variables: self.variables,
            topology: place.topology,
            database: place.database,
            auth: Credentials::parse(self.auth).or(place.auth),
            auth_file: path(self.auth_file),
            sentinel_auth: Credentials::parse(self.sentinel_auth),
            tls: if tls? || place.encrypted { Some(files?.clone()) } else { None },
            pool_size: pool?,
            connect_timeout: timeout?,
            op_timeout: op?,
        })
    }

    /// What the URL says; its text may hold a password, which no fault shows.
    fn place(&self, faults: &mut Faults) -> Option<redis_url::Place> {
        let kind = faults.read(&self.variable("TYPE"), self.kind, kind);
        let unix = faults.read(&self.variable("SOCKET_TYPE"), self.socket, is_unix);
        let (kind, unix) = (kind?, unix?);
        if self.url.is_empty() {
            let switch = name(self.variables);
            faults.add(&self.variable("URL"), format!("unset, and {switch} needs it"));
            return None;
        }
        let place = redis_url::read(self.url, kind, unix);
        let found = masked(self.url);
        place
            .map_err(|expected| {
                let text = format!("found `{}`, expected {expected}", found.escape_debug());
                faults.add(&self.variable("URL"), text);
            })
            .ok()
    }

    fn variable(&self, name: &str) -> String {
        format!("{}_{name}", self.variables)
    }
}

fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| text.into())
}

fn kind(text: &str) -> Read<Kind> {
    match text.to_ascii_lowercase().as_str() {
        "" | "single" => Ok(Kind::Single),
        "sentinel" => Ok(Kind::Sentinel),
        "cluster" => Ok(Kind::Cluster),
        _ => Err("`single`, `sentinel` or `cluster`"),
    }
}

fn is_unix(text: &str) -> Read<Option<bool>> {
    match text.to_ascii_lowercase().as_str() {
        "" => Ok(None),
        "tcp" => Ok(Some(false)),
        "unix" => Ok(Some(true)),
        _ => Err("`tcp` or `unix`"),
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

fn op_timeout(text: &str) -> Read<OpTimeout> {
    const EXPECTED: &str = "`auto` or a duration such as `50ms`";
    match text {
        "" | "auto" => Ok(OpTimeout::Auto),
        text => positive_duration(text).map(OpTimeout::Fixed).map_err(|_| EXPECTED),
    }
}

pub(super) fn positive_duration(text: &str) -> Read<Duration> {
    let found = words::duration(text)?;
    if found.is_zero() { Err("a duration longer than 0") } else { Ok(found) }
}
