//! TLS to Redis: the system's authorities and our own, a client certificate, lenient host names.

use super::config::TlsFiles;
use super::fault::Misconfigured;
use crate::settings::{authorities, certificates, private_key};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;

/// TLS as these files say.
pub(super) fn config(files: &TlsFiles) -> Result<Arc<ClientConfig>, Misconfigured> {
    let roots = Arc::new(authorities("REDIS_TLS_CACERT", files.ca.as_deref())?);
    let builder = ClientConfig::builder().with_root_certificates(Arc::clone(&roots));
    let mut config = match (&files.client_cert, &files.client_key) {
        (Some(cert), Some(key)) => builder
            .with_client_auth_cert(
                certificates("REDIS_TLS_CLIENT_CERT", cert)?,
                private_key("REDIS_TLS_CLIENT_KEY", key)?,
            )
            .map_err(|error| Misconfigured::new("REDIS_TLS_CLIENT_CERT", error))?,
        (None, None) => builder.with_no_client_auth(),
        (Some(_), None) => return Err(lonely("REDIS_TLS_CLIENT_KEY", "the key")),
        (None, Some(_)) => return Err(lonely("REDIS_TLS_CLIENT_CERT", "the certificate")),
    };
    if files.skip_hostname_verification {
        let verifier = WebPkiServerVerifier::builder(roots)
            .build()
            .map_err(|error| Misconfigured::new("REDIS_TLS_CACERT", error))?;
        config.dangerous().set_certificate_verifier(Arc::new(AnyHost(verifier)));
    }
    Ok(Arc::new(config))
}

fn lonely(setting: &str, what: &str) -> Misconfigured {
    Misconfigured::new(setting, format_args!("unset, expected {what} of the client certificate"))
}

/// Checks all of a certificate but the name that it is for.
#[derive(Debug)]
struct AnyHost(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
