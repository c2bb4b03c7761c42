//! Policies from an xDS server: where it is, and who we are to it.

use super::BOOL;
use super::faults::{Faults, name};
use super::secret::Secret;
use super::servers::Address;
use super::words::{self, Read};
use http::{HeaderName, HeaderValue};
use std::path::PathBuf;
use std::time::Duration;

/// The xDS server as it is asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Policies over xDS")]
pub(super) struct RawXds {
    /// Where policies come from: FILE, or `GRPC_XDS_SOTW` for an xDS server such as Envoy Gateway
    #[arg(long, env = "CONFIG_TYPE", value_name = "TYPE", default_value = "FILE")]
    config_type: String,
    /// Where that server is: `host:port`
    #[arg(
        long,
        env = "CONFIG_GRPC_XDS_SERVER_URL",
        value_name = "ADDRESS",
        default_value = "localhost:18000"
    )]
    config_grpc_xds_server_url: String,
    /// The name by which it knows us
    #[arg(long, env = "CONFIG_GRPC_XDS_NODE_ID", value_name = "NAME", default_value = "default")]
    config_grpc_xds_node_id: String,
    /// What else it is told of us: `key=value,key2=value2`
    #[arg(long, env = "CONFIG_GRPC_XDS_NODE_METADATA", value_name = "PAIRS", default_value = "")]
    config_grpc_xds_node_metadata: String,
    /// Headers of the call to it: `name:value,name2:value2`
    #[arg(
        long,
        env = "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS",
        value_name = "PAIRS",
        default_value = "",
        hide_env_values = true
    )]
    config_grpc_xds_client_additional_headers: Secret,
    /// Speak TLS to it
    #[arg(long, env = "CONFIG_GRPC_XDS_SERVER_USE_TLS", value_name = BOOL, default_value = "false")]
    config_grpc_xds_server_use_tls: String,
    /// Authorities in PEM that are trusted besides the system's
    #[arg(
        long,
        env = "CONFIG_GRPC_XDS_SERVER_TLS_CACERT",
        value_name = "PATH",
        default_value = ""
    )]
    config_grpc_xds_server_tls_cacert: String,
    /// The name that its certificate must be for; if unset, its host's
    #[arg(long, env = "CONFIG_GRPC_XDS_SERVER_TLS_SAN", value_name = "NAME", default_value = "")]
    config_grpc_xds_server_tls_san: String,
    /// Our certificate in PEM; this, its key and the authorities are read again for each connection
    #[arg(long, env = "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", value_name = "PATH", default_value = "")]
    config_grpc_xds_client_tls_cert: String,
    /// Its key
    #[arg(long, env = "CONFIG_GRPC_XDS_CLIENT_TLS_KEY", value_name = "PATH", default_value = "")]
    config_grpc_xds_client_tls_key: String,
    /// How long to wait after a first connection that failed; each further one takes twice as long
    #[arg(
        long,
        env = "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL",
        value_name = "DURATION",
        default_value = "3s"
    )]
    config_grpc_xds_server_connect_retry_interval: String,
    /// The same after a stream that broke
    #[arg(
        long,
        env = "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL",
        value_name = "DURATION",
        default_value = "10s"
    )]
    xds_client_backoff_initial_interval: String,
    /// The longest such wait
    #[arg(
        long,
        env = "XDS_CLIENT_BACKOFF_MAX_INTERVAL",
        value_name = "DURATION",
        default_value = "60s"
    )]
    xds_client_backoff_max_interval: String,
    /// By which part such a wait is shortened at most, at random
    #[arg(
        long,
        env = "XDS_CLIENT_BACKOFF_RANDOM_FACTOR",
        value_name = "SHARE",
        default_value = "0.5"
    )]
    xds_client_backoff_random_factor: String,
    /// Whether it is
    #[arg(long, env = "XDS_CLIENT_BACKOFF_JITTER", value_name = BOOL, default_value = "true")]
    xds_client_backoff_jitter: String,
    /// Largest message that is taken from it; 0: 4 MiB
    #[arg(
        long,
        env = "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES",
        value_name = "BYTES",
        default_value = "0"
    )]
    xds_client_max_msg_size_in_bytes: String,
}

/// An xDS server that policies come from.
#[derive(Clone, PartialEq)]
pub struct XdsSettings {
    /// Where it is.
    pub server: Address,
    /// TLS, if it is spoken.
    pub tls: Option<XdsTls>,
    /// The name by which it knows us.
    pub node_id: String,
    /// What else it is told of us.
    pub node_metadata: Vec<(String, String)>,
    /// Headers of the call to it.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// When to try again.
    pub retry: XdsRetry,
    /// Largest message that is taken from it, in bytes.
    pub max_message: usize,
}

/// TLS to an xDS server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XdsTls {
    /// Authorities that are trusted besides the system's.
    pub ca: Option<PathBuf>,
    /// Our certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name that its certificate must be for, if that is not its host's.
    pub server_name: Option<String>,
}

/// How long to wait between connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct XdsRetry {
    /// After a first connection that failed.
    pub unreachable: Duration,
    /// After a stream that broke.
    pub broken: Duration,
    /// The longest wait.
    pub max: Duration,
    /// By which part a wait is shortened at most, at random.
    pub jitter: f32,
}

/// As gRPC's own.
const MAX_MESSAGE: usize = 4 << 20;

/// Port of a server whose address names none, as gRPC takes it.
const DEFAULT_PORT: u16 = 443;

impl std::fmt::Debug for XdsSettings {
    /// The values of headers may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("XdsSettings").field("server", &self.server).finish_non_exhaustive()
    }
}

impl RawXds {
    /// The server, if policies come from one and there is no fault. The other settings are read
    /// all the same: what is wrong with them is a fault.
    pub(super) fn read(self, faults: &mut Faults) -> Option<XdsSettings> {
        let from_server = faults.read("CONFIG_TYPE", &self.config_type, is_xds);
        let url = default(&self.config_grpc_xds_server_url, "localhost:18000");
        let server = faults.read("CONFIG_GRPC_XDS_SERVER_URL", url, address);
        let speaks_tls = &self.config_grpc_xds_server_use_tls;
        let speaks_tls = faults.read("CONFIG_GRPC_XDS_SERVER_USE_TLS", speaks_tls, words::boolean);
        let tls = self.tls(faults);
        let metadata = &self.config_grpc_xds_node_metadata;
        let metadata = faults.read("CONFIG_GRPC_XDS_NODE_METADATA", metadata, metadata_pairs);
        let headers = self.headers(faults);
        let retry = self.retry(faults);
        let max = &self.xds_client_max_msg_size_in_bytes;
        let max = faults.read("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", max, words::count);
        let settings = XdsSettings {
            server: server?,
            tls: tls.filter(|_| speaks_tls == Some(true)),
            node_id: default(&self.config_grpc_xds_node_id, "default").to_owned(),
            node_metadata: metadata?,
            headers: headers?,
            retry: retry?,
            max_message: max.map(|max| if max == 0 { MAX_MESSAGE } else { max })?,
        };
        from_server?.then_some(settings)
    }

    /// What is said of TLS, if there is no fault.
    fn tls(&self, faults: &mut Faults) -> Option<XdsTls> {
        let cert = words::path(&self.config_grpc_xds_client_tls_cert);
        let key = words::path(&self.config_grpc_xds_client_tls_key);
        let names = ["CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY"];
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            (Some(_), None) => return lonely(names[1], names[0], faults),
            (None, Some(_)) => return lonely(names[0], names[1], faults),
        };
        let san = &self.config_grpc_xds_server_tls_san;
        Some(XdsTls {
            ca: words::path(&self.config_grpc_xds_server_tls_cacert),
            identity,
            server_name: (!san.is_empty()).then(|| san.clone()),
        })
    }

    /// A fault does not show them: their values may be secrets.
    fn headers(&self, faults: &mut Faults) -> Option<Vec<(HeaderName, HeaderValue)>> {
        let headers = headers(&self.config_grpc_xds_client_additional_headers.0);
        if headers.is_none() {
            faults.add(
                "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS",
                "found something else than `name:value,name2:value2`",
            );
        }
        headers
    }

    fn retry(&self, faults: &mut Faults) -> Option<XdsRetry> {
        let unreachable = faults.read(
            "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL",
            &self.config_grpc_xds_server_connect_retry_interval,
            words::positive_duration,
        );
        let mut wait = |variable, text| faults.read(variable, text, words::positive_duration);
        let broken = &self.xds_client_backoff_initial_interval;
        let broken = wait("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", broken);
        let max = wait("XDS_CLIENT_BACKOFF_MAX_INTERVAL", &self.xds_client_backoff_max_interval);
        let jitter = &self.xds_client_backoff_random_factor;
        let jitter = faults.read("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", jitter, words::ratio);
        let jitters = &self.xds_client_backoff_jitter;
        let jitters = faults.read("XDS_CLIENT_BACKOFF_JITTER", jitters, words::boolean);
        let jitter = if jitters? { jitter? } else { 0.0 };
        Some(XdsRetry { unreachable: unreachable?, broken: broken?, max: max?, jitter })
    }
}

fn lonely(unset: &str, other: &str, faults: &mut Faults) -> Option<XdsTls> {
    faults.add(unset, format!("unset, and {} needs it", name(other)));
    None
}

fn default<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

fn is_xds(text: &str) -> Read<bool> {
    match text {
        "" | "FILE" => Ok(false),
        "GRPC_XDS_SOTW" => Ok(true),
        _ => Err("`FILE` or `GRPC_XDS_SOTW`"),
    }
}

/// As gRPC takes it, of which only names and addresses have a meaning here.
fn address(text: &str) -> Read<Address> {
    const EXPECTED: &str = "`host:port`";
    let text = text.strip_prefix("dns:///").unwrap_or(text);
    let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
    if text.contains('/') || host.is_empty() {
        return Err(EXPECTED);
    }
    match text.parse() {
        Ok(address) => Ok(address),
        Err(_) if !text.contains(':') => Ok(Address::tcp(text, DEFAULT_PORT)),
        Err(_) => Err(EXPECTED),
    }
}

fn metadata_pairs(text: &str) -> Read<Vec<(String, String)>> {
    let pair = |part: &str| {
        let (key, value) = part.split_once('=')?;
        (!key.is_empty()).then(|| (key.to_owned(), value.to_owned()))
    };
    words::parts(text).map(pair).collect::<Option<_>>().ok_or("`key=value,key2=value2`")
}

fn headers(text: &str) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let pair = |part: &str| {
        let (name, value) = part.split_once(':')?;
        let mut value = HeaderValue::from_str(value.trim()).ok()?;
        value.set_sensitive(true);
        Some((HeaderName::from_bytes(name.trim().as_bytes()).ok()?, value))
    };
    words::parts(text).map(pair).collect()
}
