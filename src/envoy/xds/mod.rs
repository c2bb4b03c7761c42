//! Policies from an xDS server: every one of them in each response (state of the world), over one
//! aggregated stream (ADS), each response accepted or refused as a whole.
//!
//! `connect` reaches the server, `subscription` knows what to tell it, `resource` turns what it
//! sends into the trees that policy files become, `backoff` says when to try again.

mod backoff;
mod connect;
mod resource;
mod stream;
mod subscription;
mod tls;

pub use stream::End;

use crate::config::{Document, Report};
use crate::settings::{TlsFault, XdsSettings};
use crate::telemetry::Metrics;
use backoff::Backoff;
use connect::Connector;
use std::sync::Arc;
use stream::Stream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

/// A set of policies that the server sent, to be taken or refused.
#[derive(Debug)]
pub struct Offer {
    /// All of it, or why it cannot even be read.
    pub set: Result<Set, Report>,
    /// Whether it is in force, or why not.
    pub answer: oneshot::Sender<Result<(), String>>,
}

/// Every policy that there is.
#[derive(Debug)]
pub struct Set {
    /// In the order of their names.
    pub documents: Vec<Document>,
    /// A hash of them.
    pub version: String,
}

/// A client of an xDS server.
#[derive(Debug)]
pub struct XdsClient {
    settings: XdsSettings,
    connector: Connector,
    metrics: Arc<Metrics>,
}

impl XdsClient {
    /// A client that is not connected yet. Fails if its certificates cannot be used.
    pub fn new(settings: XdsSettings, metrics: Arc<Metrics>) -> Result<Self, TlsFault> {
        let connector = Connector::new(&settings)?;
        Ok(Self { settings, connector, metrics })
    }

    /// Follows the server, through as many connections as it takes, until nobody takes offers.
    pub async fn run(self, offers: mpsc::Sender<Offer>) {
        let mut backoff = Backoff::new(self.settings.retry);
        loop {
            let end = self.follow(&offers, &mut backoff).await;
            self.show_connected(false);
            if matches!(end, End::NobodyAsks) {
                return;
            }
            let wait = backoff.after(&end);
            let server = &self.settings.server;
            tracing::warn!(%server, error = %end, ?wait, "xDS: no stream; policies in force stay");
            sleep(wait).await;
        }
    }

    /// Follows it through one connection.
    async fn follow(&self, offers: &mpsc::Sender<Offer>, backoff: &mut Backoff) -> End {
        let connection = match self.connector.connect().await {
            Ok(connection) => connection,
            Err(error) => return End::NotConnected(error),
        };
        self.show_connected(true);
        tracing::info!(server = %self.settings.server, "xDS: connected");
        let stream = Stream { settings: &self.settings, offers, backoff };
        connection.drive(|calls, origin| stream.run(calls, origin)).await
    }

    fn show_connected(&self, connected: bool) {
        self.metrics.xds_connected(&self.settings.server.to_string(), connected);
    }
}
