//! `tidegate.v1.Leases`: operations that are never completed, only held and given back.

use super::idempotency::duration;
use super::proto::acquire_response::{Acquired, Held, Result as Told};
use super::proto::leases_server::Leases;
use super::proto::{
    AcquireRequest, AcquireResponse, LeaseResult, ReleaseLeaseRequest, ReleaseLeaseResponse,
    RenewLeaseRequest, RenewLeaseResponse,
};
use super::read::{self, Kind, Named};
use super::{DirectApi, undecided};
use crate::idempotency::{Claimed, Fence, Written};
use tonic::{Request, Response, Status};

#[tonic::async_trait]
impl Leases for DirectApi {
    async fn acquire(
        &self,
        request: Request<AcquireRequest>,
    ) -> Result<Response<AcquireResponse>, Status> {
        let claim = read::acquire(request.get_ref(), request.extensions())?;
        let claimed = self.records.claim(&claim).await.map_err(undecided)?;
        Ok(Response::new(AcquireResponse { result: Some(told(&claimed)?) }))
    }

    async fn renew(
        &self,
        request: Request<RenewLeaseRequest>,
    ) -> Result<Response<RenewLeaseResponse>, Status> {
        let asked = request.get_ref();
        let token = asked.named().token(request.extensions(), asked.fence)?;
        let lease = read::lease(asked.lease.as_ref())?;
        let retention = read::lease_retention(lease);
        let written = self.records.renew(&token, lease, retention).await.map_err(undecided)?;
        Ok(Response::new(RenewLeaseResponse { result: result(written) }))
    }

    async fn release(
        &self,
        request: Request<ReleaseLeaseRequest>,
    ) -> Result<Response<ReleaseLeaseResponse>, Status> {
        let asked = request.get_ref();
        let token = asked.named().token(request.extensions(), asked.fence)?;
        let written = self.records.release(&token).await.map_err(undecided)?;
        Ok(Response::new(ReleaseLeaseResponse { result: result(written) }))
    }
}

fn told(claimed: &Claimed) -> Result<Told, Status> {
    let acquired =
        |fence: &Fence, taken_over| Told::Acquired(Acquired { fence: fence.0, taken_over });
    match claimed {
        Claimed::First { fence } => Ok(acquired(fence, false)),
        Claimed::TakenOver { fence } => Ok(acquired(fence, true)),
        Claimed::InProgress { lease_left } => {
            Ok(Told::Held(Held { lease_left: duration(*lease_left) }))
        }
        Claimed::Unverifiable => {
            Err(Status::aborted("the lease was recorded by another version; ask again later"))
        }
        // Nobody completes a lease, and all have one fingerprint.
        Claimed::Unknown { .. }
        | Claimed::Completed { .. }
        | Claimed::NotStored(_)
        | Claimed::Mismatch => Err(Status::internal("what is remembered is not a lease")),
    }
}

fn result(written: Written) -> i32 {
    let result = match written {
        Written::Done => LeaseResult::Done,
        Written::Stale | Written::Missing => LeaseResult::Lost,
        Written::Already => LeaseResult::Released,
    };
    result.into()
}

/// Names the lease that each request is about.
macro_rules! names_a_lease {
    ($($request:ty)*) => {$(
        impl $request {
            pub(super) fn named(&self) -> Named<'_> {
                Named {
                    kind: Kind::Lease,
                    namespace: &self.namespace,
                    field: "name",
                    name: &self.name,
                    owner: &self.owner,
                }
            }
        }
    )*};
}

names_a_lease!(AcquireRequest RenewLeaseRequest ReleaseLeaseRequest);
