//! The direct API: operations and leases for services that are not behind Envoy, or check fences
//! themselves. Its contract stands in `envoy/proto/tidegate/v1`.

mod idempotency;
mod leases;
pub mod proto;
mod read;
#[cfg(test)]
mod tests;

use crate::clock::Clock;
use crate::idempotency::{Records, RecordsError};
use proto::idempotency_server::IdempotencyServer;
use proto::leases_server::LeasesServer;
use std::sync::Arc;
use tonic::Status;

/// The direct API.
#[derive(Clone, Debug)]
pub struct DirectApi {
    records: Arc<Records>,
    clock: Arc<dyn Clock>,
}

/// Largest message: the largest answer, and what is around it.
const MAX_MESSAGE: usize = read::MAX_ANSWER + (64 << 10);

impl DirectApi {
    /// An API to these records; the clock dates answers.
    pub fn new(records: Arc<Records>, clock: Arc<dyn Clock>) -> Self {
        Self { records, clock }
    }

    /// `tidegate.v1.Idempotency` as a gRPC server takes it.
    pub fn idempotency(&self) -> IdempotencyServer<Self> {
        IdempotencyServer::new(self.clone()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// `tidegate.v1.Leases` as a gRPC server takes it.
    pub fn leases(&self) -> LeasesServer<Self> {
        LeasesServer::new(self.clone()).max_decoding_message_size(MAX_MESSAGE)
    }
}

/// What a store that could not decide is to a caller. Its text names nothing of the store.
fn undecided(error: RecordsError) -> Status {
    tracing::debug!(%error, "no answer to a direct call");
    Status::unavailable(error.to_string())
}
