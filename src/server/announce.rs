//! What the log says at the start: what is served where, and what to try.

use super::bind::Listeners;
use super::example::Example;
use crate::limiter::Limiter;
use crate::settings::servers::{RedisConfig, Topology};
use crate::settings::{Backend, IdempotencySettings, Listen, StoreSettings};

pub(super) fn listeners(
    listeners: &Listeners,
    listen: &Listen,
    idempotency: Option<&IdempotencySettings>,
) {
    let version = env!("CARGO_PKG_VERSION");
    tracing::info!(version, "tidegate starts");
    let Listeners { http, grpc, admin, prometheus, filter } = listeners;
    tracing::info!(address = %grpc, "grpc: rate-limit service, health, reflection");
    tracing::info!(address = %http, "http: /healthcheck /readyz /livez /metrics /json");
    tracing::info!(address = %admin, "admin: /rlconfig /bucket /log-level");
    if let Some(prometheus) = prometheus {
        tracing::info!(address = %prometheus, path = listen.prometheus_path, "prometheus: metrics");
    }
    if let (Some(address), Some(settings)) = (filter, idempotency) {
        let (has_filter, has_api) = (settings.config.is_some(), settings.api);
        tracing::info!(%address, has_filter, has_api, "idempotency: ext_proc filter, direct API");
    }
}

pub(super) fn store(store: &StoreSettings, stop_when_over_limit: bool) {
    match &store.backend {
        Backend::Memory => tracing::info!(
            max_buckets = store.memory_max_buckets,
            "store: this process's memory; other processes count for themselves"
        ),
        Backend::Redis(redis) => shared(redis, stop_when_over_limit),
    }
    for warning in &store.warnings {
        tracing::warn!("store: {warning}");
    }
}

fn shared(config: &RedisConfig, stop_when_over_limit: bool) {
    tracing::info!(redis = %config.servers.topology, "store: Redis, shared by all that use it");
    if let Some(per_second) = &config.per_second {
        tracing::info!(
            redis = %per_second.topology,
            "store: a Redis for limits per second; what is decided together is so in each of the two"
        );
    }
    let all = std::iter::once(&config.servers).chain(&config.per_second);
    let clustered = all.into_iter().any(|one| matches!(one.topology, Topology::Cluster { .. }));
    if stop_when_over_limit && clustered {
        tracing::warn!(
            "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: in a cluster it holds only for descriptors of \
             one hash tag; hash_tag in the policies ties them"
        );
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
