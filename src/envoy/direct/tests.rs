use super::super::Caller;
use super::proto::claim_response::Result as Told;
use super::proto::*;
use super::*;
use crate::clock::{ManualClock, Micros};
use crate::idempotency::{FailingRecords, Fault, MemoryBounds, MemoryRecords};
use crate::store::StoreError;
use prost_types::Duration;
use tonic::Code;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::service::Routes;
use tonic_prost::ProstCodec;

/// The API as a client sees it, with a clock and a certificate that the test holds.
struct Api {
    direct: DirectApi,
    clock: Arc<ManualClock>,
    caller: Option<Caller>,
}

const BOUNDS: MemoryBounds = MemoryBounds { max_records: 10, max_bytes: 4 << 20 };

impl Api {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Micros::from_secs(1_700_000_000)));
        let records = Arc::new(Records::in_memory(BOUNDS, Arc::clone(&clock) as _));
        let direct = DirectApi::new(records, Arc::clone(&clock) as _);
        Self { direct, clock, caller: Some(Caller::Unnamed) }
    }

    fn later(&self, seconds: u64) {
        self.clock.advance(Micros::from_secs(seconds));
    }

    fn of(&self, certificate: &str) -> Self {
        Self {
            direct: self.direct.clone(),
            clock: Arc::clone(&self.clock),
            caller: Some(Caller::Certified([certificate.into(), "other".into()].into())),
        }
    }

    /// One call over the wire, but without one.
    async fn call<Q, A>(&self, method: &'static str, asked: Q) -> Result<A, Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let caller = self.caller.clone();
        let routes = Routes::new(self.direct.idempotency()).add_service(self.direct.leases());
        let service =
            tower::ServiceExt::map_request(routes, move |mut request: http::Request<_>| {
                if let Some(caller) = &caller {
                    request.extensions_mut().insert(caller.clone());
                }
                request
            });
        let mut client = Grpc::new(service).max_encoding_message_size(usize::MAX);
        client.ready().await.unwrap();
        let path = PathAndQuery::from_static(method);
        let codec = ProstCodec::<Q, A>::default();
        Ok(client.unary(tonic::Request::new(asked), path, codec).await?.into_inner())
    }

    async fn try_claim(&self, asked: ClaimRequest) -> Result<Told, Status> {
        let told: ClaimResponse = self.call("/tidegate.v1.Idempotency/Claim", asked).await?;
        Ok(told.result.unwrap())
    }

    async fn claim(&self, asked: ClaimRequest) -> Told {
        self.try_claim(asked).await.unwrap()
    }

    async fn fence(&self, asked: ClaimRequest) -> u64 {
        let told = self.claim(asked).await;
        let Told::Claimed(given) = told else { panic!("{told:?}") };
        given.fence
    }

    async fn try_complete(&self, asked: CompleteRequest) -> Result<WriteResult, Status> {
        let told: CompleteResponse = self.call("/tidegate.v1.Idempotency/Complete", asked).await?;
        Ok(told.result())
    }

    async fn renew(&self, asked: RenewRequest) -> Result<WriteResult, Status> {
        let told: RenewResponse = self.call("/tidegate.v1.Idempotency/Renew", asked).await?;
        Ok(told.result())
    }

    async fn release(&self, asked: ReleaseRequest) -> Result<WriteResult, Status> {
        let told: ReleaseResponse = self.call("/tidegate.v1.Idempotency/Release", asked).await?;
        Ok(told.result())
    }

    async fn acquire(&self, owner: u8) -> acquire_response::Result {
        let asked = AcquireRequest {
            namespace: "jobs".into(),
            name: "nightly".into(),
            owner: vec![owner; 16],
            lease: seconds(10),
        };
        let told: AcquireResponse = self.call("/tidegate.v1.Leases/Acquire", asked).await.unwrap();
        told.result.unwrap()
    }

    async fn hold(&self, owner: u8) -> u64 {
        match self.acquire(owner).await {
            acquire_response::Result::Acquired(acquired) => acquired.fence,
            acquire_response::Result::Held(held) => panic!("{held:?}"),
        }
    }

    async fn renew_lease(&self, owner: u8, fence: u64) -> LeaseResult {
        let asked = RenewLeaseRequest {
            namespace: "jobs".into(),
            name: "nightly".into(),
            owner: vec![owner; 16],
            fence,
            lease: seconds(10),
        };
        let told: RenewLeaseResponse = self.call("/tidegate.v1.Leases/Renew", asked).await.unwrap();
        told.result()
    }

    async fn release_lease(&self, owner: u8, fence: u64) -> LeaseResult {
        let asked = ReleaseLeaseRequest {
            namespace: "jobs".into(),
            name: "nightly".into(),
            owner: vec![owner; 16],
            fence,
        };
        let told: ReleaseLeaseResponse =
            self.call("/tidegate.v1.Leases/Release", asked).await.unwrap();
        told.result()
    }
}

#[expect(clippy::unnecessary_wraps, reason = "as the field wants it")]
fn seconds(seconds: i64) -> Option<Duration> {
    Some(Duration { seconds, nanos: 0 })
}

fn claim(owner: u8) -> ClaimRequest {
    ClaimRequest {
        namespace: "shop".into(),
        key: "pay-1".into(),
        owner: vec![owner; 16],
        fingerprint: "10 EUR".into(),
        lease: seconds(10),
        ..ClaimRequest::default()
    }
}

fn completion(owner: u8, fence: u64) -> CompleteRequest {
    let headers = vec![Header { name: "location".into(), value: b"/p/1".to_vec() }];
    let answer = Answer { status: 201, headers, body: b"paid".to_vec() };
    CompleteRequest {
        namespace: "shop".into(),
        key: "pay-1".into(),
        owner: vec![owner; 16],
        fence,
        retention: None,
        outcome: Some(complete_request::Outcome::Answer(answer)),
    }
}

#[tokio::test]
async fn an_operation_is_claimed_completed_and_told_to_others() {
    let api = Api::new();
    let fence = api.fence(claim(1)).await;
    assert_eq!(fence, 1_700_000_000_000);
    api.later(4);
    let Told::InProgress(progress) = api.claim(claim(2)).await else { panic!() };
    assert_eq!(progress.lease_left, seconds(6));
    assert_eq!(api.try_complete(completion(1, fence)).await.unwrap(), WriteResult::Done);
    assert_eq!(api.try_complete(completion(1, fence)).await.unwrap(), WriteResult::Already);
    api.later(5);
    let Told::Completed(completed) = api.claim(claim(2)).await else { panic!() };
    assert_eq!(completed.age, seconds(5));
    let Some(complete_request::Outcome::Answer(answer)) = completion(1, fence).outcome else {
        panic!()
    };
    assert_eq!(completed.answer, Some(answer));
    let other = ClaimRequest { fingerprint: "20 EUR".into(), ..claim(2) };
    assert!(matches!(api.claim(other).await, Told::Mismatch(_)));
}

#[tokio::test]
async fn a_lease_that_ended_is_unknown_or_taken_over_and_the_stale_one_writes_nothing() {
    let api = Api::new();
    let fence = api.fence(claim(1)).await;
    api.later(10);
    let Told::OutcomeUnknown(unknown) = api.claim(claim(2)).await else { panic!() };
    assert_eq!(unknown.since.unwrap().seconds, 1_700_000_000);
    let takeover = ClaimRequest { on_lease_expired: OnLeaseExpired::Takeover.into(), ..claim(2) };
    let Told::Claimed(given) = api.claim(takeover).await else { panic!() };
    assert!(given.taken_over && given.fence > fence);
    assert_eq!(api.try_complete(completion(1, fence)).await.unwrap(), WriteResult::Stale);
    let renewal = RenewRequest {
        namespace: "shop".into(),
        key: "pay-1".into(),
        owner: vec![2; 16],
        fence: given.fence,
        lease: seconds(20),
        retention: None,
    };
    assert_eq!(api.renew(renewal).await.unwrap(), WriteResult::Done);
    let Told::InProgress(progress) = api.claim(claim(3)).await else { panic!() };
    assert_eq!(progress.lease_left, seconds(20));
    let release = ReleaseRequest {
        namespace: "shop".into(),
        key: "pay-1".into(),
        owner: vec![2; 16],
        fence: given.fence,
    };
    assert_eq!(api.release(release).await.unwrap(), WriteResult::Done);
    assert!(api.fence(claim(3)).await > given.fence);
}

#[tokio::test]
async fn an_answer_that_is_not_kept_is_told_of() {
    let api = Api::new();
    let fence = api.fence(claim(1)).await;
    let told = NotStored { status: 7, location: Some(b"/p/1".to_vec()) };
    let outcome = Some(complete_request::Outcome::NotStored(told.clone()));
    let asked = CompleteRequest { outcome, ..completion(1, fence) };
    assert_eq!(api.try_complete(asked).await.unwrap(), WriteResult::Done);
    assert_eq!(api.claim(claim(2)).await, Told::NotStored(told));
}

#[tokio::test]
async fn a_certificate_chooses_the_namespace_and_no_other_can_be_named() {
    let api = Api::new();
    let shop = api.of("shop");
    let unnamed = |owner| ClaimRequest { namespace: String::new(), ..claim(owner) };
    let fence = shop.fence(unnamed(1)).await;
    assert!(matches!(api.claim(claim(2)).await, Told::InProgress(_)), "the same namespace");
    assert_eq!(shop.try_complete(completion(1, fence)).await.unwrap(), WriteResult::Done);
    assert!(api.of("other").fence(unnamed(1)).await > 0);
    let status = api.of("other").try_claim(claim(1)).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    let status = api.try_claim(unnamed(1)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let unknown = Api { caller: None, ..Api::new() };
    let status = unknown.try_claim(claim(1)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn what_is_faulty_in_a_claim_is_named() {
    let api = Api::new();
    let long = |n| "x".repeat(n);
    let cases = [
        (ClaimRequest { key: String::new(), ..claim(1) }, "key: found 0 bytes, expected 1 to 255"),
        (ClaimRequest { key: long(256), ..claim(1) }, "key: found 256 bytes, expected 1 to 255"),
        (ClaimRequest { key: "a\nb".into(), ..claim(1) }, "key: found a control character"),
        (ClaimRequest { namespace: long(256), ..claim(1) }, "namespace: found 256 bytes"),
        (ClaimRequest { owner: vec![1; 15], ..claim(1) }, "owner: found 15 bytes, expected 16"),
        (ClaimRequest { fingerprint: long(201), ..claim(1) }, "fingerprint: found 201 bytes"),
        (ClaimRequest { lease: seconds(0), ..claim(1) }, "lease: found 0s, expected 1 s to 3600 s"),
        (ClaimRequest { lease: seconds(-5), ..claim(1) }, "lease: found -5s, expected 1 s"),
        (ClaimRequest { lease: seconds(i64::MIN), ..claim(1) }, "lease: found -4"),
        (ClaimRequest { lease: seconds(i64::MAX), ..claim(1) }, "lease: found 4"),
        (ClaimRequest { lease: seconds(3601), ..claim(1) }, "lease: found 3601s, expected 1 s"),
        (ClaimRequest { retention: seconds(59), ..claim(1) }, "retention: found 59s, expected 60"),
        (
            ClaimRequest { lease: seconds(60), retention: seconds(119), ..claim(1) },
            "retention: found 119 s, expected at least two leases, 120 s",
        ),
        (ClaimRequest { on_lease_expired: 9, ..claim(1) }, "on_lease_expired: found 9, expected"),
    ];
    for (asked, expected) in cases {
        let status = api.try_claim(asked).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{expected}");
        assert!(status.message().starts_with(expected), "{} for {expected}", status.message());
    }
    let longest = ClaimRequest { key: long(255), fingerprint: long(200), ..claim(1) };
    assert!(api.fence(longest).await > 0);
}

#[tokio::test]
async fn what_is_faulty_in_a_completion_is_named_and_sizes_are_bounded() {
    let api = Api::new();
    let fence = api.fence(claim(1)).await;
    let answer = |n_bytes, n_headers, status| {
        let header = Header { name: "a".into(), value: Vec::new() };
        let headers = vec![header; n_headers];
        let answer = Answer { status, headers, body: vec![0; n_bytes] };
        let outcome = Some(complete_request::Outcome::Answer(answer));
        CompleteRequest { outcome, ..completion(1, fence) }
    };
    for (asked, expected) in [
        (CompleteRequest { outcome: None, ..completion(1, fence) }, "outcome: found none"),
        (completion(1, 0), "fence: found 0"),
        (answer(0, 0, 65_536), "status: found 65536"),
        (answer(0, 257, 200), "headers: found 257"),
        (answer((1 << 20) + 1, 0, 200), "answer: found 1048577 bytes, expected at most 1048576"),
    ] {
        let status = api.try_complete(asked).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{expected}");
        assert!(status.message().starts_with(expected), "{} for {expected}", status.message());
    }
    let status = api.try_complete(answer(2 << 20, 0, 200)).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "refused before it is read");
    assert_eq!(api.try_complete(answer(1 << 20, 0, 200)).await.unwrap(), WriteResult::Done);
}

#[tokio::test]
async fn a_store_that_cannot_decide_is_unavailable() {
    let clock = Arc::new(ManualClock::at(Micros::from_secs(1)));
    let failing = FailingRecords::new(MemoryRecords::new(BOUNDS, Arc::clone(&clock) as _));
    failing.meet([Some(Fault::Refused(StoreError::BreakerOpen.into()))]);
    let direct = DirectApi::new(Arc::new(Records::failing(failing)), Arc::clone(&clock) as _);
    let api = Api { direct, clock, caller: Some(Caller::Unnamed) };
    let status = api.try_claim(claim(1)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(api.fence(claim(1)).await > 0);
}

#[tokio::test]
async fn a_lease_has_one_holder_and_its_fence_grows() {
    let api = Api::new();
    let first = api.hold(1).await;
    let acquire_response::Result::Held(held) = api.acquire(2).await else { panic!() };
    assert_eq!(held.lease_left, seconds(10));
    assert_eq!(api.hold(1).await, first, "its holder has it");
    assert_eq!(api.release_lease(2, first).await, LeaseResult::Lost, "only its holder releases");
    assert_eq!(api.release_lease(1, first).await, LeaseResult::Done);
    assert_eq!(api.release_lease(1, first).await, LeaseResult::Released);
    let second = api.hold(2).await;
    assert!(second > first);
    assert_eq!(api.renew_lease(1, first).await, LeaseResult::Lost);
    api.later(9);
    assert_eq!(api.renew_lease(2, second).await, LeaseResult::Done);
    api.later(9);
    assert!(matches!(api.acquire(3).await, acquire_response::Result::Held(_)));
    api.later(1);
    let acquire_response::Result::Acquired(third) = api.acquire(3).await else { panic!() };
    assert!(third.taken_over && third.fence > second);
    assert_eq!(api.renew_lease(2, second).await, LeaseResult::Lost);
}

#[tokio::test]
async fn a_lease_and_an_operation_of_one_name_are_two() {
    let api = Api::new();
    let asked = ClaimRequest { namespace: "jobs".into(), key: "nightly".into(), ..claim(1) };
    api.fence(asked).await;
    api.hold(2).await;
}
