//! The idempotency filter and the direct API: the policy, and where they listen.

use super::BOOL;
use super::faults::Faults;
use super::listen::{Address, address};
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
    /// What is wanted; none within if nothing is.
    #[expect(clippy::option_option, reason = "a fault is another thing than nothing wanted")]
    pub(super) fn read(self, faults: &mut Faults) -> Option<Option<IdempotencySettings>> {
        let endpoint = faults.read("IDEMPOTENCY_ADDR", &self.idempotency_addr, endpoint);
        let insecure =
            faults.read("IDEMPOTENCY_INSECURE", &self.idempotency_insecure, words::boolean);
        let max = &self.idempotency_max_in_flight;
        let max = faults.read("IDEMPOTENCY_MAX_IN_FLIGHT", max, words::positive);
        let api = faults.read("IDEMPOTENCY_API", &self.idempotency_api, words::boolean);
        let (address, insecure, max_in_flight, api) = (endpoint?, insecure?, max?, api?);
        let config = Some(self.idempotency_config).filter(|path| !path.is_empty());
        if config.is_none() && !api {
            return Some(None);
        }
        if !insecure && !address.is_local() {
            let text = format!(
                "`{}` can be reached from other machines, and whoever reaches it can forge callers \
                 and read stored answers; expected a loopback address or a unix socket, or \
                 IDEMPOTENCY_INSECURE=true",
                self.idempotency_addr.escape_debug()
            );
            faults.add("IDEMPOTENCY_ADDR", text);
            return None;
        }
        let config = config.map(Into::into);
        Some(Some(IdempotencySettings { config, api, address, max_in_flight }))
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
