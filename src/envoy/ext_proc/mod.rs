//! The `ext_proc` service: an idempotency filter for Envoy.
//!
//! Envoy opens a stream for each request and sends its headers. A request without a key is let go
//! with one reply. For one with a key the reply asks for its body, then for the answer's headers, and
//! if the answer is to be kept, for its body. The last of these is replied to only when the outcome
//! is stored, so that no client has an answer that its retry would not get.

mod convert;
mod exchange;
mod replies;
mod reply;

use super::Caller;
use crate::idempotency::Protection;
use envoy_types::pb::envoy::service::ext_proc::v3::ProcessingRequest;
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_server::{
    ExternalProcessor, ExternalProcessorServer,
};
use exchange::Exchange;
use replies::Replies;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::{Request, Response, Status, Streaming};

/// Largest message. Envoy's buffer limit must be below it: a body that is larger than a policy
/// allows is to be refused, not to end its stream.
pub const MAX_MESSAGE: usize = 16 << 20;

/// The service.
#[derive(Debug)]
pub struct ExtProc {
    protection: Arc<Protection>,
    tasks: TaskTracker,
    cut: CancellationToken,
    body_within: Duration,
    /// The name that the certificate of whoever calls must hold.
    envoy: Option<Box<str>>,
    /// Whether anybody has ever been refused for that.
    refused: Arc<AtomicBool>,
    /// Whether Envoy has ever sent a body.
    body_came: Arc<AtomicBool>,
}

/// How long the body of a request with a key may take. Envoy also sends none at all when it could
/// not hold what came before we asked for it (envoyproxy/envoy#39365).
const BODY_WITHIN: Duration = Duration::from_secs(60);

impl ExtProc {
    /// A service whose streams `tasks` tracks and `cut` ends, each with an error.
    pub fn new(protection: Arc<Protection>, tasks: TaskTracker, cut: CancellationToken) -> Self {
        Self {
            protection,
            tasks,
            cut,
            body_within: BODY_WITHIN,
            envoy: None,
            refused: Arc::default(),
            body_came: Arc::default(),
        }
    }

    /// The same, where the body of a request with a key may take so long.
    #[must_use]
    pub fn with_body_within(self, body_within: Duration) -> Self {
        Self { body_within, ..self }
    }

    /// The same for whoever shows a certificate that holds this name, if there is one, and for nobody
    /// else: who speaks for Envoy says who callers are.
    #[must_use]
    pub fn only_for(self, envoy: Option<&str>) -> Self {
        Self { envoy: envoy.map(Into::into), ..self }
    }

    /// The service as a gRPC server takes it.
    pub fn grpc(self) -> ExternalProcessorServer<Self> {
        ExternalProcessorServer::new(self).max_decoding_message_size(MAX_MESSAGE)
    }
}

impl ExtProc {
    fn is_for(&self, caller: Option<&Caller>) -> bool {
        let Some(envoy) = &self.envoy else { return true };
        caller.is_some_and(|caller| caller.is(envoy))
    }

    fn refuse(&self) -> Status {
        const WHY: &str = "the certificate does not hold the name in IDEMPOTENCY_CLIENT_TLS_SAN";
        if !self.refused.swap(true, Ordering::Relaxed) {
            tracing::warn!("idempotency: a caller of the filter is refused, the first one: {WHY}");
        }
        Status::permission_denied(WHY)
    }
}

#[tonic::async_trait]
impl ExternalProcessor for ExtProc {
    type ProcessStream = Replies;

    async fn process(
        &self,
        request: Request<Streaming<ProcessingRequest>>,
    ) -> Result<Response<Replies>, Status> {
        if !self.is_for(request.extensions().get()) {
            return Err(self.refuse());
        }
        let (sender, replies) = replies::channel();
        let (protection, cut) = (Arc::clone(&self.protection), self.cut.clone());
        let body_came = Arc::clone(&self.body_came);
        let exchange = Exchange::new(protection, sender, cut, self.body_within, body_came);
        self.tasks.spawn(exchange.run(request.into_inner()));
        Ok(Response::new(replies))
    }
}
