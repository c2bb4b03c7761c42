//! What a retry gets, and that the service ran once.

use crate::scene::{POLICY, Scene, Setting};
use crate::support::eventually;
use crate::support::http::Answer;
use futures_util::future::join_all;

/// The last part of a problem's type.
pub fn problem(answer: &Answer) -> String {
    let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(answer.header("content-type"), "application/problem+json", "{answer:?}");
    assert_eq!(answer.header("cache-control"), "no-store", "{answer:?}");
    assert_eq!(body["status"], answer.status, "{answer:?}");
    let kind = body["type"].as_str().unwrap();
    kind.strip_prefix("urn:tidegate:idempotency:").unwrap().to_owned()
}

#[tokio::test]
async fn a_retry_gets_the_same_answer_and_does_not_run() {
    let scene = Scene::start(POLICY).await;
    let headers = [
        ("x-answer-content-type", "application/json"),
        ("x-answer-location", "/pay/7"),
        ("x-answer-etag", "\"7\""),
        ("x-answer-set-cookie", "session=secret"),
        ("x-answer-x-internal", "1"),
        ("x-answer-x-ratelimit-limit", "1"),
    ];
    let first = scene.post_with("/pay", "k-1", &headers, "{}").await;
    assert_eq!((first.status, first.body.as_str()), (201, "{\"run\":1}"));
    assert_eq!(first.header("idempotent-replayed"), "");
    assert_eq!(first.header("set-cookie"), "session=secret");

    let retry = scene.post_with("/pay", "k-1", &headers, "{}").await;
    assert_eq!((retry.status, &retry.body), (201, &first.body));
    assert_eq!(retry.header("idempotent-replayed"), "true");
    for name in ["content-type", "location", "etag", "content-length"] {
        assert_eq!(retry.header(name), first.header(name), "{name}");
    }
    for name in ["set-cookie", "x-internal", "x-ratelimit-limit", "transfer-encoding"] {
        assert_eq!(retry.header(name), "", "{name}");
    }
    assert_eq!(scene.service.n_ran(), 1);
    let ran = &scene.service.ran()[0].headers;
    assert_eq!(ran["x-idempotency-attempt"], "first");
    assert!(ran["x-idempotency-fence"].to_str().unwrap().parse::<u64>().unwrap() > 0);
    assert_eq!(ran["x-idempotency-operation"].len(), 52);
}

#[tokio::test]
async fn several_cookies_are_replayed_if_the_policy_keeps_them() {
    let policy = "
idempotency:
  routes:
    - name: all
      scope: { principal: [{ trusted_header: x-user }] }
      response: { headers: [set-cookie, link, content-encoding, content-type] }
";
    let scene = Scene::start(policy).await;
    let headers = [
        ("x-answer-set-cookie", "a=1"),
        ("x-answer-set-cookie", "b=2"),
        ("x-answer-link", "</1>; rel=next"),
        ("x-answer-link", "</2>; rel=prev"),
        ("x-answer-content-encoding", "gzip"),
        ("x-answer-content-type", "text/x-own"),
    ];
    let first = scene.post_with("/pay", "k", &headers, "").await;
    let retry = scene.post_with("/pay", "k", &headers, "").await;
    assert_eq!(retry.header("idempotent-replayed"), "true");
    assert_eq!(retry.header("set-cookie"), "a=1,b=2");
    for name in ["set-cookie", "link", "content-encoding", "content-type", "content-length"] {
        assert_eq!(retry.header(name), first.header(name), "{name}");
    }
}

#[tokio::test]
async fn what_a_replay_has_no_body_for_or_no_text_for_is_the_same() {
    let policy = "
idempotency:
  routes:
    - name: all
      methods: [POST, HEAD]
      scope: { principal: [{ trusted_header: x-user }] }
      response: { headers: [location, content-type, x-hop, x-end] }
";
    let scene = Scene::start(policy).await;
    let headers = [("x-user", "ann"), ("x-answer-location", "/caf\u{e9}"), ("x-answer-x-end", "1")];
    for (method, status) in [("HEAD", 200), ("POST", 204), ("POST", 304), ("POST", 201)] {
        let path = format!("/pay?status={status}");
        let key = format!("{method}-{status}");
        let headers = [&headers[..], &[("idempotency-key", &key)]].concat();
        let first = scene.ask(method, &path, &headers, "").await;
        let retry = scene.ask(method, &path, &headers, "").await;
        assert_eq!((first.status, retry.status, &retry.body), (status, status, &first.body));
        assert_eq!(retry.header("idempotent-replayed"), "true", "{key}");
        assert_eq!(first.bytes("location"), "/caf\u{e9}".as_bytes(), "{key}");
        assert_eq!(retry.bytes("location"), first.bytes("location"), "{key}");
        assert_eq!(retry.header("x-end"), "1", "{key}");
    }
    assert_eq!(scene.service.n_ran(), 4);
}

#[tokio::test]
async fn headers_of_one_connection_are_not_replayed_whatever_the_policy_says() {
    let policy = "
idempotency:
  routes:
    - name: all
      scope: { principal: [{ trusted_header: x-user }] }
      response: { headers: [x-hop, x-end] }
";
    let scene = Scene::start(policy).await;
    let headers = [
        ("x-answer-connection", "keep-alive, X-Hop"),
        ("x-answer-x-hop", "1"),
        ("x-answer-x-end", "1"),
        ("x-answer-keep-alive", "timeout=5"),
    ];
    scene.post_with("/pay", "k", &headers, "").await;
    let retry = scene.post_with("/pay", "k", &headers, "").await;
    assert_eq!(retry.header("idempotent-replayed"), "true");
    assert_eq!((retry.header("x-end").as_str(), retry.header("x-hop").as_str()), ("1", ""));
    assert_eq!(retry.header("keep-alive"), "");
}

#[tokio::test]
async fn two_hundred_requests_at_once_run_once() {
    let scene = Scene::start(POLICY).await;
    let asking = (0..200).map(|_| scene.post("/slow", "k", "{}"));
    let (answers, ()) = tokio::join!(join_all(asking), async {
        scene.counted("requests_total{outcome=\"in_progress\",route=\"all\"}", 199.0).await;
        scene.service.open_gate();
    });
    let (ran, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 201);
    assert_eq!((ran.len(), refused.len(), scene.service.n_ran()), (1, 199, 1));
    for answer in refused {
        assert_eq!((answer.status, problem(answer).as_str()), (409, "in-progress"));
        assert!((1..=60).contains(&answer.number("retry-after")), "{answer:?}");
    }
    for retry in join_all((0..20).map(|_| scene.post("/slow", "k", "{}"))).await {
        assert_eq!((retry.status, &retry.body), (201, &ran[0].body));
    }
    assert_eq!(scene.service.n_ran(), 1);
}

#[tokio::test]
async fn another_request_with_the_key_gets_422_even_while_the_first_runs() {
    let scene = Scene::start(POLICY).await;
    let (first, ()) = tokio::join!(scene.post("/slow", "k", "one"), async {
        scene.ran(1).await;
        let other = scene.post("/slow", "k", "two").await;
        assert_eq!((other.status, problem(&other).as_str()), (422, "key-reused"));
        let elsewhere = scene.post("/pay", "k", "one").await;
        assert_eq!(elsewhere.status, 422, "a key reaches over all routes");
        let headers = [("x-user", "ann"), ("idempotency-key", "k")];
        assert_eq!(scene.ask("PATCH", "/slow", &headers, "one").await.status, 422);
        scene.service.open_gate();
    });
    assert_eq!(first.status, 201);
    assert_eq!(scene.post("/slow", "k", "two").await.status, 422);
    assert_eq!(scene.post("/slow?q=1", "k", "one").await.status, 422);
    assert_eq!(scene.service.n_ran(), 1);
}

#[tokio::test]
async fn two_callers_with_one_key_are_two_operations() {
    let scene = Scene::start(POLICY).await;
    let ask = async |user: &str| {
        scene.ask("POST", "/pay", &[("x-user", user), ("idempotency-key", "k")], "{}").await
    };
    assert_eq!(ask("ann").await.body, "{\"run\":1}");
    assert_eq!(ask("bob").await.body, "{\"run\":2}");
    assert_eq!(ask("ann").await.body, "{\"run\":1}");
    assert_eq!(scene.service.n_ran(), 2);
}

#[tokio::test]
async fn a_key_may_reach_no_further_than_its_route() {
    let policy = "
idempotency:
  defaults: { scope: { principal: [{ trusted_header: x-user }], key_space: route } }
  routes: [{ name: a, path: '/a*' }, { name: b, path: '/b*' }]
";
    let scene = Scene::start(policy).await;
    assert_eq!(scene.post("/a", "k", "").await.body, "{\"run\":1}");
    assert_eq!(scene.post("/b", "k", "").await.body, "{\"run\":2}");
    assert_eq!(scene.post("/a", "k", "").await.body, "{\"run\":1}");
}

#[tokio::test]
async fn json_is_compared_by_its_meaning_if_the_policy_says_so() {
    let policy = "
idempotency:
  routes:
    - name: all
      scope: { principal: [{ trusted_header: x-user }] }
      fingerprint: { body: json_canonical }
";
    let scene = Scene::start(policy).await;
    let post = async |key: &str, body: &str| {
        scene.post_with("/pay", key, &[("content-type", "application/json")], body).await.status
    };
    assert_eq!(post("k", r#"{"a":1,"b":[1.50,"\u00e9"]}"#).await, 201);
    assert_eq!(post("k", r#"{ "b": [1.5, "é"], "a": 1e0 }"#).await, 201);
    assert_eq!(post("k", r#"{"a":2,"b":[1.50,"\u00e9"]}"#).await, 422);
    for (key, twice) in [("dup", r#"{"a":1,"a":1}"#), ("big", r#"{"a":1e400}"#)] {
        assert_eq!(post(key, twice).await, 201);
        assert_eq!(post(key, twice).await, 201, "the same bytes are the same request");
        let spaced = format!("{twice} ");
        assert_eq!(post(key, &spaced).await, 422, "{key}");
    }
    assert_eq!(scene.service.n_ran(), 3);
}

/// A form is sent with a new boundary each time.
#[tokio::test]
async fn a_form_is_compared_byte_by_byte() {
    let scene = Scene::start(POLICY).await;
    let post = async |boundary: &str| {
        let kind = format!("multipart/form-data; boundary={boundary}");
        let body = format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=a\r\n\r\n1\r\n--{boundary}--\r\n"
        );
        scene.post_with("/pay", "k", &[("content-type", kind.as_str())], &body).await.status
    };
    assert_eq!(post("one").await, 201);
    assert_eq!(post("two").await, 422);
    assert_eq!((post("one").await, scene.service.n_ran()), (201, 1));
}

#[tokio::test]
async fn statuses_that_are_no_outcome_are_not_stored() {
    let scene = Scene::start(POLICY).await;
    for status in [500, 503, 401, 403, 408, 425, 429] {
        let (path, key) = (format!("/pay?status={status}"), format!("k-{status}"));
        let before = scene.service.n_ran();
        for _ in 0..2 {
            let answer = scene.post(&path, &key, "").await;
            assert_eq!(
                (answer.status, answer.header("idempotent-replayed")),
                (status, String::new())
            );
        }
        assert_eq!(scene.service.n_ran(), before + 2, "{status}");
    }
    for status in [200, 204, 302, 400, 404, 409, 422, 451] {
        let (path, key) = (format!("/pay?status={status}"), format!("k-{status}"));
        let before = scene.service.n_ran();
        let first = scene.post(&path, &key, "").await;
        let retry = scene.post(&path, &key, "").await;
        assert_eq!((first.status, retry.status, &retry.body), (status, status, &first.body));
        assert_eq!(retry.header("idempotent-replayed"), "true", "{status}");
        assert_eq!(scene.service.n_ran(), before + 1, "{status}");
    }
}

#[tokio::test]
async fn the_upstream_may_say_what_its_answer_means() {
    let scene = Scene::start(POLICY).await;
    let post = async |key: &str, status: u16, said: &str| {
        let path = format!("/pay?status={status}");
        let headers = [("x-answer-idempotency-result", said)];
        scene.post_with(&path, key, &headers, "").await
    };
    let first = post("stored", 500, "store").await;
    assert_eq!(first.header("idempotency-result"), "", "it is for us");
    assert_eq!(post("stored", 500, "store").await.header("idempotent-replayed"), "true");
    post("released", 200, "release").await;
    assert_eq!(post("released", 200, "release").await.header("idempotent-replayed"), "");
    assert_eq!(post("held", 200, "hold").await.status, 200);
    assert_eq!(problem(&post("held", 200, "hold").await), "in-progress");
    assert_eq!(scene.service.n_ran(), 4);
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_delivered_whole_and_its_retry_told_so() {
    let scene = Scene::start(POLICY).await;
    for path in ["/pay?bytes=300000", "/pay?chunked=300000"] {
        let before = scene.service.n_ran();
        let headers = [("x-answer-location", "/pay/7")];
        let first = scene.post_with(path, path, &headers, "").await;
        assert_eq!((first.status, first.body.len()), (201, 300_000), "{path}");
        let retry = scene.post_with(path, path, &headers, "").await;
        assert_eq!((retry.status, problem(&retry).as_str()), (409, "response-not-stored"));
        assert!(retry.body.contains("\"original-status\":201"), "{retry:?}");
        assert_eq!(retry.header("location"), "/pay/7");
        assert_eq!(scene.service.n_ran(), before + 1, "{path}");
    }
    let most = scene.post("/pay?chunked=262144", "most", "").await;
    assert_eq!(most.body.len(), 262_144);
    let retry = scene.post("/pay?chunked=262144", "most", "").await;
    assert_eq!((retry.header("idempotent-replayed").as_str(), retry.body), ("true", most.body));
}

#[tokio::test]
async fn a_replay_costs_no_hit_and_has_limits_of_its_own() {
    let limits = "domain: example\ndescriptors:\n  - { key: user, rate_limit: { unit: year, requests_per_unit: 10 } }\n";
    let setting = Setting { policy: Some(POLICY), limits: Some(limits), ..Setting::default() };
    let scene = Scene::start_with(setting).await;
    let first = scene.post("/pay", "k", "").await;
    assert_eq!(first.number("x-ratelimit-remaining"), 9);
    let retry = scene.post("/pay", "k", "").await;
    assert_eq!(retry.header("idempotent-replayed"), "true");
    assert_eq!(retry.number("x-ratelimit-remaining"), 8, "not what was stored");
    eventually("the refund", async || {
        let answer = scene.ask("GET", "/", &[("x-user", "ann")], "").await;
        let left = answer.number("x-ratelimit-remaining");
        // One for the first answer, and one for each look.
        let n_looks = u64::try_from(scene.service.n_ran()).unwrap() - 1;
        (left == 9 - n_looks).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_request_without_a_key_costs_one_message_and_loses_what_only_we_may_say() {
    let scene = Scene::start(POLICY).await;
    let forged = [
        ("x-user", "ann"),
        ("x-idempotency-fence", "999"),
        ("x-idempotency-attempt", "takeover"),
        ("x-idempotency-operation", "mine"),
        ("x_idempotency_fence", "999"),
        ("x_idempotency_attempt", "takeover"),
        ("x_idempotency_operation", "mine"),
        ("idempotent-replayed", "true"),
        ("idempotency-result", "release"),
        ("idempotency-retention", "60"),
    ];
    assert_eq!(scene.ask("POST", "/pay", &forged, "").await.status, 201);
    assert_eq!(scene.post_with("/pay", "k", &forged[1..], "").await.status, 201);
    assert_eq!(scene.ask("GET", "/pay", &forged, "").await.status, 201);
    let ran = scene.service.ran();
    for (n, request) in ran.iter().enumerate() {
        for (name, _) in &forged[4..] {
            assert!(!request.headers.contains_key(*name), "{name} of {n}");
        }
        assert_ne!(
            request.headers.get("x-idempotency-fence").map(http::HeaderValue::as_bytes),
            Some(&b"999"[..])
        );
        assert_eq!(request.headers.contains_key("x-idempotency-fence"), n == 1);
    }
    assert_eq!(scene.count("inflight").await, 0);
}

#[tokio::test]
async fn events_are_passed_on_as_they_come() {
    use http_body_util::{BodyExt, Full};
    use hyper_util::rt::TokioIo;
    let scene = Scene::start(POLICY).await;
    let stream = tokio::net::TcpStream::connect(scene.envoy.address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::post("/events?n=3")
        .header("host", "test")
        .header("x-user", "ann")
        .header("idempotency-key", "k")
        .body(Full::<hyper::body::Bytes>::default())
        .unwrap();
    let mut response = sender.send_request(request).await.unwrap();
    let retry = scene.post("/events?n=3", "k", "").await;
    assert_eq!(problem(&retry), "response-not-stored", "it is noted as soon as it begins");
    for n in 0..3 {
        scene.service.open_gate();
        let event = response.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(event, format!("data: {n}\n\n"));
    }
    assert_eq!(scene.service.n_ran(), 1);
}

#[tokio::test]
async fn a_changed_policy_holds_and_a_faulty_one_changes_nothing() {
    let scene = Scene::start(POLICY).await;
    let shadow = POLICY.replace("name: all", "name: all, shadow: true");
    assert_eq!(scene.post("/pay", "k", "").await.body, "{\"run\":1}");
    scene.replace_policy("idempotency: { routes: [{ name: a, lease: 60 }] }");
    eventually("the fault in the log", async || {
        scene.tidegate.log().contains("the idempotency policy is faulty").then_some(())
    })
    .await;
    assert_eq!(scene.post("/pay", "k", "").await.body, "{\"run\":1}");
    scene.replace_policy(&shadow);
    eventually("the shadow", async || {
        let answer = scene.post("/pay", "k", "").await;
        (answer.header("idempotent-replayed").is_empty()).then_some(())
    })
    .await;
    assert_eq!(scene.count("policy_loads_total{result=\"error\"}").await, 1);
}

#[tokio::test]
async fn callers_of_grpc_get_its_codes() {
    let scene = Scene::start(POLICY).await;
    let grpc = [("x-user", "ann"), ("content-type", "application/grpc")];
    let missing = scene.ask("POST", "/must", &grpc, "").await;
    assert_eq!((missing.status, missing.header("grpc-status").as_str()), (200, "3"), "{missing:?}");
    assert!(missing.header("grpc-message").contains("key-missing"), "{missing:?}");
    assert_eq!(missing.header("content-type"), "application/grpc");

    let keyed = async |path: &str, key: &str, code: &str| {
        let more = [
            ("idempotency-key", key),
            ("x-answer-content-type", "application/grpc"),
            ("x-answer-grpc-status", code),
            ("x-answer-grpc-message", "no%20such"),
        ];
        scene.ask("POST", path, &[&grpc[..], &more].concat(), "").await
    };
    keyed("/pay?status=200&bytes=0", "error", "5").await;
    let retry = keyed("/pay?status=200&bytes=0", "error", "5").await;
    assert_eq!(retry.header("grpc-status"), "5", "{retry:?}");
    assert_eq!(retry.header("grpc-message"), "no such", "{retry:?}");
    assert_eq!(retry.header("idempotent-replayed"), "true");
    assert_eq!(scene.service.n_ran(), 1);
    keyed("/pay?status=200&bytes=0", "again", "14").await;
    keyed("/pay?status=200&bytes=0", "again", "14").await;
    assert_eq!(scene.service.n_ran(), 3, "UNAVAILABLE is no outcome");
}
