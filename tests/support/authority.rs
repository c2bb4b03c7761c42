//! An authority of its own for each test, and what it vouches for, as files.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;

/// An authority and what it vouches for, as files.
pub struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// Files of a certificate and its key.
pub type Pair = (String, String);

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

    /// Its own certificate.
    pub fn ca(&self) -> String {
        self.file("ca.pem").display().to_string()
    }

    /// Issues `<name>.pem` and `<name>.key` for a host.
    pub fn issue(&self, name: &str, host: &str) -> Pair {
        self.write(name, host, CertificateParams::new(vec![host.to_owned()]).unwrap())
    }

    /// The same for URIs.
    pub fn issue_for_uris(&self, name: &str, uris: &[&str]) -> Pair {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        let uris = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap()));
        params.subject_alt_names = uris.collect();
        self.write(name, name, params)
    }

    /// One that held until the year 2001.
    pub fn issue_expired(&self, name: &str, host: &str) -> Pair {
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2001, 1, 1);
        self.write(name, host, params)
    }

    fn write(&self, name: &str, host: &str, mut params: CertificateParams) -> Pair {
        let key = KeyPair::generate().unwrap();
        params.distinguished_name.push(DnType::CommonName, host);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = (self.file(&format!("{name}.pem")), self.file(&format!("{name}.key")));
        fs::write(&files.0, certificate.pem()).unwrap();
        fs::write(&files.1, key.serialize_pem()).unwrap();
        (files.0.display().to_string(), files.1.display().to_string())
    }

    /// A client of HTTP/2 that trusts this authority and shows a certificate.
    pub fn client(&self, shows: Option<&Pair>) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder().with_root_certificates(self.roots());
        let mut config = match shows {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let (certificates, key) = read(pair);
                builder.with_client_auth_cert(certificates, key).unwrap()
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }

    /// A server of HTTP/2 that shows a certificate and wants one of this authority.
    pub fn acceptor(&self, shows: &Pair) -> TlsAcceptor {
        let clients = WebPkiClientVerifier::builder(Arc::new(self.roots())).build().unwrap();
        let (certificates, key) = read(shows);
        let builder = ServerConfig::builder().with_client_cert_verifier(clients);
        let mut config = builder.with_single_cert(certificates, key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.ca()).unwrap()).unwrap();
        roots
    }
}

fn read((cert, key): &Pair) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let certificates = vec![CertificateDer::from_pem_file(cert).unwrap()];
    (certificates, PrivateKeyDer::from_pem_file(key).unwrap())
}
