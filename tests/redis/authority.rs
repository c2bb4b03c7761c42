//! Servers that an authority of the tests vouches for.

pub use crate::support::authority::Authority;

use crate::support::redis::Redis;
use tidegate::store::TlsFiles;

/// What these tests ask of an authority.
pub trait Secure {
    /// A server that speaks TLS with a certificate for a host.
    async fn server(&self, host: &str, wants_ours: bool) -> Redis;
    /// Trusts it and nobody else.
    fn trusted(&self) -> TlsFiles;
}

impl Secure for Authority {
    async fn server(&self, host: &str, wants_ours: bool) -> Redis {
        let (cert, key) = self.issue("server", host);
        let ca = self.ca();
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

    fn trusted(&self) -> TlsFiles {
        TlsFiles { ca: Some(self.file("ca.pem")), ..TlsFiles::default() }
    }
}
