//! The direct API on the filter's port: off unless it is wanted, and the same operations.

use crate::support::grpc::channel;
use crate::support::tidegate::Tidegate;
use prost_types::Duration;
use tidegate::envoy::direct_proto::claim_response::Result as Claimed;
use tidegate::envoy::direct_proto::{ClaimRequest, ClaimResponse};
use tonic::client::Grpc;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

async fn claim(tidegate: &Tidegate) -> Result<ClaimResponse, Status> {
    let server = tidegate.address_of("idempotency").await;
    let mut client = Grpc::new(channel(server).await);
    client.ready().await.unwrap();
    let minutes = |n: i64| Some(Duration { seconds: 60 * n, nanos: 0 });
    let asked = ClaimRequest {
        namespace: "shop".to_owned(),
        key: "order-1".to_owned(),
        owner: vec![7; 16],
        fingerprint: "1:abc".to_owned(),
        lease: minutes(1),
        retention: minutes(10),
        ..ClaimRequest::default()
    };
    let path = "/tidegate.v1.Idempotency/Claim".parse().unwrap();
    let answer = client.unary(Request::new(asked), path, ProstCodec::default()).await?;
    Ok(answer.into_inner())
}

#[tokio::test]
async fn the_direct_api_is_served_if_it_is_wanted() {
    let address = ("IDEMPOTENCY_ADDR", "127.0.0.1:0");
    let api = [address, ("IDEMPOTENCY_API", "true")];
    let tidegate = Tidegate::start_with(crate::scene::NO_LIMITS, &api).await;
    let claimed = claim(&tidegate).await.unwrap();
    assert!(matches!(claimed.result, Some(Claimed::Claimed(_))), "{claimed:?}");

    let filter = [address, ("IDEMPOTENCY_CONFIG", "config/idempotency.yaml")];
    let tidegate = Tidegate::start_with(crate::scene::NO_LIMITS, &filter).await;
    assert_eq!(claim(&tidegate).await.unwrap_err().code(), Code::Unimplemented);
}
