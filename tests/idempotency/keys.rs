//! Keys and bodies that cannot be used, each told so, and none of them run.

use crate::answers::problem;
use crate::scene::{POLICY, Scene, Setting};
use http::{HeaderValue, Request};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// The status of a request with these values of the key's header, as bytes.
async fn with_keys(server: SocketAddr, values: &[&[u8]]) -> (u16, String) {
    let mut request = Request::post("/must").header("host", "test").header("x-user", "ann");
    for value in values {
        request = request.header("idempotency-key", HeaderValue::from_bytes(value).unwrap());
    }
    send(server, request.body(pieces(&[])).unwrap()).await
}

type Pieces = StreamBody<
    futures_util::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, std::io::Error>>>,
>;

/// A body of unknown length.
fn pieces(pieces: &[&[u8]]) -> Pieces {
    let frames: Vec<_> =
        pieces.iter().map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece)))).collect();
    StreamBody::new(futures_util::stream::iter(frames))
}

async fn send(server: SocketAddr, request: Request<Pieces>) -> (u16, String) {
    let stream = TcpStream::connect(server).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test]
async fn keys_that_cannot_be_used_are_told_so() {
    let scene = Scene::start(POLICY).await;
    let (long, longest) = (vec![b'k'; 256], vec![b'k'; 255]);
    let bad: [&[&[u8]]; 8] = [
        &[b""],
        &[&long],
        &[b"a\tb"],
        &[b"a b"],
        &[b"one", b"two"],
        &[b"same", b"same"],
        &[b"\"open"],
        &[b"\xc3\x28"],
    ];
    for keys in bad {
        let (status, body) = with_keys(scene.envoy.address, keys).await;
        assert_eq!(status, 400, "{keys:?}: {body}");
        assert!(body.contains("key-invalid"), "{keys:?}: {body}");
    }
    assert_eq!(scene.service.n_ran(), 0);
    assert_eq!(with_keys(scene.envoy.address, &[&longest]).await.0, 201);
}

#[tokio::test]
async fn a_key_is_needed_where_the_policy_says_so() {
    let scene = Scene::start(POLICY).await;
    let missing = scene.ask("POST", "/must", &[("x-user", "ann")], "").await;
    assert_eq!((missing.status, problem(&missing).as_str()), (400, "key-missing"));
    assert!(missing.header("link").contains("rel=\"describedby\""), "{missing:?}");
    assert_eq!(scene.service.n_ran(), 0);
    assert_eq!(scene.ask("POST", "/may", &[("x-user", "ann")], "").await.status, 201);
}

#[tokio::test]
async fn a_path_that_is_written_otherwise_needs_a_key_all_the_same() {
    let scene = Scene::start(POLICY).await;
    for path in ["//must/pay", "/x/../must/pay", "/x/%2e%2e/must/pay", "/%6dust/pay"] {
        let refused = scene.ask("POST", path, &[("x-user", "ann")], "").await;
        assert_eq!(problem(&refused), "key-missing", "{path}");
    }
    assert_eq!(scene.service.n_ran(), 0);
}

#[tokio::test]
async fn a_caller_of_whom_nothing_is_known_is_refused() {
    let scene = Scene::start(POLICY).await;
    let answer = scene.ask("POST", "/pay", &[("idempotency-key", "k")], "").await;
    assert_eq!((answer.status, problem(&answer).as_str()), (400, "key-unscoped"));
    assert_eq!(scene.service.n_ran(), 0);
}

#[tokio::test]
async fn a_quoted_key_and_one_without_quotes_are_one() {
    let scene = Scene::start(POLICY).await;
    assert_eq!(scene.post("/pay", "\"abc\"", "").await.body, "{\"run\":1}");
    assert_eq!(scene.post("/pay", "abc", "").await.body, "{\"run\":1}");
    assert_eq!(scene.post("/pay", "ABC", "").await.body, "{\"run\":2}");
}

const SMALL: &str = "
idempotency:
  routes:
    - name: all
      scope: { principal: [{ trusted_header: x-user }] }
      max_request_body: 1000
";

#[tokio::test]
async fn a_body_may_be_as_large_as_the_policy_says_and_not_larger() {
    let scene = Scene::start(SMALL).await;
    assert_eq!(scene.post("/pay", "fits", &"x".repeat(1000)).await.status, 201);
    let large = scene.post("/pay", "large", &"x".repeat(1001)).await;
    assert_eq!((large.status, problem(&large).as_str()), (413, "request-too-large"));
    let chunked = async |key: &str, n: usize| {
        let request = Request::post("/pay")
            .header("host", "test")
            .header("x-user", "ann")
            .header("idempotency-key", key);
        let half = vec![b'x'; n / 2];
        let body = pieces(&[&half, &vec![b'x'; n - n / 2]]);
        send(scene.envoy.address, request.body(body).unwrap()).await.0
    };
    assert_eq!(chunked("chunked", 1000).await, 201);
    assert_eq!(chunked("fits", 1000).await, 201, "how it is cut does not count");
    assert_eq!(chunked("too large", 1001).await, 400, "no key has a space");
    assert_eq!(chunked("too-large", 1001).await, 413);
    assert_eq!(scene.service.n_ran(), 2);
}

#[tokio::test]
async fn no_body_and_an_empty_one_are_the_same() {
    let scene = Scene::start(POLICY).await;
    assert_eq!(scene.post("/pay", "k", "").await.body, "{\"run\":1}");
    let request = Request::post("/pay")
        .header("host", "test")
        .header("x-user", "ann")
        .header("idempotency-key", "k");
    let (status, body) = send(scene.envoy.address, request.body(pieces(&[])).unwrap()).await;
    assert_eq!((status, body.as_str()), (201, "{\"run\":1}"));
}

#[tokio::test]
async fn anonymous_callers_share_keys_that_are_hard_to_guess() {
    let policy = "idempotency: { routes: [{ name: all, scope: { anonymous: shared } }] }";
    let scene = Scene::start_with(Setting { policy: Some(policy), ..Setting::default() }).await;
    let ask = async |key: &str| scene.ask("POST", "/pay", &[("idempotency-key", key)], "").await;
    assert_eq!(problem(&ask("too-short").await), "key-invalid");
    assert_eq!(ask("0123456789abcdef").await.body, "{\"run\":1}");
    assert_eq!(ask("0123456789abcdef").await.body, "{\"run\":1}");
}
