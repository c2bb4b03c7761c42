//! What is served over gRPC.

use crate::envoy::{self, RateLimit, RateLimitGrpc};
use axum::Router;
use axum::body::Bytes;
use http::{Request, Response};
use http_body::Body;
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::body;
use tonic::codegen::{BoxFuture, Service, StdError};
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic_health::pb::health_server::{Health, HealthServer};

/// The rate-limit service, health and both reflections.
///
/// Rate-limit calls do not pass through the router: its look-up, and what it boxes on the way there
/// and back, would be a tenth of all that such a call costs.
#[derive(Clone, Debug)]
pub(super) struct Services {
    rate_limit: RateLimitGrpc,
    others: Router,
}

impl Services {
    pub(super) fn new(
        rate_limit: Arc<RateLimit>,
        health: HealthServer<impl Health>,
    ) -> Result<Self, tonic_reflection::server::Error> {
        let others = Routes::new(health)
            .add_service(envoy::reflection_v1()?)
            .add_service(envoy::reflection_v1alpha()?);
        Ok(Self { rate_limit: rate_limit.grpc(), others: others.prepare().into_axum_router() })
    }
}

impl<B> Service<Request<B>> for Services
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<StdError>,
{
    type Response = Response<body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if is_rate_limit(request.uri().path()) {
            return self.rate_limit.call(request);
        }
        let mut others = self.others.clone();
        Box::pin(async move {
            poll_fn(|context| Service::<Request<B>>::poll_ready(&mut others, context)).await?;
            Ok(others.call(request).await?.map(body::Body::new))
        })
    }
}

/// Whether a path is `/<service>/<method>` of the rate-limit service.
fn is_rate_limit(path: &str) -> bool {
    let service = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    service.is_some_and(|(service, _)| service == RateLimitGrpc::NAME)
}
