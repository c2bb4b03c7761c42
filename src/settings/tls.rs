//! TLS on the gRPC port and on the idempotency filter's.

use super::BOOL;
use super::faults::{Faults, name};
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

/// What is asked of one port: its variables with their texts.
pub(super) struct Asked<'t> {
    /// Whether TLS is wanted at all.
    pub(super) switch: Text<'t>,
    pub(super) cert: Text<'t>,
    pub(super) key: Text<'t>,
    /// The first that is set counts.
    pub(super) client_ca: Vec<Text<'t>>,
    pub(super) client_san: Text<'t>,
}

/// A variable and its text, empty if it is unset.
pub(super) type Text<'t> = (&'static str, &'t str);

impl RawTls {
    /// How the port speaks TLS, if it is to and there is no fault; and what is set in vain.
    pub(super) fn read(&self, faults: &mut Faults) -> (Option<TlsSettings>, Option<String>) {
        let asked = Asked {
            switch: ("GRPC_SERVER_USE_TLS", &self.grpc_server_use_tls),
            cert: ("GRPC_SERVER_TLS_CERT", &self.grpc_server_tls_cert),
            key: ("GRPC_SERVER_TLS_KEY", &self.grpc_server_tls_key),
            client_ca: vec![
                ("GRPC_CLIENT_TLS_CACERT", &self.grpc_client_tls_cacert),
                ("GRPC_SERVER_TLS_CA_CERT", &self.grpc_server_tls_ca_cert),
            ],
            client_san: ("GRPC_CLIENT_TLS_SAN", &self.grpc_client_tls_san),
        };
        asked.read(faults)
    }
}

impl Asked<'_> {
    /// How the port speaks TLS, if it is to and there is no fault; and what is set in vain.
    pub(super) fn read(&self, faults: &mut Faults) -> (Option<TlsSettings>, Option<String>) {
        match faults.read(self.switch.0, self.switch.1, words::boolean) {
            None => (None, None),
            Some(false) => (None, self.in_vain()),
            Some(true) => (self.settings(faults), None),
        }
    }

    fn settings(&self, faults: &mut Faults) -> Option<TlsSettings> {
        let mut needed = |text: Text<'_>| {
            let file = TlsFile::of(text);
            if file.is_none() {
                faults.add(text.0, format!("unset, and {} needs it", name(self.switch.0)));
            }
            file
        };
        let (cert, key) = (needed(self.cert), needed(self.key));
        let client_san = self.client_san();
        let client_ca = self.client_ca();
        if let (Some((variable, _)), None, Some(ca)) =
            (&client_san, &client_ca, self.client_ca.first())
        {
            let text = format!("set, and without {} nobody is asked for a certificate", name(ca.0));
            faults.add(variable, text);
        }
        Some(TlsSettings { cert: cert?, key: key?, client_ca, client_san })
    }

    /// Somebody who names a client's authority may believe that others are kept out.
    fn in_vain(&self) -> Option<String> {
        let file = self.client_ca().or_else(|| TlsFile::of(self.cert));
        let TlsFile { variable, .. } = file.or_else(|| TlsFile::of(self.key))?;
        Some(format!("{variable} has no effect: {}=true turns TLS on", self.switch.0))
    }

    fn client_ca(&self) -> Option<TlsFile> {
        self.client_ca.iter().find_map(|text| TlsFile::of(*text))
    }

    fn client_san(&self) -> Option<(&'static str, String)> {
        let (variable, san) = self.client_san;
        (!san.is_empty()).then(|| (variable, san.to_owned()))
    }
}

impl TlsFile {
    fn of((variable, path): Text<'_>) -> Option<Self> {
        words::path(path).map(|path| Self { variable, path })
    }
}
