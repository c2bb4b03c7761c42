//! The built program on Redis: several processes share one truth, and say when they cannot.

use crate::callers::on_cluster;
use crate::support::eventually;
use crate::support::grpc::{Code, descriptor, request};
use crate::support::http;
use crate::support::redis::{Redis, RedisCluster, free_port};
use crate::support::tidegate::Tidegate;

const POLICY: &str = "\
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 50 }
  - key: pace
    rate_limit: { unit: day, requests_per_unit: 50, algorithm: token_bucket }
";

async fn on(redis: &Redis) -> Tidegate {
    let url = redis.address();
    // Every call goes to Redis.
    let asks_redis = [("REDIS_OP_TIMEOUT", "5s"), ("DENY_CACHE_MAX", "0")];
    let settings = [[("REDIS_URL", url.as_str())].as_slice(), &asks_redis].concat();
    Tidegate::start_with(POLICY, &settings).await
}

/// How many of 100 concurrent calls to each of these pass.
async fn n_passed(servers: &[Tidegate], key: &'static str) -> usize {
    let mut calls = tokio::task::JoinSet::new();
    for server in servers {
        for _ in 0..10 {
            let mut client = server.client().await;
            calls.spawn(async move {
                let mut n_passed = 0;
                for _ in 0..10 {
                    let asked = request("shop", vec![descriptor(&[(key, "alice")])]);
                    let answer = client.ask(asked).await.unwrap();
                    n_passed += usize::from(answer.overall_code() == Code::Ok);
                }
                n_passed
            });
        }
    }
    calls.join_all().await.into_iter().sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_share_one_limit_exactly() {
    let redis = Redis::start().await;
    let servers = [on(&redis).await, on(&redis).await];
    assert_eq!(n_passed(&servers, "user").await, 50);
    assert_eq!(n_passed(&servers, "pace").await, 50);
    let text = servers[0].get("/metrics").await.body;
    let node = format!("node=\"{}\"", redis.address());
    assert!(text.contains("tidegate_store_info{backend=\"redis\"} 1"), "{text}");
    assert!(text.contains(&format!("tidegate_store_connections{{{node}}} 2")), "{text}");
    assert!(text.contains(&format!("tidegate_store_units_total{{{node}}} 200")), "{text}");
    assert!(text.contains(&format!("tidegate_store_breaker_open{{{node}}} 0")), "{text}");
    assert!(!text.contains("tidegate_store_errors_total{"), "{text}");
    let log = servers[0].log();
    assert!(log.contains(&format!("single at {}", redis.address())), "{log}");
}

#[tokio::test]
async fn a_restart_forgets_nothing() {
    let redis = Redis::start().await;
    let mut first = on(&redis).await;
    first.client().await.status("shop", descriptor(&[("user", "bob")])).await;
    first.signal("INT");
    assert!(first.end().await.success());
    let second = on(&redis).await;
    let status = second.client().await.status("shop", descriptor(&[("user", "bob")])).await;
    assert_eq!(status.limit_remaining, 48);
}

#[tokio::test]
async fn a_bucket_can_be_looked_at_and_reset() {
    let redis = Redis::start().await;
    let tidegate = on(&redis).await;
    let path = "/bucket?domain=shop&entries=user=carol";
    let ask = async |method| http::ask(tidegate.admin, method, path, &[], "").await.body;
    assert!(ask("GET").await.contains("\"exists\":false"));
    tidegate.client().await.status("shop", descriptor(&[("user", "carol")])).await;
    let found = ask("GET").await;
    assert!(found.contains("\"exists\":true") && found.contains("\"remaining\":49"), "{found}");
    assert!(ask("DELETE").await.contains("\"remaining\":49"));
    assert!(ask("GET").await.contains("\"exists\":false"));
}

#[tokio::test]
async fn a_wrong_password_leaves_it_up_and_not_ready_and_is_named() {
    let redis = Redis::start_with(&["--requirepass", "right"]).await;
    let url = redis.address();
    let settings = [("REDIS_URL", url.as_str()), ("REDIS_AUTH", "hunter2"), ("START_GRACE", "0s")];
    let tidegate = Tidegate::start_unready(POLICY, &settings).await;
    eventually("the setting in the log", async || {
        tidegate.log().contains(&format!("REDIS_AUTH: {url} refuses")).then_some(())
    })
    .await;
    eventually("not ready", async || (tidegate.get("/readyz").await.status == 500).then_some(()))
        .await;
    assert_eq!(tidegate.get("/livez").await.status, 200);
    assert!(!tidegate.log().contains("hunter2"));
}

#[tokio::test]
async fn an_outage_at_the_start_is_waited_for_and_then_borne() {
    let url = format!("127.0.0.1:{}", free_port());
    let patient = [("REDIS_URL", url.as_str()), ("START_GRACE", "1h")];
    let tidegate = Tidegate::start_unready(POLICY, &patient).await;
    eventually("the outage in the log", async || {
        tidegate.log().contains("Redis cannot be reached").then_some(())
    })
    .await;
    assert_eq!(tidegate.get("/readyz").await.status, 500);
    Tidegate::start_with(POLICY, &[("REDIS_URL", url.as_str()), ("START_GRACE", "0s")]).await;
}

#[tokio::test]
async fn an_outage_later_shows_in_health_if_that_is_wished() {
    let mut redis = Redis::start().await;
    let url = redis.address();
    let follows = [("REDIS_URL", url.as_str()), ("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "true")];
    let tidegate = Tidegate::start_with(POLICY, &follows).await;
    let bears = on(&redis).await;
    redis.process.kill();
    eventually("not ready", async || (tidegate.get("/readyz").await.status == 500).then_some(()))
        .await;
    assert_eq!(bears.get("/readyz").await.status, 200);
    redis.restart().await;
    tidegate.ready().await;
}

#[tokio::test]
async fn a_redis_that_evicts_is_warned_of() {
    let evicting = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    let redis = Redis::start_with(&evicting).await;
    let tidegate = on(&redis).await;
    eventually("a warning", async || {
        tidegate.log().contains("maxmemory-policy should be noeviction").then_some(())
    })
    .await;
    eventually("its memory", async || {
        let text = tidegate.get("/metrics").await.body;
        let name = format!("tidegate_redis_memory_bytes{{node=\"{}\"}} ", redis.address());
        let memory = text.lines().find_map(|line| line.strip_prefix(&name)?.parse::<u64>().ok());
        memory.filter(|bytes| *bytes > 0)
    })
    .await;
}

#[tokio::test]
async fn the_hash_slot_that_is_asked_most_is_named_on_the_admin_port() {
    let redis = RedisCluster::start().await;
    let tidegate = on_cluster(&redis, &[]).await;
    let mut client = tidegate.client().await;
    for user in ["ann", "bob", "ann", "ann"] {
        let (_, by) = client.decided_by("shop", &[("local", user)]).await.unwrap();
        assert_eq!(by, "store");
    }
    let hot = http::get(tidegate.admin, "/hot-keys", &[]).await.body;
    let hot: serde_json::Value = serde_json::from_str(&hot).unwrap();
    let mut keys = Vec::new();
    for node in &redis.nodes {
        keys.extend(node.keys().await);
    }
    for (n, (user, share)) in [("ann", 0.75), ("bob", 0.25)].into_iter().enumerate() {
        let key = keys.iter().find(|key| key.contains(user)).unwrap();
        let slot = redis.slot_of(key).await;
        let bucket = key.strip_prefix("tg:rl:").unwrap();
        assert_eq!(
            hot["buckets"][n],
            serde_json::json!({ "key": bucket, "share": share }),
            "{hot}"
        );
        assert_eq!(hot["slots"][n], serde_json::json!({ "slot": slot, "share": share }), "{hot}");
    }
    assert_eq!(hot["slots"].as_array().unwrap().len(), 2, "{hot}");
}
