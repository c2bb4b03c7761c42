//! What envoyproxy/ratelimit can do and this version cannot, where silence would be dangerous.

use super::Environment;
use super::faults::Faults;
use super::words;

/// A setting that asks for it is a fault.
pub(super) fn refuse(environment: &Environment<'_>, faults: &mut Faults) {
    let value = |name: &str| environment(name).unwrap_or_default();
    let tls = value("GRPC_SERVER_USE_TLS");
    if !tls.is_empty() && words::boolean(&tls) != Ok(false) {
        faults.add_of_variable("GRPC_SERVER_USE_TLS", "TLS is not built in yet; expected `false`");
    }
}
