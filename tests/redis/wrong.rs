//! Settings that cannot be right and keys of somebody else: the built program says where to look.

use crate::authority::{Authority, Secure};
use crate::callers::{POLICY, decided_by_redis, on, users};
use crate::support::eventually;
use crate::support::grpc::{Code, descriptor, request};
use crate::support::redis::Redis;
use crate::support::tidegate::{Tidegate, refuses_to_start};

/// The setting is named in the log, the process stays up, and its health tells.
async fn is_named(settings: &[(&str, &str)], expected: &str) {
    let settings = [&[("START_GRACE", "0s")], settings].concat();
    let tidegate = Tidegate::start_unready(POLICY, &settings).await;
    eventually(expected, async || tidegate.log().contains(expected).then_some(())).await;
    eventually("not ready", async || {
        (tidegate.get("/healthcheck").await.status == 500).then_some(())
    })
    .await;
    assert_eq!(tidegate.get("/readyz").await.status, 500);
    assert_eq!(tidegate.get("/livez").await.status, 200);
    assert!(!tidegate.log().contains("hunter2"), "{}", tidegate.log());
    // Calls are answered all the same.
    let mut client = tidegate.client().await;
    let asked = request("shop", vec![descriptor(&[("local", "x")])]);
    assert_eq!(client.ask(asked).await.unwrap().overall_code(), Code::Ok);
}

#[tokio::test]
async fn a_wrong_password() {
    let redis = Redis::start_with(&["--requirepass", "right"]).await;
    let url = redis.address();
    let expected = format!("REDIS_AUTH: {url} refuses this user or password");
    is_named(&[("REDIS_URL", &url), ("REDIS_AUTH", "hunter2")], &expected).await;
    let with_password = format!("redis://:hunter2@{url}");
    let expected = format!("{url} refuses this user or password");
    is_named(&[("REDIS_URL", &with_password)], &expected).await;
}

#[tokio::test]
async fn an_authority_that_is_not_trusted() {
    let (authority, other) = (Authority::new(), Authority::new());
    let redis = authority.server("localhost", false).await;
    let url = format!("rediss://localhost:{}", redis.port);
    let ca = other.file("ca.pem").display().to_string();
    let settings = [("REDIS_URL", url.as_str()), ("REDIS_TLS_CACERT", &ca)];
    is_named(&settings, "REDIS_TLS_CACERT: ").await;
}

#[tokio::test]
async fn plain_to_a_port_that_speaks_tls() {
    let authority = Authority::new();
    let redis = authority.server("localhost", false).await;
    let url = redis.address();
    is_named(&[("REDIS_URL", &url)], &format!("REDIS_TLS: {url} speaks TLS")).await;
}

#[tokio::test]
async fn a_master_that_no_sentinel_knows() {
    let master = Redis::start().await;
    let sentinel = Redis::sentinel(&master).await;
    let url = format!("other,{}", sentinel.address());
    let expected = format!("REDIS_URL: {} knows no master `other`", sentinel.address());
    is_named(&[("REDIS_TYPE", "sentinel"), ("REDIS_URL", &url)], &expected).await;
}

#[tokio::test]
async fn a_topology_that_there_is_not() {
    let (code, printed) =
        refuses_to_start(&[("REDIS_TYPE", "ring"), ("REDIS_URL", "127.0.0.1:1")]).await;
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("REDIS_TYPE"), "{printed}");
    for word in ["`ring`", "single", "sentinel", "cluster"] {
        assert!(printed.contains(word), "{word} is not in {printed}");
    }
}

/// Something that is no counter of ours stands under our prefix: its own bucket is answered by
/// policy, the log says where to look, and nobody else notices.
#[tokio::test]
async fn a_key_of_somebody_else() {
    let redis = Redis::start().await;
    let tidegate = on(&redis.address(), &[("REDIS_OP_TIMEOUT", "5s")]).await;
    let users = users();
    decided_by_redis(&tidegate, &users).await;
    let planted = format!("tg:rl:{{shop|local={}}}:fixed_window/epoch/86400", users[0]);
    assert!(redis.keys().await.contains(&planted), "{:?}", redis.keys().await);
    for plant in [["SET", &planted, "7"].as_slice(), &["LPUSH", &planted, "x"]] {
        let _: i64 = redis.ask(&["DEL", &planted]).await;
        let _: redis::Value = redis.ask(plant).await;
        let mut client = tidegate.client().await;
        let asked = client.decided_by("shop", &[("local", &users[0])]).await.unwrap();
        assert_eq!(asked, (Code::Ok, "local".to_owned()));
        decided_by_redis(&tidegate, &users[1..]).await;
        let left: redis::Value = redis.ask(&["TYPE", &planted]).await;
        assert!(left != redis::Value::SimpleString("none".into()), "it is not ours to remove");
    }
    let log = tidegate.log();
    assert!(log.contains("CACHE_KEY_PREFIX") && log.contains("holds something else"), "{log}");
    let reason = "reason=\"wrong_type\"";
    assert!(tidegate.sum("tidegate_fallback_decisions_total", reason).await >= 2.0);
    assert_eq!(tidegate.get("/readyz").await.status, 200);
    let _: i64 = redis.ask(&["DEL", &planted]).await;
    decided_by_redis(&tidegate, &users).await;
}
