//! Which protocol a port speaks, asked only before a first connection succeeded.

use super::config::{Address, TlsFiles};
use super::connect::Connector;
use rustls::pki_types::ServerName;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(1);

/// Whether a port answers in Redis's own protocol, unencrypted.
pub(super) async fn plain(connector: &Connector, address: &Address) -> bool {
    let asking = async {
        let mut stream = connector.dial(address).await.ok()?;
        stream.write_all(b"PING\r\n").await.ok()?;
        stream.read_u8().await.ok()
    };
    let first = timeout(PATIENCE, asking).await;
    matches!(first, Ok(Some(b'+' | b'-')))
}

/// Whether a port answers in TLS, whatever it thinks of us.
pub(super) async fn tls(connector: &Connector, address: &Address) -> bool {
    let asking = async {
        let tls = super::tls::connector(&TlsFiles::default()).ok()?;
        let name = ServerName::try_from(address.host().to_owned()).ok()?;
        let stream = connector.dial(address).await.ok()?;
        Some(tls.connect(name, stream).await)
    };
    match timeout(PATIENCE, asking).await {
        Ok(Some(Ok(_))) => true,
        Ok(Some(Err(error))) => {
            use rustls::Error::{AlertReceived, InvalidCertificate};
            let found = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
            matches!(found, Some(AlertReceived(_) | InvalidCertificate(_)))
        }
        Ok(None) | Err(_) => false,
    }
}
