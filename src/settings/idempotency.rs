//! The idempotency filter and the direct API: the policy, and where they listen.

use super::BOOL;
use super::faults::Faults;
use super::listen::{Address, address};
use super::tls::{Asked, TlsSettings};
use super::words::{self, Read};
use std::net::IpAddr;
use std::path::PathBuf;

/// The filter as it is asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Idempotency")]
#[expect(clippy::struct_field_names, reason = "they are the names of the flags")]
pub(super) struct RawIdempotency {
    /// Policy file of the idempotency filter (`ext_proc`), read again when it changes; if unset, there is no filter
    #[arg(long, env = "IDEMPOTENCY_CONFIG", value_name = "FILE", default_value = "")]
    idempotency_config: String,
    /// Serve `tidegate.v1.Idempotency` and `tidegate.v1.Leases` to services, on the filter's address
    #[arg(long, env = "IDEMPOTENCY_API", value_name = BOOL, default_value = "false")]
    idempotency_api: String,
    /// Where both listen: `host:port`, or the path of a unix socket; whoever reaches it can read stored answers
    #[arg(
        long,
        env = "IDEMPOTENCY_ADDR",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8082"
    )]
    idempotency_addr: String,
    /// Let them listen beyond this machine without asking callers for certificates
    #[arg(long, env = "IDEMPOTENCY_INSECURE", value_name = BOOL, default_value = "false")]
    idempotency_insecure: String,
    /// Speak TLS there
    #[arg(long, env = "IDEMPOTENCY_SERVER_USE_TLS", value_name = BOOL, default_value = "false")]
    idempotency_server_use_tls: String,
    /// As `GRPC_SERVER_TLS_CERT`
    #[arg(long, env = "IDEMPOTENCY_SERVER_TLS_CERT", value_name = "PATH", default_value = "")]
    idempotency_server_tls_cert: String,
    /// As `GRPC_SERVER_TLS_KEY`
    #[arg(long, env = "IDEMPOTENCY_SERVER_TLS_KEY", value_name = "PATH", default_value = "")]
    idempotency_server_tls_key: String,
    /// Authorities in PEM; if set, callers must show a certificate by one of them, and those of the direct API have the namespace of its first URI or DNS name
    #[arg(long, env = "IDEMPOTENCY_CLIENT_TLS_CACERT", value_name = "PATH", default_value = "")]
    idempotency_client_tls_cacert: String,
    /// URI or DNS name that the certificate of whoever uses the filter must hold: Envoy's; any may use the direct API
    #[arg(long, env = "IDEMPOTENCY_CLIENT_TLS_SAN", value_name = "NAME", default_value = "")]
    idempotency_client_tls_san: String,
    /// Most requests with a key under way; more get 503
    #[arg(long, env = "IDEMPOTENCY_MAX_IN_FLIGHT", value_name = "NUMBER", default_value = "65536")]
    idempotency_max_in_flight: String,
}

/// The idempotency filter, the direct API, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencySettings {
    /// The filter's policy; none: there is no filter.
    pub config: Option<PathBuf>,
    /// Whether the direct API is served.
    pub api: bool,
    /// Where they listen.
    pub address: Endpoint,
    /// How they speak TLS, if they do.
    pub tls: Option<TlsSettings>,
    /// URI or DNS name that the certificate of whoever uses the filter must hold.
    pub envoy: Option<String>,
    /// Most requests with a key under way.
    pub max_in_flight: usize,
}

/// A TCP port or a unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A port.
    Tcp(Address),
    /// A socket.
    Unix(PathBuf),
}

impl RawIdempotency {
    /// What is wanted; none within if nothing is. Adds what is set in vain, or dangerous.
    #[expect(clippy::option_option, reason = "a fault is another thing than nothing wanted")]
    pub(super) fn read(
        self,
        warnings: &mut Vec<String>,
        faults: &mut Faults,
    ) -> Option<Option<IdempotencySettings>> {
        let endpoint = faults.read("IDEMPOTENCY_ADDR", &self.idempotency_addr, endpoint);
        let insecure =
            faults.read("IDEMPOTENCY_INSECURE", &self.idempotency_insecure, words::boolean);
        let max = &self.idempotency_max_in_flight;
        let max = faults.read("IDEMPOTENCY_MAX_IN_FLIGHT", max, words::positive);
        let api = faults.read("IDEMPOTENCY_API", &self.idempotency_api, words::boolean);
        let (mut tls, in_vain) = self.tls().read(faults);
        warnings.extend(in_vain);
        let envoy = tls.as_mut().and_then(|tls| Some(tls.client_san.take()?.1));
        let (address, insecure, max_in_flight, api) = (endpoint?, insecure?, max?, api?);
        let config = Some(self.idempotency_config).filter(|path| !path.is_empty()).map(Into::into);
        if config.is_none() && !api {
            return Some(None);
        }
        let settings = IdempotencySettings { config, api, address, tls, envoy, max_in_flight };
        if !insecure && !settings.knows_callers() && !settings.address.is_local() {
            let text = format!(
                "`{}` can be reached from other machines, and whoever reaches it can forge callers \
                 and read stored answers; expected a loopback address, a unix socket, \
                 IDEMPOTENCY_CLIENT_TLS_CACERT, or IDEMPOTENCY_INSECURE=true",
                self.idempotency_addr.escape_debug()
            );
            faults.add("IDEMPOTENCY_ADDR", text);
            return None;
        }
        warnings.extend(settings.misunderstanding().map(ToOwned::to_owned));
        Some(Some(settings))
    }

    fn tls(&self) -> Asked<'_> {
        Asked {
            switch: ("IDEMPOTENCY_SERVER_USE_TLS", &self.idempotency_server_use_tls),
            cert: ("IDEMPOTENCY_SERVER_TLS_CERT", &self.idempotency_server_tls_cert),
            key: ("IDEMPOTENCY_SERVER_TLS_KEY", &self.idempotency_server_tls_key),
            client_ca: vec![("IDEMPOTENCY_CLIENT_TLS_CACERT", &self.idempotency_client_tls_cacert)],
            client_san: ("IDEMPOTENCY_CLIENT_TLS_SAN", &self.idempotency_client_tls_san),
        }
    }
}

impl IdempotencySettings {
    /// Whether everybody who calls shows a certificate.
    pub fn knows_callers(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some())
    }

    /// What may be believed of the name that is asked for, and is not so.
    fn misunderstanding(&self) -> Option<&'static str> {
        match (&self.envoy, &self.config) {
            (None, Some(_)) if self.api && self.knows_callers() => Some(
                "IDEMPOTENCY_CLIENT_TLS_SAN is unset: every caller of the direct API can also use the \
                 filter, forge callers and read stored answers",
            ),
            (Some(_), None) => Some(
                "IDEMPOTENCY_CLIENT_TLS_SAN has no effect: it says who may use the filter, and there \
                 is none without IDEMPOTENCY_CONFIG",
            ),
            _ => None,
        }
    }
}

impl Endpoint {
    /// Whether only this machine can reach it.
    pub fn is_local(&self) -> bool {
        let Self::Tcp(Address { host, .. }) = self else { return true };
        host.as_deref().is_some_and(|host| {
            host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        })
    }
}

fn endpoint(text: &str) -> Read<Endpoint> {
    const EXPECTED: &str = "`host:port` or the path of a unix socket";
    if text.starts_with(['/', '.']) {
        return Ok(Endpoint::Unix(text.into()));
    }
    let address = address("IDEMPOTENCY_ADDR", text).map_err(|_| EXPECTED)?;
    Ok(Endpoint::Tcp(address))
}
