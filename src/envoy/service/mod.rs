//! The gRPC service that Envoy calls.

use super::convert::{self, Invalid};
use super::patience::Patience;
use super::proto::{RateLimitRequest, RateLimitResponse, RateLimitService, RateLimitServiceServer};
use super::{Options, respond, timeout};
use crate::limiter::{self, Limiter};
use crate::telemetry::Metrics;
use std::sync::Arc;
use tokio::time::Instant;

/// Answers rate-limit requests, however they arrive.
#[derive(Debug)]
pub struct RateLimit {
    limiter: Arc<Limiter>,
    metrics: Arc<Metrics>,
    options: Options,
}

/// The service as a gRPC server takes it.
pub type RateLimitGrpc = Patience<RateLimitServiceServer<RateLimit>>;

/// Why a request gets no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It has no meaning.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The limiter has no answer.
    #[error(transparent)]
    Limiter(#[from] limiter::Error),
}

impl RateLimit {
    /// A service that asks `limiter`.
    pub fn new(limiter: Arc<Limiter>, metrics: Arc<Metrics>, options: Options) -> Self {
        Self { limiter, metrics, options }
    }

    /// The service as a gRPC server takes it.
    pub fn grpc(self: Arc<Self>) -> RateLimitGrpc {
        Patience(RateLimitServiceServer::from_arc(self))
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// Answers a request; errors are counted. `gives_up` is when the caller does.
    pub(super) async fn answer(
        &self,
        asked: &RateLimitRequest,
        gives_up: Option<Instant>,
    ) -> Result<RateLimitResponse, Error> {
        let answer = self.decide(asked, gives_up).await;
        if let Err(error) = &answer {
            self.count(error);
            tracing::debug!(%error, "no answer to a rate-limit request");
        }
        answer
    }

    fn count(&self, error: &Error) {
        match error {
            Error::Limiter(limiter::Error::Store(_)) => self.metrics.redis_errors.inc(),
            Error::Invalid(_) | Error::Limiter(_) => self.metrics.service_errors.inc(),
        }
    }

    async fn decide(
        &self,
        asked: &RateLimitRequest,
        gives_up: Option<Instant>,
    ) -> Result<RateLimitResponse, Error> {
        let request = convert::request(asked)?;
        let decided = self.limiter.decide(&request, gives_up).await?;
        Ok(respond::response(asked, (&decided).into(), &self.options))
    }
}

#[tonic::async_trait]
impl RateLimitService for RateLimit {
    async fn should_rate_limit(
        &self,
        request: tonic::Request<RateLimitRequest>,
    ) -> Result<tonic::Response<RateLimitResponse>, tonic::Status> {
        let started = Instant::now();
        let gives_up = timeout::of(request.metadata()).and_then(|wait| started.checked_add(wait));
        let answer = self.answer(request.get_ref(), gives_up).await;
        self.metrics.request_answered(started.elapsed());
        Ok(tonic::Response::new(answer?))
    }
}

impl From<Error> for tonic::Status {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Invalid(_)
            | Error::Limiter(
                limiter::Error::EmptyDomain
                | limiter::Error::NoDescriptors
                | limiter::Error::OverrideTooLong,
            ) => Self::invalid_argument(text),
            Error::Limiter(limiter::Error::NoPolicies | limiter::Error::Store(_)) => {
                Self::unavailable(text)
            }
        }
    }
}

#[cfg(test)]
mod tests;
