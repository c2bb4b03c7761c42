//! `tidegate.v1.Idempotency`.

use super::proto::claim_response::{
    Claimed as Given, Completed, InProgress, Mismatch, OutcomeUnknown, Result as Told, Unverifiable,
};
use super::proto::idempotency_server::Idempotency;
use super::proto::{
    Answer, ClaimRequest, ClaimResponse, CompleteRequest, CompleteResponse, Header, NotStored,
    ReleaseRequest, ReleaseResponse, RenewRequest, RenewResponse, WriteResult,
};
use super::read::{self, Kind, Named};
use super::{DirectApi, undecided};
use crate::clock::Micros;
use crate::idempotency::{Claimed, StoredAnswer, Written};
use prost_types::Timestamp;
use std::time::Duration;
use tonic::{Request, Response, Status};

#[tonic::async_trait]
impl Idempotency for DirectApi {
    async fn claim(
        &self,
        request: Request<ClaimRequest>,
    ) -> Result<Response<ClaimResponse>, Status> {
        let claim = read::claim(request.get_ref(), request.extensions())?;
        let claimed = self.records.claim(&claim).await.map_err(undecided)?;
        Ok(Response::new(ClaimResponse { result: Some(told(claimed)) }))
    }

    async fn renew(
        &self,
        request: Request<RenewRequest>,
    ) -> Result<Response<RenewResponse>, Status> {
        let asked = request.get_ref();
        let token = asked.named().token(request.extensions(), asked.fence)?;
        let (lease, retention) = read::terms(asked.lease.as_ref(), asked.retention.as_ref())?;
        let written = self.records.renew(&token, lease, retention).await.map_err(undecided)?;
        Ok(Response::new(RenewResponse { result: result(written) }))
    }

    async fn complete(
        &self,
        request: Request<CompleteRequest>,
    ) -> Result<Response<CompleteResponse>, Status> {
        let (_, extensions, asked) = request.into_parts();
        let token = asked.named().token(&extensions, asked.fence)?;
        let retention = read::retention(asked.retention.as_ref())?;
        let outcome = read::outcome(asked.outcome, self.clock.now())?;
        let written = self.records.complete(&token, &outcome, retention).await;
        Ok(Response::new(CompleteResponse { result: result(written.map_err(undecided)?) }))
    }

    async fn release(
        &self,
        request: Request<ReleaseRequest>,
    ) -> Result<Response<ReleaseResponse>, Status> {
        let asked = request.get_ref();
        let token = asked.named().token(request.extensions(), asked.fence)?;
        let written = self.records.release(&token).await.map_err(undecided)?;
        Ok(Response::new(ReleaseResponse { result: result(written) }))
    }
}

fn told(claimed: Claimed) -> Told {
    match claimed {
        Claimed::First { fence } => Told::Claimed(Given { fence: fence.0, taken_over: false }),
        Claimed::TakenOver { fence } => Told::Claimed(Given { fence: fence.0, taken_over: true }),
        Claimed::InProgress { lease_left } => {
            Told::InProgress(InProgress { lease_left: duration(lease_left) })
        }
        Claimed::Unknown { since } => {
            Told::OutcomeUnknown(OutcomeUnknown { since: Some(timestamp(since)) })
        }
        Claimed::Completed { answer, age } => {
            Told::Completed(Completed { answer: Some(kept(&answer)), age: duration(age) })
        }
        Claimed::NotStored(told) => {
            Told::NotStored(NotStored { status: told.status.into(), location: told.location })
        }
        Claimed::Mismatch => Told::Mismatch(Mismatch {}),
        Claimed::Unverifiable => Told::Unverifiable(Unverifiable {}),
    }
}

fn kept(answer: &StoredAnswer) -> Answer {
    let headers = answer.headers.iter();
    let headers =
        headers.map(|(name, value)| Header { name: (**name).to_owned(), value: value.clone() });
    Answer { status: answer.status.into(), headers: headers.collect(), body: answer.body.clone() }
}

fn result(written: Written) -> i32 {
    let result = match written {
        Written::Done => WriteResult::Done,
        Written::Stale => WriteResult::Stale,
        Written::Already => WriteResult::Already,
        Written::Missing => WriteResult::Missing,
    };
    result.into()
}

/// None is too long: leases and retentions are bounded.
pub(super) fn duration(duration: Duration) -> Option<prost_types::Duration> {
    duration.try_into().ok()
}

fn timestamp(at: Micros) -> Timestamp {
    let micros = i64::try_from(at.0).unwrap_or(i64::MAX);
    let nanos = i32::try_from(micros % 1_000_000 * 1000).unwrap_or_default();
    Timestamp { seconds: micros / 1_000_000, nanos }
}

/// Names the operation that each request is about.
macro_rules! names_an_operation {
    ($($request:ty)*) => {$(
        impl $request {
            pub(super) fn named(&self) -> Named<'_> {
                Named {
                    kind: Kind::Operation,
                    namespace: &self.namespace,
                    field: "key",
                    name: &self.key,
                    owner: &self.owner,
                }
            }
        }
    )*};
}

names_an_operation!(ClaimRequest RenewRequest CompleteRequest ReleaseRequest);
