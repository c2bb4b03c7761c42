//! TLS to the xDS server: the system's authorities and our own, a client certificate.

use crate::settings::{XdsTls, name};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::fmt::Display;
use std::path::Path;

/// A setting of the connection that cannot be right.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", name(.setting))]
pub struct Misconfigured {
    setting: &'static str,
    what: String,
}

const CA: &str = "CONFIG_GRPC_XDS_SERVER_TLS_CACERT";
const CERT: &str = "CONFIG_GRPC_XDS_CLIENT_TLS_CERT";
const KEY: &str = "CONFIG_GRPC_XDS_CLIENT_TLS_KEY";

/// TLS as these files say now.
pub(super) fn config(tls: &XdsTls) -> Result<ClientConfig, Misconfigured> {
    let builder = ClientConfig::builder().with_root_certificates(roots(tls.ca.as_deref())?);
    let mut config = match &tls.identity {
        Some((cert, key)) => builder
            .with_client_auth_cert(certificates(CERT, cert)?, read_key(key)?)
            .map_err(|error| Misconfigured::new(CERT, error))?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

/// The name that the server's certificate must be for.
pub(super) fn server_name(tls: &XdsTls, host: &str) -> Result<ServerName<'static>, Misconfigured> {
    let (setting, wanted) = match &tls.server_name {
        Some(name) => ("CONFIG_GRPC_XDS_SERVER_TLS_SAN", name.as_str()),
        None => ("CONFIG_GRPC_XDS_SERVER_URL", host),
    };
    ServerName::try_from(wanted.to_owned()).map_err(|_| {
        let found = wanted.escape_debug();
        Misconfigured::new(setting, format_args!("found `{found}`, expected the name of a host"))
    })
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, Misconfigured> {
    let mut roots = RootCertStore::empty();
    // A system without authorities of its own is no fault: ours may be all there is.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for certificate in ca.map(|path| certificates(CA, path)).transpose()?.unwrap_or_default() {
        roots.add(certificate).map_err(|error| Misconfigured::new(CA, error))?;
    }
    Ok(roots)
}

fn certificates(
    setting: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, Misconfigured> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates: Vec<_> = found.map_err(|error| of_file(setting, path, error))?;
    if certificates.is_empty() {
        return Err(of_file(setting, path, "no certificate in PEM"));
    }
    Ok(certificates)
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, Misconfigured> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| of_file(KEY, path, error))
}

fn of_file(setting: &'static str, path: &Path, what: impl Display) -> Misconfigured {
    Misconfigured::new(setting, format_args!("{}: {what}", path.display()))
}

impl Misconfigured {
    fn new(setting: &'static str, what: impl Display) -> Self {
        Self { setting, what: what.to_string() }
    }
}
