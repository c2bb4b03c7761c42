//! Which protocol a port speaks, asked only before a first connection succeeded.

use super::config::{Address, TlsFiles};
use super::connect::Connector;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

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

/// Why a server hangs up on an encrypted connection once it is asked something: a certificate of
/// ours that is missing or not accepted is told no sooner.
pub(super) async fn refusal(
    connector: &Connector,
    tls: &Arc<ClientConfig>,
    address: &Address,
) -> Option<std::io::Error> {
    let asking = async {
        let stream = connector.dial(address).await.ok()?;
        let mut stream = connector.encrypt(tls, address, stream).await.ok()?;
        match stream.write_all(b"PING\r\n").await {
            Ok(()) => stream.read_u8().await.err(),
            Err(error) => Some(error),
        }
    };
    timeout(PATIENCE, asking).await.ok().flatten()
}

/// Whether a port answers in TLS, whatever it thinks of us.
pub(super) async fn tls(connector: &Connector, address: &Address) -> bool {
    let asking = async {
        let tls = TlsConnector::from(super::tls::config(&TlsFiles::default()).ok()?);
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
