//! An authority of these tests, and servers that it vouches for.

use crate::support::redis::Redis;
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;
use tidegate::store::TlsFiles;

/// An authority and what it vouches for, as files.
pub struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Self { folder, issuer: Issuer::new(params, key) }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Issues `<name>.pem` and `<name>.key` for a host.
    pub fn issue(&self, name: &str, host: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, host);
        let certificate: Certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = (self.file(&format!("{name}.pem")), self.file(&format!("{name}.key")));
        fs::write(&files.0, certificate.pem()).unwrap();
        fs::write(&files.1, key.serialize_pem()).unwrap();
        (files.0.display().to_string(), files.1.display().to_string())
    }

    /// A server that speaks TLS with a certificate for a host.
    pub async fn server(&self, host: &str, wants_ours: bool) -> Redis {
        let (cert, key) = self.issue("server", host);
        let ca = self.file("ca.pem").display().to_string();
        let wants_ours = if wants_ours { "yes" } else { "no" };
        Redis::start_tls(&[
            "--tls-cert-file",
            &cert,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &ca,
            "--tls-auth-clients",
            wants_ours,
        ])
        .await
    }

    pub fn trusted(&self) -> TlsFiles {
        TlsFiles { ca: Some(self.file("ca.pem")), ..TlsFiles::default() }
    }
}
