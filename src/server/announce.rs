//! What the log says at the start: what is served where, and what to try.

use super::bind::Listeners;
use super::example::Example;
use crate::limiter::Limiter;
use crate::settings::servers::{RedisConfig, Topology};
use crate::settings::{
    Backend, IdempotencySettings, PushSettings, Settings, StoreSettings, TlsSettings, TraceSettings,
};

pub(super) fn listeners(listeners: &Listeners, settings: &Settings) {
    let version = env!("CARGO_PKG_VERSION");
    tracing::info!(version, "tidegate starts");
    let Listeners { http, grpc, admin, prometheus, filter } = listeners;
    let tls = tls(settings.grpc_tls.as_ref());
    tracing::info!(address = %grpc, tls, "grpc: rate-limit service, health, reflection");
    tracing::info!(address = %http, "http: /healthcheck /readyz /livez /metrics /json");
    tracing::info!(address = %admin, "admin: /rlconfig /bucket /hot-keys /log-level /shadow");
    if let Some(prometheus) = prometheus {
        tracing::info!(address = %prometheus, path = settings.listen.prometheus_path, "prometheus: metrics");
    }
    if let (Some(address), Some(idempotency)) = (filter, &settings.idempotency) {
        let IdempotencySettings { config, api: has_api, tls: files, .. } = idempotency;
        let (has_filter, tls) = (config.is_some(), self::tls(files.as_ref()));
        tracing::info!(%address, tls, has_filter, has_api, "idempotency: ext_proc filter, direct API");
    }
}

fn tls(settings: Option<&TlsSettings>) -> &'static str {
    match settings {
        None => "none",
        Some(tls) if tls.client_ca.is_none() => "for anybody",
        Some(_) => "for clients with a certificate",
    }
}

pub(super) fn traces(traces: &TraceSettings) {
    let TraceSettings { endpoint, protocol, sampling_rate, .. } = traces;
    tracing::info!(%endpoint, ?protocol, sampling_rate, "requests are traced");
}

pub(super) fn push(push: &PushSettings) {
    let PushSettings { dialect, transport, host, port, interval, .. } = push;
    let server = format!("{host}:{port}");
    tracing::info!(%server, ?dialect, ?transport, ?interval, "metrics are pushed");
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

/// What holds for every request, and settings that do nothing.
pub(super) fn modes(settings: &Settings) {
    if settings.answers.shadow_mode {
        tracing::warn!("SHADOW_MODE: limits are decided and counted, and every request may pass");
    }
    if settings.answers.quota_mode {
        tracing::info!("QUOTA_MODE: a request is refused only if all of its limits refuse it");
    }
    for warning in &settings.warnings {
        tracing::warn!("settings: {warning}");
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
pub(super) fn example(listeners: &Listeners, limiter: &Limiter, over_tls: bool) {
    let policies = limiter.policies();
    let Some(example) = policies.and_then(|policies| Example::of(&policies.rules)) else { return };
    if let Some(http) = listeners.http.local_address() {
        tracing::info!("try: {}", example.curl(http));
    }
    if let Some(grpc) = listeners.grpc.local_address().filter(|_| !over_tls) {
        tracing::info!("or:  {}", example.grpcurl(grpc));
    }
}
