//! TLS on a port: certificates from files, read again when they change, and who may connect.

use super::connections::Life;
use crate::config;
use crate::settings::{TlsFile, TlsSettings, name};
use crate::telemetry::Metrics;
use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig,
    SignatureScheme,
};
use sha2::{Digest, Sha256};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What a port speaks over TLS.
pub(super) type Protocols = &'static [&'static [u8]];

/// Nothing but HTTP/2.
pub(super) const HTTP2: Protocols = &[b"h2"];

/// Speaks TLS with those who connect. Clones share the certificates in force.
#[derive(Clone, Debug)]
pub(super) struct Tls {
    config: Arc<ArcSwap<ServerConfig>>,
    metrics: Arc<Metrics>,
    /// Whether a handshake has ever failed.
    refused: Arc<AtomicBool>,
}

/// What is wrong with TLS files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting} {place}: {what}")]
pub struct TlsError {
    setting: String,
    place: String,
    what: String,
}

/// What the files of a port say.
struct Files {
    config: ServerConfig,
    /// Why clients will not trust us now, if there is a reason.
    untimely: Option<TlsError>,
    /// Tells one set of files from another.
    fingerprint: [u8; 32],
}

impl Tls {
    /// Reads the files, and from then on again whenever they change. Faulty ones, or a certificate
    /// that has expired, then change nothing but the log.
    pub(super) async fn start(
        settings: &TlsSettings,
        protocols: Protocols,
        metrics: &Arc<Metrics>,
        life: &Life,
    ) -> Result<Self, TlsError> {
        let paths = settings.paths();
        let changes = config::watch(paths, &life.tasks, life.stop.clone()).await;
        let files = Files::read(settings, protocols)?;
        if let Some(error) = &files.untimely {
            tracing::error!("tls: clients will not trust us: {error}");
        }
        let config = Arc::new(ArcSwap::from_pointee(files.config));
        let tls = Self { config, metrics: Arc::clone(metrics), refused: Arc::default() };
        let follow = tls.clone().follow(settings.clone(), protocols, files.fingerprint, changes);
        let stop = life.stop.clone();
        life.tasks.spawn(async move { stop.run_until_cancelled(follow).await });
        Ok(tls)
    }

    /// Shakes hands.
    pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        let acceptor = TlsAcceptor::from(self.config.load_full());
        timeout(HANDSHAKE, acceptor.accept(stream)).await?
    }

    /// Counts somebody with whom no hands could be shaken: most often a wrong certificate.
    pub(super) fn refused(&self, error: &io::Error) {
        self.metrics.tls_refusals.inc();
        if self.refused.swap(true, Ordering::Relaxed) {
            tracing::debug!(%error, "tls: a handshake failed");
        } else {
            tracing::warn!(%error, "tls: a handshake failed, the first one on this port");
        }
    }

    async fn follow(
        self,
        settings: TlsSettings,
        protocols: Protocols,
        mut seen: [u8; 32],
        mut changes: mpsc::Receiver<()>,
    ) {
        while changes.recv().await.is_some() {
            let settings = settings.clone();
            let read = spawn_blocking(move || Files::read(&settings, protocols)).await;
            match read.map_err(|_| None).and_then(|read| read.map_err(Some)) {
                Ok(files) if files.fingerprint == seen => {}
                Ok(Files { untimely: Some(error), .. }) | Err(Some(error)) => {
                    tracing::error!("tls: the certificates in force stay: {error}");
                }
                Ok(files) => {
                    seen = files.fingerprint;
                    self.config.store(Arc::new(files.config));
                    tracing::info!("tls: new certificates are in force");
                }
                // Only a defect ends there; the next change tries again.
                Err(None) => tracing::error!("tls: files could not be read"),
            }
        }
    }
}

impl TlsSettings {
    fn paths(&self) -> Vec<PathBuf> {
        let files = [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()];
        files.into_iter().flatten().map(|file| file.path.clone()).collect()
    }
}

impl TlsError {
    fn of(file: &TlsFile, what: impl fmt::Display) -> Self {
        let place = file.path.display().to_string();
        Self { setting: name(file.variable), place, what: what.to_string() }
    }
}

impl Files {
    fn read(settings: &TlsSettings, protocols: Protocols) -> Result<Self, TlsError> {
        let mut hash = Sha256::new();
        let mut read = |file: &TlsFile| {
            let bytes = std::fs::read(&file.path).map_err(|error| TlsError::of(file, error))?;
            hash.update(bytes.len().to_le_bytes());
            hash.update(&bytes);
            Ok::<_, TlsError>(bytes)
        };
        let certificates = certificates(&settings.cert, &read(&settings.cert)?)?;
        let key = PrivateKeyDer::from_pem_slice(&read(&settings.key)?)
            .map_err(|error| TlsError::of(&settings.key, error))?;
        let builder = match &settings.client_ca {
            Some(file) => {
                let roots = roots(file, &read(file)?)?;
                let verifier = verifier(file, roots, settings.client_san.as_ref())?;
                ServerConfig::builder().with_client_cert_verifier(verifier)
            }
            None => ServerConfig::builder().with_no_client_auth(),
        };
        let untimely = untimely(&settings.cert, &certificates);
        let mut config = builder
            .with_single_cert(certificates, key)
            .map_err(|error| of_pair(settings, &error))?;
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Self { config, untimely, fingerprint: hash.finalize().into() })
    }
}

fn certificates(file: &TlsFile, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(TlsError::of(file, "no certificate in PEM")),
        found => found.map_err(|error| TlsError::of(file, error)),
    }
}

fn roots(file: &TlsFile, pem: &[u8]) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file, pem)? {
        roots.add(certificate).map_err(|error| TlsError::of(file, error))?;
    }
    Ok(Arc::new(roots))
}

fn of_pair(settings: &TlsSettings, error: &rustls::Error) -> TlsError {
    let cert = settings.cert.path.display();
    if matches!(error, rustls::Error::InconsistentKeys(_)) {
        let what = format_args!("not the key of the certificate {cert}");
        return TlsError::of(&settings.key, what);
    }
    TlsError::of(&settings.key, error)
}

/// Whether our certificate holds now. It is looked at as if it were its own authority: that is not
/// believed, but its time is checked before.
fn untimely(file: &TlsFile, certificates: &[CertificateDer<'_>]) -> Option<TlsError> {
    use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    let own = certificates.first()?;
    let mut roots = RootCertStore::empty();
    roots.add(own.clone().into_owned()).ok()?;
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().ok()?;
    match verifier.verify_client_cert(own, &[], UnixTime::now()) {
        Err(rustls::Error::InvalidCertificate(
            error @ (Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. }),
        )) => Some(TlsError::of(file, error)),
        _ => None,
    }
}

fn verifier(
    file: &TlsFile,
    roots: Arc<RootCertStore>,
    san: Option<&(&'static str, String)>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let verifier = WebPkiClientVerifier::builder(roots).build();
    let verifier = verifier.map_err(|error| TlsError::of(file, error))?;
    let Some((variable, text)) = san else { return Ok(verifier) };
    let wanted = ServerName::try_from(text.clone()).map_err(|error| TlsError {
        setting: name(variable),
        place: text.escape_debug().to_string(),
        what: error.to_string(),
    })?;
    Ok(Arc::new(Named { verifier, wanted }))
}

/// Trusts a client's certificate only if it is for one name.
#[derive(Debug)]
struct Named {
    verifier: Arc<dyn ClientCertVerifier>,
    wanted: ServerName<'static>,
}

impl ClientCertVerifier for Named {
    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.verifier.verify_client_cert(end_entity, intermediates, now)?;
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, &self.wanted)?;
        Ok(verified)
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
