//! What becomes of an operation whose answer Envoy makes, or that breaks off.

use crate::answers::problem;
use crate::scene::{POLICY, Scene, Setting};
use crate::support::eventually;
use crate::support::http::{self, Answer};
use ::http::Request;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const LOCAL_REPLY: &str = "indeterminate_total{cause=\"local_reply\"}";
const NOT_SENT: &str = "release_total{reason=\"not_sent\"}";

/// A change of the bootstrap's only route.
fn routed(by: &str) -> Setting<'static> {
    let by = by.to_owned();
    Setting { changes: vec![("route: { cluster: service }", by)], ..Setting::default() }
}

/// A retry does not run, because nobody knows whether the first did.
pub fn ends_as_unknown(answer: &Answer) {
    assert_eq!((answer.status, problem(answer).as_str()), (409, "in-progress"), "{answer:?}");
}

#[tokio::test]
async fn an_upstream_that_takes_too_long_leaves_the_outcome_unknown() {
    let scene = Scene::start_with(routed("route: { cluster: service, timeout: 0.3s }")).await;
    assert_eq!(scene.post("/slow", "k", "").await.status, 504);
    ends_as_unknown(&scene.post("/slow", "k", "").await);
    assert_eq!(scene.count(LOCAL_REPLY).await, 1);
    assert_eq!(scene.service.n_ran(), 1);
}

#[tokio::test]
async fn an_upstream_that_breaks_off_leaves_the_outcome_unknown() {
    let scene = Scene::start(POLICY).await;
    assert_eq!(scene.post("/reset", "k", "").await.status, 503);
    ends_as_unknown(&scene.post("/reset", "k", "").await);
    assert_eq!(scene.count(LOCAL_REPLY).await, 1);
    assert_eq!(scene.service.n_ran(), 1);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_stored() {
    let scene = Scene::start(POLICY).await;
    let request = Request::post("/cut")
        .header("host", "test")
        .header("x-user", "ann")
        .header("idempotency-key", "k");
    let stream = TcpStream::connect(scene.envoy.address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = request.body(Full::<Bytes>::default()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 201);
    scene.service.open_gate();
    let body = http_body_util::BodyExt::collect(response.into_body()).await;
    assert!(body.is_err(), "it breaks off for the client, too");
    scene.counted("indeterminate_total{cause=\"upstream_reset\"}", 1.0).await;
    ends_as_unknown(&scene.post("/cut", "k", "").await);
    assert_eq!(scene.service.n_ran(), 1);
}

#[tokio::test]
async fn a_request_that_was_never_sent_gives_its_key_back() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let nowhere = Setting {
        changes: vec![("port_value: 8000 }", format!("port_value: {port} }}"))],
        ..Setting::default()
    };
    let scene = Scene::start_with(nowhere).await;
    for n in 1..=2 {
        assert_eq!(scene.post("/pay", "k", "").await.status, 503);
        assert_eq!(scene.count(NOT_SENT).await, n);
    }
}

/// A service that takes one request, answers nothing, and is then reached by nobody.
async fn gone_after_one() -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let taking = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        stream.readable().await.unwrap();
        drop(listener);
        drop(stream);
    });
    (address, taking)
}

#[tokio::test]
async fn with_retries_a_failed_connection_proves_nothing() {
    let retrying = "route: { cluster: service, retry_policy: { retry_on: \"reset,connect-failure\", \
                    num_retries: 1 } }";
    let (service, taking) = gone_after_one().await;
    let port = format!("port_value: {} }}", service.port());
    let changes = [routed(retrying).changes, vec![("port_value: 8000 }", port)]].concat();
    let scene = Scene::start_with(Setting { changes, ..Setting::default() }).await;
    assert_eq!(scene.post("/pay", "k", "").await.status, 503);
    taking.await.unwrap();
    ends_as_unknown(&scene.post("/pay", "k", "").await);
    assert_eq!((scene.count(LOCAL_REPLY).await, scene.count(NOT_SENT).await), (1, 0));
}

#[tokio::test]
async fn retries_of_envoy_are_one_operation() {
    let retrying = "route: { cluster: service, retry_policy: { retry_on: 5xx, num_retries: 2 } }";
    let scene = Scene::start_with(routed(retrying)).await;
    assert_eq!(scene.post("/pay?status=500", "k", "").await.status, 500);
    assert_eq!(scene.service.n_ran(), 3);
    let fences: Vec<_> =
        scene.service.ran().iter().map(|ran| ran.headers["x-idempotency-fence"].clone()).collect();
    assert!(fences.iter().all(|fence| *fence == fences[0]), "{fences:?}");
    assert_eq!(scene.count("requests_total{outcome=\"claimed\",route=\"all\"}").await, 1);
}

#[tokio::test]
async fn an_upstream_that_nobody_is_gives_the_key_back() {
    let scene = Scene::start_with(Setting {
        changes: vec![(
            "socket_address: { address: 127.0.0.1, port_value: 8000 }",
            "socket_address: { address: nowhere.invalid, port_value: 8000 }".to_owned(),
        )],
        ..Setting::default()
    })
    .await;
    assert_eq!(scene.post("/pay", "k", "").await.status, 503);
    assert_eq!(scene.count(NOT_SENT).await, 1);
}

#[tokio::test]
async fn a_limit_that_stands_behind_the_filter_gives_the_key_back() {
    let router = "                  - name: envoy.filters.http.router";
    let one_an_hour = format!(
        "                  - name: envoy.filters.http.local_ratelimit
                    typed_config:
                      \"@type\": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
                      stat_prefix: late
                      token_bucket: {{ max_tokens: 1, fill_interval: 3600s }}
                      filter_enabled: {{ default_value: {{ numerator: 100 }} }}
                      filter_enforced: {{ default_value: {{ numerator: 100 }} }}

{router}"
    );
    let scene =
        Scene::start_with(Setting { changes: vec![(router, one_an_hour)], ..Setting::default() })
            .await;
    assert_eq!(scene.post("/pay", "first", "").await.status, 201);
    for n in 1..=2 {
        let refused = scene.post("/pay", "k", "").await;
        assert_eq!((refused.status, refused.header("idempotent-replayed").as_str()), (429, ""));
        assert_eq!(scene.count(NOT_SENT).await, n);
    }
    assert_eq!(scene.post("/pay", "first", "").await.header("idempotent-replayed"), "true");
    assert_eq!(scene.service.n_ran(), 1);
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_the_outcome_unknown() {
    let scene = Scene::start(POLICY).await;
    let stream = TcpStream::connect(scene.envoy.address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::post("/slow")
        .header("host", "test")
        .header("x-user", "ann")
        .header("idempotency-key", "k")
        .body(Full::<Bytes>::default())
        .unwrap();
    let asking = tokio::spawn(async move { sender.send_request(request).await });
    scene.ran(1).await;
    connection.abort();
    asking.abort();
    scene.counted("indeterminate_total{cause=\"client_reset\"}", 1.0).await;
    ends_as_unknown(&scene.post("/slow", "k", "").await);
    assert_eq!(scene.service.n_ran(), 1);
    scene.counted("inflight", 0.0).await;
}

#[tokio::test]
async fn an_upstream_that_is_slower_than_the_lease_is_waited_for() {
    let policy = POLICY.replace("defaults:", "defaults:\n    lease: 1s\n    retention: 1m");
    let scene = Scene::start(&policy).await;
    let (first, ()) = tokio::join!(scene.post("/slow", "k", ""), async {
        scene.ran(1).await;
        eventually("four renewals, more than a lease", async || {
            (scene.metric("renew_total{result=\"ok\"}").await >= 4.0).then_some(())
        })
        .await;
        assert_eq!(problem(&scene.post("/slow", "k", "").await), "in-progress");
        scene.service.open_gate();
    });
    assert_eq!(first.status, 201);
    assert_eq!(scene.post("/slow", "k", "").await.header("idempotent-replayed"), "true");
    assert_eq!(scene.service.n_ran(), 1);
}

#[tokio::test]
async fn a_request_outlives_the_age_of_the_connection_that_it_is_protected_over() {
    let ages = [("GRPC_MAX_CONNECTION_AGE", "1s"), ("GRPC_MAX_CONNECTION_AGE_GRACE", "0s")];
    let scene = Scene::start_with(Setting { settings: ages.into(), ..Setting::default() }).await;
    let (first, ()) = tokio::join!(scene.post("/slow", "k", ""), async {
        scene.ran(1).await;
        let stats = "/stats?filter=cluster.idempotency.upstream_cx_close_notify";
        eventually("Envoy to be asked to go", async || {
            let asked = http::get(scene.envoy.admin, stats, &[]).await.body;
            (!asked.trim_end().ends_with(": 0")).then_some(())
        })
        .await;
        scene.service.open_gate();
    });
    assert_eq!(first.status, 201);
    assert_eq!(scene.post("/slow", "k", "").await.header("idempotent-replayed"), "true");
}

#[tokio::test]
async fn where_no_lease_ends_as_an_outcome_retries_are_told_since_when() {
    let policy = POLICY.replace("defaults:", "defaults:\n    lease: 1s\n    retention: 1m");
    let scene = Scene::start(&policy).await;
    assert_eq!(scene.post("/reset", "k", "").await.status, 503);
    let unknown = eventually("the end of the lease", async || {
        let answer = scene.post("/reset", "k", "").await;
        (problem(&answer) == "outcome-unknown").then_some(answer)
    })
    .await;
    let body: serde_json::Value = serde_json::from_str(&unknown.body).unwrap();
    assert!(body["since"].as_u64().unwrap() > 1_600_000_000, "{unknown:?}");
    assert_eq!((unknown.header("retry-after").as_str(), scene.service.n_ran()), ("", 1));
}

#[tokio::test]
async fn where_the_policy_says_so_the_next_one_takes_over_with_a_larger_fence() {
    let policy = POLICY.replace(
        "defaults:",
        "defaults:\n    lease: 1s\n    retention: 1m\n    on_lease_expired: takeover",
    );
    let scene = Scene::start(&policy).await;
    assert_eq!(scene.post("/reset", "k", "").await.status, 503);
    eventually("a second run", async || {
        scene.post("/reset", "k", "").await;
        (scene.service.n_ran() == 2).then_some(())
    })
    .await;
    let ran = scene.service.ran();
    let fence = |n: usize| -> u64 {
        ran[n].headers["x-idempotency-fence"].to_str().unwrap().parse().unwrap()
    };
    assert!(fence(1) > fence(0));
    assert_eq!(ran[1].headers["x-idempotency-attempt"], "takeover");
}
