//! How Redis is reached and used.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// A Redis store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisConfig {
    /// Where buckets live.
    pub servers: RedisServers,
    /// Where those live whose descriptor has limits per second only, if not there.
    pub per_second: Option<RedisServers>,
    /// Whether charges that wait for a connection share a call.
    pub coalesce: bool,
    /// Most charges under way, those that wait included; more are refused at once.
    pub max_in_flight: usize,
    /// Stands before every key. A brace in it would choose the hash slot.
    pub key_prefix: Box<str>,
    /// What keys are hashed with; `None`: keys are text.
    pub key_secret: Option<KeySecret>,
    /// Each expiry is later by less than that, at random.
    pub expiry_jitter: Duration,
}

/// One Redis: a server, a master that sentinels know, or a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisServers {
    /// What its variables begin with, for messages: `REDIS`, `REDIS_PERSECOND` or `IDEMPOTENCY_REDIS`.
    pub variables: &'static str,
    /// Where it is.
    pub topology: Topology,
    /// The database, 0 in a cluster.
    pub database: i64,
    /// Who we are.
    pub auth: Option<Credentials>,
    /// Holds who we are in the form of [`Credentials`], and is read again when it changes.
    pub auth_file: Option<PathBuf>,
    /// Who we are to sentinels.
    pub sentinel_auth: Option<Credentials>,
    /// TLS, if it is spoken.
    pub tls: Option<TlsFiles>,
    /// Connections to each server, at least 1.
    pub pool_size: usize,
    /// How long a first connection may take; a new one after it is given a second at most.
    pub connect_timeout: Duration,
    /// How long a decision may take.
    pub op_timeout: OpTimeout,
}

/// Where records of operations live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordServers {
    /// The Redis.
    pub servers: RedisServers,
    /// Most calls under way; more are refused at once.
    pub max_in_flight: usize,
    /// Stands before every key. A brace in it would choose the hash slot.
    pub key_prefix: Box<str>,
    /// How long one call may take.
    pub timeout: Duration,
    /// Whether a Redis will do that evicts keys when its memory is full.
    pub allow_eviction: bool,
}

/// Which servers there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One.
    Single(Address),
    /// The master that sentinels know under a name.
    Sentinel {
        /// Its name.
        master: Box<str>,
        /// The sentinels.
        sentinels: Vec<Address>,
    },
    /// A cluster.
    Cluster {
        /// Some of its nodes.
        seeds: Vec<Address>,
    },
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A TCP port.
    Tcp {
        /// Name or IP address, without brackets.
        host: Box<str>,
        /// The port.
        port: u16,
    },
    /// A unix socket.
    Unix(PathBuf),
}

/// A user and password. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user; `None` is Redis's default user.
    pub user: Option<Box<str>>,
    /// The password.
    pub password: Box<str>,
}

/// Files of TLS, in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Authorities that are trusted besides the system's.
    pub ca: Option<PathBuf>,
    /// Our certificate.
    pub client_cert: Option<PathBuf>,
    /// Its key.
    pub client_key: Option<PathBuf>,
    /// Whether a certificate may be for another host.
    pub skip_hostname_verification: bool,
}

/// How long a decision may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpTimeout {
    /// Until shortly before the caller gives up.
    Auto,
    /// That long.
    Fixed(Duration),
}

/// What keys are hashed with. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct KeySecret(pub Box<[u8]>);

/// What an address looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `host:port`")]
pub struct NoAddress;

impl Credentials {
    /// Reads `password` or `user:password`; nothing is nobody.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_end_matches(['\r', '\n']);
        let (user, password) = match text.split_once(':') {
            Some((user, password)) => (Some(user).filter(|user| !user.is_empty()), password),
            None => (None, text),
        };
        (!text.is_empty()).then(|| Self { user: user.map(Into::into), password: password.into() })
    }
}

impl FromStr for Address {
    type Err = NoAddress;

    /// Reads `host:port` or `[address]:port`.
    fn from_str(text: &str) -> Result<Self, NoAddress> {
        let (host, port) = text.rsplit_once(':').ok_or(NoAddress)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().map_err(|_| NoAddress)?;
        if host.is_empty() { Err(NoAddress) } else { Ok(Self::tcp(host, port)) }
    }
}

impl Address {
    /// A TCP port.
    pub fn tcp(host: &str, port: u16) -> Self {
        Self::Tcp { host: host.into(), port }
    }

    /// The name that a certificate must be for.
    pub fn host(&self) -> &str {
        match self {
            Self::Tcp { host, .. } => host,
            Self::Unix(_) => "localhost",
        }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, addresses) = match self {
            Self::Single(address) => return write!(f, "single at {address}"),
            Self::Sentinel { master, sentinels } => {
                (format!("master `{master}` of sentinels"), sentinels)
            }
            Self::Cluster { seeds } => ("cluster".to_owned(), seeds),
        };
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        write!(f, "{kind} at {}", addresses.join(", "))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySecret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_colon_ends_the_user() {
        let parsed = |text| {
            Credentials::parse(text).map(|found| (found.user.map(String::from), found.password))
        };
        assert_eq!(parsed("pass"), Some((None, "pass".into())));
        assert_eq!(parsed("me:pa:ss\n"), Some((Some("me".into()), "pa:ss".into())));
        assert_eq!(parsed(":pass"), Some((None, "pass".into())));
        assert_eq!(parsed("\n"), None);
    }

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for (text, shown) in [
            ("redis:6379", Some("redis:6379")),
            ("10.0.0.1:1", Some("10.0.0.1:1")),
            ("[::1]:6379", Some("[::1]:6379")),
            ("::1:6379", Some("[::1]:6379")),
            ("redis", None),
            (":6379", None),
            ("redis:x", None),
        ] {
            let address = text.parse::<Address>().ok();
            assert_eq!(address.map(|found| found.to_string()).as_deref(), shown, "{text}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let credentials = Credentials::parse("me:hunter2");
        let secret = KeySecret(b"hunter2".as_slice().into());
        assert!(!format!("{credentials:?} {secret:?}").contains("hunter2"));
    }
}
