//! Where policies come from, and what tells that there are new ones.

use super::Error;
use super::connections::Life;
use crate::config;
use crate::envoy::xds::{Offer, XdsClient};
use crate::settings::Policies;
use crate::telemetry::Metrics;
use std::sync::Arc;
use tokio::sync::mpsc;

/// A source of policies.
#[derive(Debug)]
pub(super) enum Source {
    /// Files, and messages that they may have changed.
    Files(mpsc::Receiver<()>),
    /// An xDS server, and the sets that it sends.
    Xds(mpsc::Receiver<Offer>),
}

impl Source {
    /// Begins to watch it, until the stop.
    pub(super) async fn open(
        policies: &Policies,
        metrics: &Arc<Metrics>,
        life: &Life,
    ) -> Result<Self, Error> {
        let Some(settings) = policies.xds.clone() else {
            let paths = policies.paths.clone();
            let changes = config::watch(paths, &life.tasks, life.stop.clone()).await;
            return Ok(Self::Files(changes));
        };
        let client = XdsClient::new(settings, Arc::clone(metrics))?;
        // One at a time: the server waits for each answer.
        let (offers, offered) = mpsc::channel(1);
        let stop = life.stop.clone();
        life.tasks.spawn(async move { stop.run_until_cancelled(client.run(offers)).await });
        Ok(Self::Xds(offered))
    }
}
