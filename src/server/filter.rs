//! The idempotency filter and the direct API: what is served on their port, and the filter's policy,
//! which is put in force whenever it changes.

use super::connections::Life;
use super::health::Health;
use crate::clock::Clock;
use crate::config::{self, LoadedIdempotency, Report};
use crate::envoy::{self, Caller, DirectApi, ExtProc};
use crate::idempotency::{Protection, ProtectionOptions, Records};
use crate::telemetry::Metrics;
use axum::{Extension, Router};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tonic::service::RoutesBuilder;

/// The filter. One load at a time: whoever holds it.
#[derive(Debug)]
pub(super) struct Filter {
    config: PathBuf,
    protection: Arc<Protection>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    /// Of the policy in force.
    version: Option<String>,
    /// Of the last load that failed, since one succeeded.
    fault: Option<Report>,
}

/// What is served on their port. If the listener does not know callers, whoever reaches it names its
/// namespace itself.
pub(super) fn router(
    filter: Option<ExtProc>,
    api: Option<&DirectApi>,
    knows_callers: bool,
) -> Result<Router, tonic_reflection::server::Error> {
    let mut routes = RoutesBuilder::default();
    if let Some(filter) = filter {
        routes.add_service(filter.grpc());
    }
    if let Some(api) = api {
        routes
            .add_service(api.idempotency())
            .add_service(api.leases())
            .add_service(envoy::direct_reflection_v1()?)
            .add_service(envoy::direct_reflection_v1alpha()?);
    }
    let router = routes.routes().prepare().into_axum_router();
    Ok(if knows_callers { router } else { router.layer(Extension(Caller::Unnamed)) })
}

impl Filter {
    pub(super) fn new(
        config: PathBuf,
        max_in_flight: usize,
        records: Arc<Records>,
        clock: &Arc<dyn Clock>,
        metrics: &Arc<Metrics>,
        health: &Arc<Health>,
        life: &Life,
    ) -> Self {
        let protection = Protection::new(
            records,
            Arc::clone(metrics),
            Arc::clone(clock),
            life.tasks.clone(),
            life.stop.clone(),
            ProtectionOptions { max_in_flight },
        );
        Self {
            config,
            protection: Arc::new(protection),
            metrics: Arc::clone(metrics),
            health: Arc::clone(health),
            version: None,
            fault: None,
        }
    }

    /// The service.
    pub(super) fn service(&self, life: &Life) -> ExtProc {
        ExtProc::new(Arc::clone(&self.protection), life.tasks.clone(), life.cut.clone())
    }

    /// Loads the policy, then again whenever it may have changed, until the stop.
    pub(super) async fn start(mut self, life: &Life) -> std::io::Result<()> {
        let asked = signal(SignalKind::hangup())?;
        let paths = vec![self.config.clone()];
        let changes = config::watch(paths, &life.tasks, life.stop.clone()).await;
        self.load().await;
        let stop = life.stop.clone();
        life.tasks.spawn(async move { stop.run_until_cancelled(self.run(changes, asked)).await });
        Ok(())
    }

    async fn run(mut self, mut changes: mpsc::Receiver<()>, mut asked: Signal) {
        let mut watching = true;
        loop {
            tokio::select! {
                change = changes.recv(), if watching => watching = change.is_some(),
                Some(()) = asked.recv() => self.fault = None,
                else => return,
            }
            self.load().await;
        }
    }

    /// Loads once. What fails is logged, counted, and changes nothing.
    async fn load(&mut self) {
        let config = self.config.clone();
        match spawn_blocking(move || config::load_idempotency(&config)).await {
            Ok(Ok(loaded)) => self.install(loaded),
            Ok(Err(report)) => self.refuse(report),
            // Only a defect ends here; the next change tries again.
            Err(error) => tracing::error!(%error, "the idempotency policy could not be loaded"),
        }
        self.health.filter_can_answer(self.protection.has_policy()).await;
    }

    fn install(&mut self, loaded: LoadedIdempotency) {
        let LoadedIdempotency { policy, warnings, version } = loaded;
        self.fault = None;
        if self.version.as_ref() == Some(&version) {
            return;
        }
        if !warnings.is_empty() {
            tracing::warn!("the idempotency policy has warnings\n{warnings}");
        }
        let (n_routes, file) = (policy.routes.len(), self.config.display());
        tracing::info!(n_routes, %version, %file, "the idempotency policy is loaded");
        self.protection.install(policy);
        self.metrics.idempotency.policy_loaded(true);
        self.version = Some(version);
    }

    fn refuse(&mut self, report: Report) {
        if self.fault.as_ref() == Some(&report) {
            return;
        }
        self.metrics.idempotency.policy_loaded(false);
        let in_force = if self.version.is_some() {
            "the one in force stays"
        } else {
            "none is in force: requests through the filter fail until it can be loaded"
        };
        tracing::error!("the idempotency policy is faulty; {in_force}\n{report}");
        self.fault = Some(report);
    }
}
