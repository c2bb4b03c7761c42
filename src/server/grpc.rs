//! What is served over gRPC.

use crate::envoy::{self, RateLimit};
use axum::Router;
use std::sync::Arc;
use tonic::service::Routes;
use tonic_health::pb::health_server::{Health, HealthServer};

/// The rate-limit service, health and both reflections.
pub(super) fn router(
    rate_limit: Arc<RateLimit>,
    health: HealthServer<impl Health>,
) -> Result<Router, tonic_reflection::server::Error> {
    let routes = Routes::new(rate_limit.grpc())
        .add_service(health)
        .add_service(envoy::reflection_v1()?)
        .add_service(envoy::reflection_v1alpha()?);
    Ok(routes.prepare().into_axum_router())
}
