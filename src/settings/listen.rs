//! Where the server listens.

use super::BOOL;
use super::faults::{Faults, name};
use super::words;
use std::path::PathBuf;
use std::time::Duration;

/// Listeners as they are asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Listeners")]
pub(super) struct RawListen {
    /// Address of the HTTP port; if unset, every IPv4 and IPv6 address
    #[arg(long, env = "HOST", value_name = "ADDRESS", default_value = "")]
    host: String,
    /// HTTP port: /json, /healthcheck, /readyz, /livez, /metrics
    #[arg(long, env = "PORT", value_name = "PORT", default_value = "8080")]
    port: String,
    /// Address of the gRPC port; if unset, every IPv4 and IPv6 address
    #[arg(long, env = "GRPC_HOST", value_name = "ADDRESS", default_value = "")]
    grpc_host: String,
    /// gRPC port: the rate-limit service that Envoy calls, health, reflection
    #[arg(long, env = "GRPC_PORT", value_name = "PORT", default_value = "8081")]
    grpc_port: String,
    /// Unix socket for gRPC, in place of its port
    #[arg(long, env = "GRPC_UDS", value_name = "PATH", default_value = "")]
    grpc_uds: String,
    /// Age at which a gRPC connection is asked to go (10 % more or less); 0: never
    #[arg(long, env = "GRPC_MAX_CONNECTION_AGE", value_name = "DURATION", default_value = "24h")]
    grpc_max_connection_age: String,
    /// How long after that it is cut off; on the port of the idempotency filter its calls end it
    #[arg(
        long,
        env = "GRPC_MAX_CONNECTION_AGE_GRACE",
        value_name = "DURATION",
        default_value = "1h"
    )]
    grpc_max_connection_age_grace: String,
    /// Address of the admin port, which asks nobody for a password
    #[arg(long, env = "DEBUG_HOST", value_name = "ADDRESS", default_value = "127.0.0.1")]
    debug_host: String,
    /// Admin port: /rlconfig, /bucket, /hot-keys, /log-level, /shadow
    #[arg(long, env = "DEBUG_PORT", value_name = "PORT", default_value = "6070")]
    debug_port: String,
    /// Serve metrics on a port of their own, too; implied by `PROMETHEUS_ADDR`
    #[arg(long, env = "USE_PROMETHEUS", value_name = BOOL, default_value = "false")]
    use_prometheus: String,
    /// That port's address, `host:port` or `:port`; if unset, :9090
    #[arg(long, env = "PROMETHEUS_ADDR", value_name = "ADDRESS", default_value = "")]
    prometheus_addr: String,
    /// Where metrics are on that port
    #[arg(long, env = "PROMETHEUS_PATH", value_name = "PATH", default_value = "/metrics")]
    prometheus_path: String,
}

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// HTTP.
    pub http: Address,
    /// gRPC, unless there is a socket for it.
    pub grpc: Address,
    /// Unix socket for gRPC.
    pub grpc_uds: Option<PathBuf>,
    /// Age at which a gRPC connection is asked to go.
    pub grpc_max_connection_age: Option<Duration>,
    /// How long after that it is cut off.
    pub grpc_max_connection_age_grace: Duration,
    /// Admin.
    pub admin: Address,
    /// Metrics on their own.
    pub prometheus: Option<Address>,
    /// Where metrics are on that port.
    pub prometheus_path: String,
}

/// A TCP address and the settings that ask for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Variable of its host.
    pub host_variable: &'static str,
    /// Variable of its port.
    pub variable: &'static str,
    /// A name or an address; `None`: every one, IPv4 and IPv6.
    pub host: Option<String>,
    /// 0 lets the system choose.
    pub port: u16,
}

impl RawListen {
    pub(super) fn read(self, faults: &mut Faults) -> Option<Listen> {
        let http = faults.read("PORT", &self.port, words::port);
        let grpc = faults.read("GRPC_PORT", &self.grpc_port, words::port);
        let admin = faults.read("DEBUG_PORT", &self.debug_port, words::port);
        let prometheus = self.prometheus(faults);
        let path = if self.prometheus_path.is_empty() { "/metrics" } else { &self.prometheus_path };
        let path = faults.read("PROMETHEUS_PATH", path, words::url_path);
        let (age, grace) = self.ages(faults);
        let debug_host = if self.debug_host.is_empty() { "127.0.0.1" } else { &self.debug_host };
        let listen = Listen {
            http: Address::new("HOST", "PORT", &self.host, http?),
            grpc: Address::new("GRPC_HOST", "GRPC_PORT", &self.grpc_host, grpc?),
            grpc_uds: (!self.grpc_uds.is_empty()).then(|| self.grpc_uds.clone().into()),
            grpc_max_connection_age: age.map(|age| (!age.is_zero()).then_some(age))?,
            grpc_max_connection_age_grace: grace?,
            admin: Address::new("DEBUG_HOST", "DEBUG_PORT", debug_host, admin?),
            prometheus,
            prometheus_path: path?,
        };
        listen.refuse_clashes(faults);
        Some(listen)
    }

    fn ages(&self, faults: &mut Faults) -> (Option<Duration>, Option<Duration>) {
        let (age, grace) = (&self.grpc_max_connection_age, &self.grpc_max_connection_age_grace);
        (
            faults.read("GRPC_MAX_CONNECTION_AGE", age, words::duration),
            faults.read("GRPC_MAX_CONNECTION_AGE_GRACE", grace, words::duration),
        )
    }

    fn prometheus(&self, faults: &mut Faults) -> Option<Address> {
        let wanted = faults.read("USE_PROMETHEUS", &self.use_prometheus, words::boolean)?;
        let text = match self.prometheus_addr.as_str() {
            "" if !wanted => return None,
            "" => ":9090",
            text => text,
        };
        faults.read("PROMETHEUS_ADDR", text, |text| address("PROMETHEUS_ADDR", text))
    }
}

impl Listen {
    /// Two listeners of one address, which the system would only call in use.
    fn refuse_clashes(&self, faults: &mut Faults) {
        let grpc = Some(&self.grpc).filter(|_| self.grpc_uds.is_none());
        let all = [Some(&self.http), grpc, Some(&self.admin), self.prometheus.as_ref()];
        let all: Vec<&Address> = all.into_iter().flatten().collect();
        for (at, one) in all.iter().enumerate() {
            let before = all.get(..at).unwrap_or_default();
            if let Some(other) = before.iter().find(|other| one.clashes_with(other)) {
                let (port, other) = (one.port, name(other.variable));
                faults.add(
                    one.variable,
                    format!("found {port}, which is {other}, too; expected another port"),
                );
            }
        }
    }
}

impl Address {
    /// Brackets around an IPv6 address are allowed; no host means every address.
    fn new(host_variable: &'static str, variable: &'static str, host: &str, port: u16) -> Self {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let host = Some(bare.to_owned()).filter(|host| !host.is_empty());
        Self { host_variable, variable, host, port }
    }

    fn clashes_with(&self, other: &Self) -> bool {
        let same_host = self.host == other.host || self.is_every_host() || other.is_every_host();
        self.port != 0 && self.port == other.port && same_host
    }

    fn is_every_host(&self) -> bool {
        self.host.as_deref().is_none_or(|host| ["0.0.0.0", "::"].contains(&host))
    }
}

/// The address that a variable holds.
pub(super) fn address(variable: &'static str, text: &str) -> words::Read<Address> {
    const EXPECTED: &str = "`host:port` or `:port`";
    let (host, port) = text.rsplit_once(':').ok_or(EXPECTED)?;
    let port = words::port(port).map_err(|_| EXPECTED)?;
    if host.contains(':') && !host.starts_with('[') {
        return Err(EXPECTED);
    }
    Ok(Address::new(variable, variable, host, port))
}
