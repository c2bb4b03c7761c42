//! What envoyproxy/ratelimit can do and this version cannot, where silence would be dangerous.

use super::Environment;
use super::faults::Faults;
use super::words;

/// A setting that asks for it is a fault.
pub(super) fn refuse(environment: &Environment<'_>, faults: &mut Faults) {
    let value = |name: &str| environment(name).unwrap_or_default();
    if !["", "FILE"].contains(&value("CONFIG_TYPE").as_str()) {
        let found = value("CONFIG_TYPE");
        faults.add_of_variable(
            "CONFIG_TYPE",
            format!("found `{}`, expected `FILE`", found.escape_debug()),
        );
    }
    if words::boolean(&value("GRPC_SERVER_USE_TLS")) == Ok(true) {
        faults.add_of_variable("GRPC_SERVER_USE_TLS", "TLS is not built in yet; expected `false`");
    }
}
