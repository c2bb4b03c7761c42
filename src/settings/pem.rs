//! Certificates and keys in the files that settings name, for those who connect over TLS.

use super::faults::name;
use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt::Display;
use std::path::Path;

/// A setting of TLS that cannot be right.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", name(.setting))]
pub struct TlsFault {
    /// Its variable.
    pub setting: &'static str,
    /// What was found, or expected.
    pub what: String,
}

impl TlsFault {
    /// What is wrong with a setting.
    pub fn new(setting: &'static str, what: impl Display) -> Self {
        Self { setting, what: what.to_string() }
    }

    fn of_file(setting: &'static str, path: &Path, what: impl Display) -> Self {
        Self::new(setting, format_args!("{}: {what}", path.display()))
    }
}

/// The system's authorities and those in our own file.
pub fn authorities(setting: &'static str, file: Option<&Path>) -> Result<RootCertStore, TlsFault> {
    let mut roots = RootCertStore::empty();
    // A system without authorities of its own is no fault: ours may be all there is.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = file {
        for certificate in certificates(setting, path)? {
            roots.add(certificate).map_err(|error| TlsFault::of_file(setting, path, error))?;
        }
    }
    Ok(roots)
}

/// The certificates of a file, at least one.
pub fn certificates(
    setting: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsFault> {
    let found: Result<Vec<_>, pem::Error> =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match found {
        Ok(found) if found.is_empty() => {
            Err(TlsFault::of_file(setting, path, "no certificate in PEM"))
        }
        found => found.map_err(|error| TlsFault::of_file(setting, path, error)),
    }
}

/// The key of a file.
pub fn private_key(setting: &'static str, path: &Path) -> Result<PrivateKeyDer<'static>, TlsFault> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| TlsFault::of_file(setting, path, error))
}
