//! Ways in which a request might reach the service unprotected. Envoy takes the end of a stream with
//! OK for leave to go on, so none of these may end one like that.

use crate::outcomes::ends_as_unknown;
use crate::scene::{POLICY, Scene, Setting};
use crate::support::eventually;
use crate::support::http::{self, Answer};
use tokio::task::JoinHandle;

/// A body that Envoy sends in one message that is larger than Tidegate takes.
#[tokio::test]
async fn a_message_that_is_too_large_does_not_let_the_request_pass() {
    let setting = Setting {
        policy: Some(POLICY),
        changes: vec![(
            "per_connection_buffer_limit_bytes: 2097152",
            "per_connection_buffer_limit_bytes: 67108864".to_owned(),
        )],
        ..Setting::default()
    };
    let scene = Scene::start_with(setting).await;
    // What is announced is refused at once; hide it.
    let answer = scene.post_chunked("/pay", "k", 17 << 20).await;
    assert_eq!((answer, scene.service.n_ran()), (503, 0));
    let refused = scene.post_chunked("/pay", "k", 8 << 20).await;
    assert_eq!((refused, scene.service.n_ran()), (413, 0));
}

#[tokio::test]
async fn a_policy_that_is_not_there_lets_nothing_pass() {
    let setting = Setting { policy: Some("idempotency: ["), ..Setting::default() };
    let scene = Scene::start_unready(setting).await;
    for (method, key) in [("POST", "k"), ("GET", "")] {
        let answer = scene.ask(method, "/pay", &[("idempotency-key", key)], "").await;
        assert_eq!((answer.status, scene.service.n_ran()), (503, 0), "{method}");
    }
    scene.replace_policy(POLICY);
    scene.tidegate.ready().await;
    assert_eq!(scene.post("/pay", "k", "").await.status, 201);
}

/// Tidegate cannot keep this from happening. It must not go unseen.
#[tokio::test]
async fn an_envoy_that_sends_no_bodies_is_noticed() {
    let no_override = ("allow_mode_override: true", "allow_mode_override: false".to_owned());
    let answers = ("response_header_mode: SKIP", "response_header_mode: SEND".to_owned());
    for changes in [vec![no_override.clone(), answers], vec![no_override]] {
        let setting = Setting { policy: Some(POLICY), changes, ..Setting::default() };
        let scene = Scene::start_with(setting).await;
        scene.post("/pay", "k", "{}").await;
        scene.counted("requests_total{outcome=\"unfinished\",route=\"all\"}", 1.0).await;
        eventually("the log", async || {
            scene.tidegate.log().contains("`allow_mode_override` is not true").then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_claim_whose_answer_envoy_does_not_show_is_not_given_back() {
    let changes = vec![("allow_mode_override: true", "allow_mode_override: false".to_owned())];
    let scene =
        Scene::start_with(Setting { policy: Some(POLICY), changes, ..Setting::default() }).await;
    assert_eq!(scene.post("/pay", "without a body", "").await.status, 400);
    assert_eq!(scene.post("/pay", "bodiless", "").await.status, 201);
    ends_as_unknown(&scene.post("/pay", "bodiless", "").await);
}

#[tokio::test]
async fn a_tidegate_that_is_killed_lets_nothing_pass() {
    let mut scene = Scene::start(POLICY).await;
    scene.tidegate.kill();
    let answer = scene.post("/pay", "k", "").await;
    assert_eq!((answer.status, scene.service.n_ran()), (503, 0));
}

/// A request that the service has, and a Tidegate that may take so long to stop.
async fn told_to_stop_while_one_runs(timeout: &'static str) -> (Scene, JoinHandle<Answer>) {
    let settings = vec![("DRAIN_DELAY", "0s"), ("STOP_TIMEOUT", timeout)];
    let setting = Setting { policy: Some(POLICY), settings, ..Setting::default() };
    let scene = Scene::start_with(setting).await;
    let server = scene.envoy.address;
    let headers = [("x-user", "ann"), ("idempotency-key", "k")];
    let asking =
        tokio::spawn(async move { http::ask(server, "POST", "/slow", &headers, "").await });
    scene.ran(1).await;
    scene.tidegate.signal("TERM");
    (scene, asking)
}

#[tokio::test]
async fn a_tidegate_that_stops_waits_for_what_runs_and_ends_the_rest_with_an_error() {
    let (mut scene, asking) = told_to_stop_while_one_runs("1s").await;
    let answer = asking.await.unwrap();
    assert_eq!(answer.status, 503, "its answer is not delivered: nobody would know of it");
    assert!(scene.tidegate.end().await.success());
}

#[tokio::test]
async fn what_ends_within_the_time_to_stop_is_stored() {
    let (mut scene, asking) = told_to_stop_while_one_runs("20s").await;
    eventually("the stop", async || scene.tidegate.log().contains("stopping").then_some(())).await;
    scene.service.open_gate();
    assert_eq!(asking.await.unwrap().status, 201);
    assert!(scene.tidegate.end().await.success());
}
