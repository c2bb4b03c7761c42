//! TLS on the gRPC port.

use super::BOOL;
use super::faults::Faults;
use super::words;
use std::path::PathBuf;

/// TLS as it is asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "TLS on the gRPC port")]
#[expect(clippy::struct_field_names, reason = "they are the names of the flags")]
pub(super) struct RawTls {
    /// Speak TLS there
    #[arg(long, env = "GRPC_SERVER_USE_TLS", value_name = BOOL, default_value = "false")]
    grpc_server_use_tls: String,
    /// Our certificate in PEM, and those between it and its authority; all these files are read again when they change
    #[arg(long, env = "GRPC_SERVER_TLS_CERT", value_name = "PATH", default_value = "")]
    grpc_server_tls_cert: String,
    /// Its key
    #[arg(long, env = "GRPC_SERVER_TLS_KEY", value_name = "PATH", default_value = "")]
    grpc_server_tls_key: String,
    /// Authorities in PEM; if set, whoever connects must show a certificate by one of them
    #[arg(long, env = "GRPC_CLIENT_TLS_CACERT", value_name = "PATH", default_value = "")]
    grpc_client_tls_cacert: String,
    /// The same under the name that Envoy Gateway sets; the one above wins
    #[arg(long, env = "GRPC_SERVER_TLS_CA_CERT", value_name = "PATH", default_value = "")]
    grpc_server_tls_ca_cert: String,
    /// DNS name that the certificate of whoever connects must be for
    #[arg(long, env = "GRPC_CLIENT_TLS_SAN", value_name = "NAME", default_value = "")]
    grpc_client_tls_san: String,
}

/// How a port speaks TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// Our certificates, in PEM.
    pub cert: TlsFile,
    /// The key of the first.
    pub key: TlsFile,
    /// Authorities of whoever connects, if a certificate is wanted.
    pub client_ca: Option<TlsFile>,
    /// Variable and DNS name that this certificate must be for.
    pub client_san: Option<(&'static str, String)>,
}

/// A file, and the variable that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFile {
    /// The variable.
    pub variable: &'static str,
    /// The file.
    pub path: PathBuf,
}

impl RawTls {
    /// How the port speaks TLS, if it is to and there is no fault; and what is set in vain.
    pub(super) fn read(&self, faults: &mut Faults) -> (Option<TlsSettings>, Option<String>) {
        let text = &self.grpc_server_use_tls;
        match faults.read("GRPC_SERVER_USE_TLS", text, words::boolean) {
            None => (None, None),
            Some(false) => (None, self.in_vain()),
            Some(true) => (self.settings(faults), None),
        }
    }

    fn settings(&self, faults: &mut Faults) -> Option<TlsSettings> {
        let mut needed = |file: Option<TlsFile>, variable| {
            if file.is_none() {
                faults
                    .add(variable, "unset, and GRPC_SERVER_USE_TLS/--grpc-server-use-tls needs it");
            }
            file
        };
        let cert = needed(self.cert(), "GRPC_SERVER_TLS_CERT");
        let key = needed(self.key(), "GRPC_SERVER_TLS_KEY");
        let client_san = self.client_san();
        let client_ca = self.client_ca();
        if client_san.is_some() && client_ca.is_none() {
            let text = "set, and without GRPC_CLIENT_TLS_CACERT/--grpc-client-tls-cacert nobody is \
                        asked for a certificate";
            faults.add("GRPC_CLIENT_TLS_SAN", text);
        }
        Some(TlsSettings { cert: cert?, key: key?, client_ca, client_san })
    }

    /// Somebody who names a client's authority may believe that others are kept out.
    fn in_vain(&self) -> Option<String> {
        let file = self.client_ca().or_else(|| self.cert()).or_else(|| self.key())?;
        let variable = file.variable;
        Some(format!("{variable} has no effect: GRPC_SERVER_USE_TLS=true turns TLS on"))
    }

    fn cert(&self) -> Option<TlsFile> {
        TlsFile::of("GRPC_SERVER_TLS_CERT", &self.grpc_server_tls_cert)
    }

    fn key(&self) -> Option<TlsFile> {
        TlsFile::of("GRPC_SERVER_TLS_KEY", &self.grpc_server_tls_key)
    }

    fn client_ca(&self) -> Option<TlsFile> {
        TlsFile::of("GRPC_CLIENT_TLS_CACERT", &self.grpc_client_tls_cacert)
            .or_else(|| TlsFile::of("GRPC_SERVER_TLS_CA_CERT", &self.grpc_server_tls_ca_cert))
    }

    fn client_san(&self) -> Option<(&'static str, String)> {
        let san = &self.grpc_client_tls_san;
        (!san.is_empty()).then(|| ("GRPC_CLIENT_TLS_SAN", san.clone()))
    }
}

impl TlsFile {
    fn of(variable: &'static str, path: &str) -> Option<Self> {
        words::path(path).map(|path| Self { variable, path })
    }
}
