//! What the log says at the start: what is served where, and what to try.

use super::bind::Listeners;
use super::example::Example;
use crate::limiter::Limiter;
use crate::settings::{Backend, Listen, StoreSettings};

pub(super) fn listeners(listeners: &Listeners, listen: &Listen) {
    let version = env!("CARGO_PKG_VERSION");
    tracing::info!(version, "tidegate starts");
    let Listeners { http, grpc, admin, prometheus } = listeners;
    tracing::info!(address = %grpc, "grpc: rate-limit service, health, reflection");
    tracing::info!(address = %http, "http: /healthcheck /readyz /livez /metrics /json");
    tracing::info!(address = %admin, "admin: /rlconfig /bucket /log-level");
    if let Some(prometheus) = prometheus {
        tracing::info!(address = %prometheus, path = listen.prometheus_path, "prometheus: metrics");
    }
}

pub(super) fn store(store: &StoreSettings) {
    match store.backend {
        Backend::Memory => tracing::info!(
            max_buckets = store.memory_max_buckets,
            "store: this process's memory; other processes count for themselves"
        ),
    }
    if let Some(warning) = store.warning {
        tracing::warn!("store: {warning}");
    }
}

/// Two command lines that work with the policies in force.
pub(super) fn example(listeners: &Listeners, limiter: &Limiter) {
    let policies = limiter.policies();
    let Some(example) = policies.and_then(|policies| Example::of(&policies.rules)) else { return };
    if let Some(http) = listeners.http.local_address() {
        tracing::info!("try: {}", example.curl(http));
    }
    if let Some(grpc) = listeners.grpc.local_address() {
        tracing::info!("or:  {}", example.grpcurl(grpc));
    }
}
