//! The direct API on the filter's port: off unless it is wanted, and the same operations.

use crate::scene::NO_LIMITS;
use crate::support::eventually;
use crate::support::grpc::channel;
use crate::support::redis::Redis;
use crate::support::tidegate::Tidegate;
use prost::Message;
use prost_types::Duration;
use tidegate::envoy::direct_proto::acquire_response::Result as Acquired;
use tidegate::envoy::direct_proto::claim_response::Result as Claimed;
use tidegate::envoy::direct_proto::complete_request::Outcome;
use tidegate::envoy::direct_proto::{
    AcquireRequest, AcquireResponse, Answer, ClaimRequest, ClaimResponse, CompleteRequest,
    CompleteResponse, Header, LeaseResult, OnLeaseExpired, ReleaseLeaseRequest,
    ReleaseLeaseResponse, ReleaseRequest, ReleaseResponse, RenewLeaseRequest, RenewLeaseResponse,
    RenewRequest, RenewResponse, WriteResult,
};
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

/// A client.
pub struct Api(pub Channel);

impl Api {
    async fn of(tidegate: &Tidegate) -> Self {
        Self(channel(tidegate.address_of("idempotency").await).await)
    }

    async fn call<A: Message + Default + 'static>(
        &self,
        method: &str,
        asked: impl Message + 'static,
    ) -> Result<A, Status> {
        let mut client = Grpc::new(self.0.clone());
        client.ready().await.unwrap();
        let path = format!("/tidegate.v1.{method}").parse().unwrap();
        Ok(client.unary(Request::new(asked), path, ProstCodec::default()).await?.into_inner())
    }

    pub async fn claim(&self, asked: ClaimRequest) -> Result<Claimed, Status> {
        let told: ClaimResponse = self.call("Idempotency/Claim", asked).await?;
        Ok(told.result.unwrap())
    }

    /// The fence of a claim that must be given.
    pub async fn fence(&self, asked: ClaimRequest) -> u64 {
        let told = self.claim(asked).await.unwrap();
        let Claimed::Claimed(given) = told else { panic!("{told:?}") };
        given.fence
    }

    pub async fn complete(&self, asked: CompleteRequest) -> Result<WriteResult, Status> {
        let told: CompleteResponse = self.call("Idempotency/Complete", asked).await?;
        Ok(told.result())
    }

    async fn renew(&self, asked: RenewRequest) -> Result<WriteResult, Status> {
        let told: RenewResponse = self.call("Idempotency/Renew", asked).await?;
        Ok(told.result())
    }

    async fn release(&self, asked: ReleaseRequest) -> Result<WriteResult, Status> {
        let told: ReleaseResponse = self.call("Idempotency/Release", asked).await?;
        Ok(told.result())
    }

    async fn acquire(&self, owner: u8, seconds: i64) -> Acquired {
        let asked = AcquireRequest {
            namespace: "jobs".to_owned(),
            name: "nightly".to_owned(),
            owner: vec![owner; 16],
            lease: lasting(seconds),
        };
        let told: AcquireResponse = self.call("Leases/Acquire", asked).await.unwrap();
        told.result.unwrap()
    }

    async fn renew_lease(&self, owner: u8, fence: u64) -> Result<LeaseResult, Status> {
        let asked = RenewLeaseRequest {
            namespace: "jobs".to_owned(),
            name: "nightly".to_owned(),
            owner: vec![owner; 16],
            fence,
            lease: lasting(1),
        };
        let told: RenewLeaseResponse = self.call("Leases/Renew", asked).await?;
        Ok(told.result())
    }

    async fn release_lease(&self, owner: u8, fence: u64) -> LeaseResult {
        let asked = ReleaseLeaseRequest {
            namespace: "jobs".to_owned(),
            name: "nightly".to_owned(),
            owner: vec![owner; 16],
            fence,
        };
        let told: ReleaseLeaseResponse = self.call("Leases/Release", asked).await.unwrap();
        told.result()
    }

    /// What reflection answers.
    async fn reflect(&self, question: MessageRequest) -> Result<MessageResponse, Status> {
        let question =
            ServerReflectionRequest { host: String::new(), message_request: Some(question) };
        let mut client = ServerReflectionClient::new(self.0.clone());
        let answers = client.server_reflection_info(tokio_stream::once(question)).await?;
        let answer: ServerReflectionResponse =
            answers.into_inner().message().await?.ok_or(Status::unknown("no answer"))?;
        Ok(answer.message_response.unwrap())
    }
}

#[expect(clippy::unnecessary_wraps, reason = "as the field wants it")]
fn lasting(seconds: i64) -> Option<Duration> {
    Some(Duration { seconds, nanos: 0 })
}

/// A claim of one operation.
pub fn claim(namespace: &str, owner: u8) -> ClaimRequest {
    ClaimRequest {
        namespace: namespace.to_owned(),
        key: "order-1".to_owned(),
        owner: vec![owner; 16],
        fingerprint: "10 EUR".to_owned(),
        lease: lasting(60),
        retention: lasting(600),
        ..ClaimRequest::default()
    }
}

/// Its completion.
pub fn completion(namespace: &str, owner: u8, fence: u64) -> CompleteRequest {
    let headers = vec![Header { name: "location".to_owned(), value: b"/p/1".to_vec() }];
    let answer = Answer { status: 201, headers, body: b"paid".to_vec() };
    CompleteRequest {
        namespace: namespace.to_owned(),
        key: "order-1".to_owned(),
        owner: vec![owner; 16],
        fence,
        retention: None,
        outcome: Some(Outcome::Answer(answer)),
    }
}

fn renewal(owner: u8, fence: u64) -> RenewRequest {
    RenewRequest {
        namespace: "shop".to_owned(),
        key: "order-1".to_owned(),
        owner: vec![owner; 16],
        fence,
        lease: None,
        retention: None,
    }
}

fn giving_back(owner: u8, fence: u64) -> ReleaseRequest {
    ReleaseRequest {
        namespace: "shop".to_owned(),
        key: "order-1".to_owned(),
        owner: vec![owner; 16],
        fence,
    }
}

const ADDRESS: (&str, &str) = ("IDEMPOTENCY_ADDR", "127.0.0.1:0");
const API: [(&str, &str); 2] = [ADDRESS, ("IDEMPOTENCY_API", "true")];

#[tokio::test]
async fn the_direct_api_is_served_if_it_is_wanted() {
    let tidegate = Tidegate::start_with(NO_LIMITS, &API).await;
    assert!(Api::of(&tidegate).await.fence(claim("shop", 1)).await > 0);

    let filter = [ADDRESS, ("IDEMPOTENCY_CONFIG", "config/idempotency.yaml")];
    let tidegate = Tidegate::start_with(NO_LIMITS, &filter).await;
    let api = Api::of(&tidegate).await;
    assert_eq!(api.claim(claim("shop", 1)).await.unwrap_err().code(), Code::Unimplemented);
    let error = api.reflect(MessageRequest::ListServices(String::new())).await.unwrap_err();
    assert_eq!(error.code(), Code::Unimplemented);
}

#[tokio::test]
async fn reflection_tells_of_the_direct_api() {
    let tidegate = Tidegate::start_with(NO_LIMITS, &API).await;
    let api = Api::of(&tidegate).await;
    let list = api.reflect(MessageRequest::ListServices(String::new())).await.unwrap();
    let MessageResponse::ListServicesResponse(list) = list else { panic!("{list:?}") };
    for name in ["tidegate.v1.Idempotency", "tidegate.v1.Leases"] {
        assert!(list.service.iter().any(|service| service.name == name), "{list:?}");
        let file = api.reflect(MessageRequest::FileContainingSymbol(name.to_owned())).await;
        let Ok(MessageResponse::FileDescriptorResponse(files)) = file else { panic!("{file:?}") };
        assert!(!files.file_descriptor_proto.is_empty(), "{name}");
    }
}

/// Both stores: the API's terms must not depend on which it is.
#[tokio::test]
async fn an_operation_is_claimed_renewed_completed_and_told_of() {
    let redis = Redis::start().await;
    let address = redis.address();
    for store in [&[][..], &[("REDIS_URL", address.as_str())]] {
        let tidegate = Tidegate::start_with(NO_LIMITS, &[&API, store].concat()).await;
        let api = Api::of(&tidegate).await;
        let fence = api.fence(claim("shop", 1)).await;
        assert_eq!(api.fence(claim("shop", 1)).await, fence, "claiming twice is claiming once");
        let Claimed::InProgress(progress) = api.claim(claim("shop", 2)).await.unwrap() else {
            panic!("not in progress")
        };
        assert!((1..=60).contains(&progress.lease_left.unwrap().seconds), "{progress:?}");
        assert_eq!(api.renew(renewal(1, fence)).await.unwrap(), WriteResult::Done);
        assert_eq!(api.renew(renewal(2, fence)).await.unwrap(), WriteResult::Stale);
        assert_eq!(api.renew(renewal(1, fence + 1)).await.unwrap(), WriteResult::Stale);
        let other = ClaimRequest { fingerprint: "20 EUR".to_owned(), ..claim("shop", 2) };
        assert!(matches!(api.claim(other).await.unwrap(), Claimed::Mismatch(_)));

        assert_eq!(api.release(giving_back(2, fence)).await.unwrap(), WriteResult::Stale);
        assert_eq!(api.release(giving_back(1, fence)).await.unwrap(), WriteResult::Done);
        assert_eq!(api.release(giving_back(1, fence)).await.unwrap(), WriteResult::Already);
        let second = api.fence(claim("shop", 2)).await;
        assert!(second > fence, "{second} after {fence}");
        let complete = async |owner, fence| api.complete(completion("shop", owner, fence)).await;
        assert_eq!(complete(1, fence).await.unwrap(), WriteResult::Stale);
        assert_eq!(complete(2, second).await.unwrap(), WriteResult::Done);
        assert_eq!(complete(2, second).await.unwrap(), WriteResult::Already);
        let Claimed::Completed(told) = api.claim(claim("shop", 3)).await.unwrap() else {
            panic!("not completed")
        };
        assert_eq!(told.answer.map(Outcome::Answer), completion("shop", 2, second).outcome);
        let never = CompleteRequest { key: "never".to_owned(), ..completion("shop", 1, 1) };
        assert_eq!(api.complete(never).await.unwrap(), WriteResult::Missing);
    }
}

#[tokio::test]
async fn a_claim_whose_lease_ended_is_unknown_or_taken_over() {
    let tidegate = Tidegate::start_with(NO_LIMITS, &API).await;
    let api = Api::of(&tidegate).await;
    let fence = api.fence(ClaimRequest { lease: lasting(1), ..claim("shop", 1) }).await;
    eventually("the end of the lease", async || {
        let told = api.claim(claim("shop", 2)).await.unwrap();
        matches!(told, Claimed::OutcomeUnknown(_)).then_some(())
    })
    .await;
    let takeover =
        ClaimRequest { on_lease_expired: OnLeaseExpired::Takeover.into(), ..claim("shop", 2) };
    let Claimed::Claimed(given) = api.claim(takeover).await.unwrap() else { panic!("not given") };
    assert!(given.taken_over && given.fence > fence, "{given:?} after {fence}");
    let late = api.complete(completion("shop", 1, fence)).await.unwrap();
    assert_eq!(late, WriteResult::Stale);
}

#[tokio::test]
async fn a_lease_has_one_holder_at_a_time() {
    let tidegate = Tidegate::start_with(NO_LIMITS, &API).await;
    let api = Api::of(&tidegate).await;
    let Acquired::Acquired(first) = api.acquire(1, 60).await else { panic!("not free") };
    let Acquired::Held(held) = api.acquire(2, 60).await else { panic!("not held") };
    assert!(held.lease_left.unwrap().seconds <= 60);
    assert_eq!(api.release_lease(2, first.fence).await, LeaseResult::Lost);
    assert_eq!(api.release_lease(1, first.fence).await, LeaseResult::Done);
    assert_eq!(api.release_lease(1, first.fence).await, LeaseResult::Released);
    let Acquired::Acquired(second) = api.acquire(2, 60).await else { panic!("not free") };
    assert!(!second.taken_over && second.fence > first.fence, "{second:?} after {first:?}");
    assert_eq!(api.renew_lease(1, first.fence).await.unwrap(), LeaseResult::Lost);
    assert_eq!(api.renew_lease(2, second.fence).await.unwrap(), LeaseResult::Done);
    let third = eventually("the end of the lease", async || match api.acquire(3, 60).await {
        Acquired::Acquired(third) => Some(third),
        Acquired::Held(_) => None,
    })
    .await;
    assert!(third.taken_over && third.fence > second.fence, "{third:?} after {second:?}");
    assert_eq!(api.renew_lease(2, second.fence).await.unwrap(), LeaseResult::Lost);
}

#[tokio::test]
async fn what_is_asked_wrongly_is_refused_with_what_was_expected() {
    let tidegate = Tidegate::start_with(NO_LIMITS, &API).await;
    let api = Api::of(&tidegate).await;
    let faulty = [
        (ClaimRequest { key: String::new(), ..claim("shop", 1) }, "key: found 0 bytes"),
        (ClaimRequest { owner: vec![1; 15], ..claim("shop", 1) }, "owner: found 15 bytes"),
        (ClaimRequest { lease: lasting(0), ..claim("shop", 1) }, "lease: found 0s"),
        (claim("", 1), "namespace: found 0 bytes"),
    ];
    for (asked, expected) in faulty {
        let error = api.claim(asked).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        assert!(error.message().starts_with(expected), "{error}");
    }
    for error in [
        api.complete(CompleteRequest { outcome: None, ..completion("shop", 1, 1) }).await.err(),
        api.renew(renewal(1, 0)).await.err(),
        api.release(giving_back(1, 0)).await.err(),
        api.renew_lease(1, 0).await.err(),
    ] {
        assert_eq!(error.map(|error| error.code()), Some(Code::InvalidArgument));
    }
    let large = Answer { status: 200, headers: Vec::new(), body: vec![0; 3 << 20] };
    let large =
        CompleteRequest { outcome: Some(Outcome::Answer(large)), ..completion("shop", 1, 1) };
    assert_eq!(api.complete(large).await.unwrap_err().code(), Code::OutOfRange);
    assert!(api.fence(claim("shop", 1)).await > 0, "it serves on");
}

#[tokio::test]
async fn without_redis_nothing_is_given() {
    let mut redis = Redis::start().await;
    let address = redis.address();
    let settings = [&API[..], &[("REDIS_URL", address.as_str())]].concat();
    let tidegate = Tidegate::start_with(NO_LIMITS, &settings).await;
    let api = Api::of(&tidegate).await;
    api.fence(claim("shop", 1)).await;
    redis.process.kill();
    let error = api.claim(claim("shop", 2)).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    assert!(!error.message().contains(&address), "{error}");
    redis.restart().await;
    eventually("Redis to be back", async || api.claim(claim("shop", 2)).await.ok()).await;
}
