//! Requests and answers without an end in sight: they pass as they come, or are given up in time.

use crate::defects;
use crate::scene::{self, NO_LIMITS, POLICY, Scene, Setting};
use crate::support::http;
use crate::support::tidegate::Tidegate;
use ::http::{Request, Response};
use futures_util::StreamExt;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::client::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tidegate::clock::{Clock, SystemClock};
use tidegate::idempotency::{MemoryBounds, Records};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

/// A service that answers with what it is sent, while it is sent it.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = service_fn(async |request: Request<Incoming>| {
                Ok::<_, Infallible>(Response::new(request.into_body()))
            });
            let serving = hyper::server::conn::http1::Builder::new();
            tokio::spawn(serving.serve_connection(TokioIo::new(stream), answer));
        }
    });
    address
}

/// Sends the pieces of a request's body.
type Pieces = mpsc::Sender<&'static str>;

/// A call of gRPC whose body is still to come, and its answer.
async fn call(
    server: SocketAddr,
    key: Option<&str>,
) -> (Pieces, impl Future<Output = Response<Incoming>>) {
    let (pieces, body) = mpsc::channel(1);
    let mut request =
        Request::post("/pay").header("host", "test").header("content-type", "application/grpc");
    if let Some(key) = key {
        request = request.header("x-user", "ann").header("idempotency-key", key);
    }
    let frame = |text: &'static str| Ok::<_, Infallible>(Frame::data(Bytes::from(text)));
    let body = StreamBody::new(ReceiverStream::new(body).map(frame));
    let request = request.body(body).unwrap();
    let stream = TcpStream::connect(server).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    (pieces, async move { sender.send_request(request).await.unwrap() })
}

#[tokio::test]
async fn a_stream_without_a_key_passes_as_it_comes_in_both_directions() {
    let folder = TempDir::new().unwrap();
    let tidegate = scene::tidegate(&folder, &Setting::default()).await;
    tidegate.ready().await;
    let filter = tidegate.address_of("idempotency").await;
    let envoy = scene::envoy(echo().await, tidegate.grpc, filter, &[]).await;
    let (pieces, answer) = call(envoy.address, None).await;
    pieces.send("one").await.unwrap();
    let mut answer = answer.await;
    for text in ["one", "two"] {
        let come = answer.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(come, text);
        pieces.send("two").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_with_a_key_that_does_not_end_is_given_up_and_claims_nothing() {
    let (envoy, service, _limits) = defects::start(100, 100).await;
    let (pieces, answer) = call(envoy.address, Some("k")).await;
    pieces.send("one").await.unwrap();
    let answer = answer.await;
    assert_eq!((answer.status(), service.n_ran()), (200.try_into().unwrap(), 0));
    assert_eq!(answer.headers()["grpc-status"], "4", "{answer:?}");
    drop(pieces);
    let headers = [("x-user", "ann"), ("idempotency-key", "k")];
    let another = http::ask(envoy.address, "POST", "/pay", &headers, "another").await;
    assert_eq!((another.status, service.n_ran()), (201, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_lets_a_stream_with_a_key_pass_once_it_is_given_up() {
    let policy = POLICY.replace("defaults:", "defaults:\n    shadow: true");
    let bounds = MemoryBounds { max_records: 10, max_bytes: 1 << 20 };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let records = Records::in_memory(bounds, Arc::clone(&clock));
    let filter = defects::filter(records, clock, &policy).await;
    let limits = Tidegate::start(NO_LIMITS).await;
    let envoy = scene::envoy(echo().await, limits.grpc, filter, &[]).await;
    let (pieces, answer) = call(envoy.address, Some("k")).await;
    pieces.send("one").await.unwrap();
    let answer = answer.await;
    assert_eq!((answer.status().as_u16(), answer.headers().get("grpc-status")), (200, None));
    pieces.send("two").await.unwrap();
    drop(pieces);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "onetwo");
}

#[tokio::test]
async fn a_connection_that_may_become_another_is_not_protected() {
    let upgrades = "use_remote_address: true
                upgrade_configs: [{ upgrade_type: websocket }]";
    let changes = vec![("use_remote_address: true", upgrades.to_owned())];
    let scene = Scene::start_with(Setting { changes, ..Setting::default() }).await;
    let upgrade = [("connection", "upgrade"), ("upgrade", "websocket")];
    for n in 1..=2 {
        let answer = scene.post_with("/pay", "k", &upgrade, "").await;
        assert_eq!((answer.status, scene.service.n_ran()), (201, n));
        assert!(!scene.service.ran()[n - 1].headers.contains_key("x-idempotency-fence"));
    }
    // Envoy removes what no connection of its own says.
    assert_eq!(scene.post_with("/pay", "k", &upgrade[1..], "").await.status, 201);
    let retry = scene.post_with("/pay", "k", &upgrade[1..], "").await;
    assert_eq!((retry.header("idempotent-replayed").as_str(), scene.service.n_ran()), ("true", 3));
}

#[tokio::test]
async fn events_begin_as_soon_as_without_the_filter() {
    let scene = Scene::start(POLICY).await;
    // The best of many: a busy machine is no reason.
    let soonest = async |with_key: bool| {
        let mut soonest = Duration::MAX;
        for n in 0..30 {
            let key = format!("key-{n}");
            let headers = [("x-user", "ann"), ("idempotency-key", key.as_str())];
            let headers = if with_key { &headers[..] } else { &headers[..1] };
            let began = Instant::now();
            scene.ask("POST", "/events?n=0", headers, "{}").await;
            soonest = soonest.min(began.elapsed());
        }
        soonest
    };
    let (without, with) = (soonest(false).await, soonest(true).await);
    assert!(with <= without + Duration::from_millis(10), "{with:?}, and {without:?} without a key");
    assert_eq!(scene.count("not_stored_total{reason=\"stream\"}").await, 30);
}
