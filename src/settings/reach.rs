//! What one Redis is reached with: the same settings under `REDIS_*`, `REDIS_PERSECOND_*` and
//! `IDEMPOTENCY_REDIS_*`.

use super::BOOL;
use super::faults::{Faults, flag, name};
use super::redis_url::{self, Kind, masked};
use super::servers::{Credentials, OpTimeout, RedisServers, TlsFiles};
use super::words::{self, Read};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// Which Redis.
pub(super) trait Which: Clone + Send + Sync + 'static {
    /// What its variables begin with.
    const PREFIX: &'static str;
    /// What is said of its URL.
    const URL: &'static str;
    /// The settings that it has.
    const WORDS: &'static [Word] = &WORDS;
}

/// That for buckets.
#[derive(Clone)]
pub(super) struct Main;

/// That for limits per second.
#[derive(Clone)]
pub(super) struct PerSecond;

/// That for operations. What a call may take is asked for by each.
#[derive(Clone)]
pub(super) struct ForRecords;

impl Which for Main {
    const PREFIX: &'static str = "REDIS";
    const URL: &'static str = "Where Redis is: `host:port`, `redis://user:password@host:port/database`, `rediss://…`, a unix socket's path; sentinel: `master,host:port,…`; cluster: `host:port,…`";
}

impl Which for PerSecond {
    const PREFIX: &'static str = "REDIS_PERSECOND";
    const URL: &'static str = "As `REDIS_URL`";
}

impl Which for ForRecords {
    const PREFIX: &'static str = "IDEMPOTENCY_REDIS";
    const URL: &'static str =
        "A Redis of their own, as `REDIS_URL`; if unset, they live where buckets do";
    const WORDS: &'static [Word] = WORDS.split_at(WORDS.len() - 1).0;
}

/// One Redis as it is asked for.
#[derive(Clone)]
pub(super) struct RawServers<W> {
    which: PhantomData<W>,
    url: String,
    kind: String,
    socket: String,
    auth: String,
    auth_file: String,
    sentinel_auth: String,
    tls: String,
    pool_size: String,
    timeout: String,
    op_timeout: String,
}

/// How a Redis is reached, wherever it is.
pub(super) struct How {
    tls: bool,
    pool_size: usize,
    timeout: Duration,
    op_timeout: OpTimeout,
}

/// A setting that each of them has.
pub(super) struct Word {
    /// What follows the prefix.
    name: &'static str,
    value_name: &'static str,
    default: &'static str,
    is_secret: bool,
    help: &'static str,
}

const WORDS: [Word; 10] = [
    Word::secret("URL", ""),
    Word::new("TYPE", "TYPE", "single", "What is there: single, sentinel or cluster"),
    Word::new(
        "SOCKET_TYPE",
        "TYPE",
        "",
        "How a single server is reached: tcp or unix; if unset, unix for a path",
    ),
    Word::secret("AUTH", "`password` or `user:password`; wins over those in the URL"),
    Word::new(
        "AUTH_FILE",
        "PATH",
        "",
        "File that holds the same, wins over it, and is read again when it changes",
    ),
    Word::secret("SENTINEL_AUTH", "The same for sentinels, which are never told `REDIS_AUTH`"),
    Word::new("TLS", BOOL, "false", "Speak TLS; implied by `rediss://`"),
    Word::new("POOL_SIZE", "NUMBER", "2", "Connections to each server; few share more calls"),
    Word::new("TIMEOUT", "DURATION", "10s", "How long a first connection may take to be accepted"),
    Word::new(
        "OP_TIMEOUT",
        "DURATION",
        "auto",
        "How long a decision may take; auto: 3 ms less than the caller waits, at most 100 ms, and 15 ms if it does not say",
    ),
];

impl Word {
    const fn new(
        name: &'static str,
        value_name: &'static str,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self { name, value_name, default, is_secret: false, help }
    }

    /// One whose value is never shown.
    const fn secret(name: &'static str, help: &'static str) -> Self {
        Self { name, value_name: name, default: "", is_secret: true, help }
    }

    fn arg<W: Which>(&self) -> Arg {
        let variable = format!("{}_{}", W::PREFIX, self.name);
        let help = match self.name {
            "URL" => W::URL.to_owned(),
            _ if W::PREFIX == Main::PREFIX => self.help.to_owned(),
            name => format!("As `{}_{name}`", Main::PREFIX),
        };
        Arg::new(variable.to_lowercase())
            .long(flag(&variable))
            .env(variable)
            .value_name(self.value_name)
            .default_value(self.default)
            .hide_env_values(self.is_secret)
            .help(help)
    }
}

impl<W: Which> Args for RawServers<W> {
    fn augment_args(command: Command) -> Command {
        command.args(W::WORDS.iter().map(Word::arg::<W>))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<W: Which> FromArgMatches for RawServers<W> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let text = |name: &str| {
            let id = Self::variable(name).to_lowercase();
            matches.try_get_one::<String>(&id).ok().flatten().cloned().unwrap_or_default()
        };
        Ok(Self {
            which: PhantomData,
            url: text("URL"),
            kind: text("TYPE"),
            socket: text("SOCKET_TYPE"),
            auth: text("AUTH"),
            auth_file: text("AUTH_FILE"),
            sentinel_auth: text("SENTINEL_AUTH"),
            tls: text("TLS"),
            pool_size: text("POOL_SIZE"),
            timeout: text("TIMEOUT"),
            op_timeout: text("OP_TIMEOUT"),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<W: Which> fmt::Debug for RawServers<W> {
    /// Without what may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(W::PREFIX).finish_non_exhaustive()
    }
}

impl<W: Which> RawServers<W> {
    /// Whether it says where Redis is.
    pub(super) fn has_url(&self) -> bool {
        !self.url.is_empty()
    }

    /// None also if it does not say where Redis is, which may be no fault.
    pub(super) fn read(
        &self,
        files: Option<&TlsFiles>,
        faults: &mut Faults,
    ) -> Option<RedisServers> {
        let place = self.place(faults);
        let how = self.how(faults);
        let (place, how) = (place?, how?);
        Some(RedisServers {
            variables: W::PREFIX,
            topology: place.topology,
            database: place.database,
            auth: Credentials::parse(&self.auth).or(place.auth),
            auth_file: words::path(&self.auth_file),
            sentinel_auth: Credentials::parse(&self.sentinel_auth),
            tls: if how.tls || place.encrypted { Some(files?.clone()) } else { None },
            pool_size: how.pool_size,
            connect_timeout: how.timeout,
            op_timeout: how.op_timeout,
        })
    }

    /// What can be read wherever Redis is.
    pub(super) fn how(&self, faults: &mut Faults) -> Option<How> {
        let tls = faults.read(&Self::variable("TLS"), &self.tls, words::boolean);
        let pool = faults.read(&Self::variable("POOL_SIZE"), &self.pool_size, words::positive);
        let timeout =
            faults.read(&Self::variable("TIMEOUT"), &self.timeout, words::positive_duration);
        let op = faults.read(&Self::variable("OP_TIMEOUT"), &self.op_timeout, op_timeout);
        Some(How { tls: tls?, pool_size: pool?, timeout: timeout?, op_timeout: op? })
    }

    /// What the URL says; its text may hold a password, which no fault shows.
    fn place(&self, faults: &mut Faults) -> Option<redis_url::Place> {
        let kind = faults.read(&Self::variable("TYPE"), &self.kind, kind);
        let unix = faults.read(&Self::variable("SOCKET_TYPE"), &self.socket, is_unix);
        let (kind, unix) = (kind?, unix?);
        if !self.has_url() {
            return None;
        }
        let place = redis_url::read(&self.url, kind, unix);
        let found = masked(&self.url);
        place
            .map_err(|expected| {
                let text = format!("found `{}`, expected {expected}", found.escape_debug());
                faults.add(&Self::variable("URL"), text);
            })
            .ok()
    }

    /// That it does not say where Redis is, although its switch asks for it.
    pub(super) fn miss_url(faults: &mut Faults) {
        let text = format!("unset, and {} needs it", name(W::PREFIX));
        faults.add(&Self::variable("URL"), text);
    }

    fn variable(name: &str) -> String {
        format!("{}_{name}", W::PREFIX)
    }
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

fn op_timeout(text: &str) -> Read<OpTimeout> {
    const EXPECTED: &str = "`auto` or a duration such as `50ms`";
    match text {
        "" | "auto" => Ok(OpTimeout::Auto),
        text => words::positive_duration(text).map(OpTimeout::Fixed).map_err(|_| EXPECTED),
    }
}
