//! TLS to the xDS server: the system's authorities and our own, a client certificate.

use crate::settings::{TlsFault, XdsTls, authorities, certificates, private_key};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

const CA: &str = "CONFIG_GRPC_XDS_SERVER_TLS_CACERT";
const CERT: &str = "CONFIG_GRPC_XDS_CLIENT_TLS_CERT";
const KEY: &str = "CONFIG_GRPC_XDS_CLIENT_TLS_KEY";

/// TLS as these files say now.
pub(super) fn config(tls: &XdsTls) -> Result<ClientConfig, TlsFault> {
    let builder =
        ClientConfig::builder().with_root_certificates(authorities(CA, tls.ca.as_deref())?);
    let mut config = match &tls.identity {
        Some((cert, key)) => builder
            .with_client_auth_cert(certificates(CERT, cert)?, private_key(KEY, key)?)
            .map_err(|error| TlsFault::new(CERT, error))?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

/// The name that the server's certificate must be for.
pub(super) fn server_name(tls: &XdsTls, host: &str) -> Result<ServerName<'static>, TlsFault> {
    let (setting, wanted) = match &tls.server_name {
        Some(name) => ("CONFIG_GRPC_XDS_SERVER_TLS_SAN", name.as_str()),
        None => ("CONFIG_GRPC_XDS_SERVER_URL", host),
    };
    ServerName::try_from(wanted.to_owned()).map_err(|_| {
        let found = wanted.escape_debug();
        TlsFault::new(setting, format_args!("found `{found}`, expected the name of a host"))
    })
}
