//! A Redis that is slow, gone for a while, in part, or has forgotten an operation in time.

use crate::answers::problem;
use crate::scene::{POLICY, Scene, Setting};
use crate::support::eventually;
use crate::support::proxy::Proxy;
use crate::support::redis::{Redis, RedisCluster};

/// Operations that may be taken over after a lease of so many seconds.
fn taken_over_after(seconds: u64) -> String {
    let terms = format!(
        "defaults:\n    lease: {seconds}s\n    retention: 1m\n    on_lease_expired: takeover"
    );
    POLICY.replace("defaults:", &terms)
}

async fn scene(policy: &str, redis: &[(&str, &str)]) -> Scene {
    Scene::start_with(Setting {
        policy: Some(policy),
        settings: redis.to_vec(),
        ..Setting::default()
    })
    .await
}

/// Waits until requests run.
async fn run_again(scene: &Scene) {
    eventually("a request to run", async || {
        (scene.post("/pay", "probe", "").await.status == 201).then_some(())
    })
    .await;
}

/// Well before Envoy loses its patience and says 503 itself, which is no `problem`.
#[tokio::test]
async fn a_redis_that_is_too_slow_costs_a_request_no_more_than_the_time_for_it() {
    let redis = Redis::start().await;
    let address = redis.address();
    let settings = [("REDIS_URL", address.as_str()), ("IDEMPOTENCY_STORE_TIMEOUT", "100ms")];
    let scene = scene(POLICY, &settings).await;
    run_again(&scene).await;
    let before = scene.service.n_ran();
    redis.process.signal("STOP");
    let refused = scene.post("/pay", "k", "").await;
    assert_eq!((refused.status, problem(&refused).as_str()), (503, "store-unavailable"));
    assert_eq!(scene.service.n_ran(), before);
    redis.process.signal("CONT");
    // Redis may have taken the claim after all, and its lease would hold.
    eventually("the key to be free", async || {
        (scene.post("/pay", "k", "").await.status == 201).then_some(())
    })
    .await;
    assert_eq!(scene.service.n_ran(), before + 1);
}

#[tokio::test]
async fn a_renewal_that_fails_is_made_up_for() {
    let redis = Redis::start().await;
    let proxy = Proxy::start(redis.port).await;
    let (policy, address) = (taken_over_after(3), proxy.address());
    let settings = [("REDIS_URL", address.as_str()), ("IDEMPOTENCY_STORE_TIMEOUT", "200ms")];
    let scene = scene(&policy, &settings).await;
    run_again(&scene).await;
    let before = scene.service.n_ran();
    let renewed = async |result: &str| {
        let line = format!("renew_total{{result=\"{result}\"}}");
        eventually(&line, async || (scene.count(&line).await > 0).then_some(())).await;
    };
    let (first, ()) = tokio::join!(scene.post("/slow", "k", ""), async {
        scene.ran(before + 1).await;
        proxy.refuse(true);
        proxy.cut();
        renewed("failed").await;
        assert_eq!(scene.count("renew_total{result=\"ok\"}").await, 0);
        proxy.refuse(false);
        renewed("ok").await;
        let retry = scene.post("/slow", "k", "").await;
        assert_eq!(problem(&retry), "in-progress");
        scene.service.open_gate();
    });
    assert_eq!(first.status, 201);
    assert_eq!(scene.post("/slow", "k", "").await.header("idempotent-replayed"), "true");
    assert_eq!(scene.service.n_ran(), before + 1);
}

#[tokio::test]
async fn a_cluster_that_is_down_runs_nothing() {
    let mut cluster = RedisCluster::start().await;
    let url = cluster.addresses().join(",");
    let settings = [("REDIS_TYPE", "cluster"), ("REDIS_URL", url.as_str())];
    let settings = [&settings[..], &[("IDEMPOTENCY_STORE_TIMEOUT", "200ms")]].concat();
    let scene = scene(&taken_over_after(1), &settings).await;
    run_again(&scene).await;
    let before = scene.service.n_ran();
    let shard = [0, cluster.replica_of(0).await];
    for node in shard {
        cluster.nodes[node].process.kill();
    }
    for (at, node) in cluster.nodes.iter().enumerate().filter(|(at, _)| !shard.contains(at)) {
        eventually(&format!("node {at} to know of it"), async || {
            let info: String = node.ask(&["CLUSTER", "INFO"]).await;
            info.contains("cluster_state:fail").then_some(())
        })
        .await;
    }
    for n in 0..20 {
        let refused = scene.post("/pay", &format!("key-{n}"), "").await;
        assert_eq!((refused.status, problem(&refused).as_str()), (503, "store-unavailable"));
    }
    let errors = "tidegate_idempotency_redis_errors_total";
    assert!(scene.tidegate.sum(errors, "cluster_down").await > 0.5);
    assert_eq!(scene.service.n_ran(), before);
    for node in shard {
        cluster.nodes[node].restart().await;
    }
    for n in 0..20 {
        eventually("a cluster that is whole", async || {
            (scene.post("/pay", &format!("key-{n}"), "").await.status == 201).then_some(())
        })
        .await;
    }
    assert_eq!(scene.service.n_ran(), before + 20);
}

#[tokio::test]
async fn after_its_retention_a_key_is_free_for_another_request() {
    let redis = Redis::start().await;
    let address = redis.address();
    let settings = [("REDIS_URL", address.as_str()), ("IDEMPOTENCY_STORE_TIMEOUT", "5s")];
    let scene = scene(POLICY, &settings).await;
    assert_eq!(scene.post("/pay", "k", "one").await.status, 201);
    assert_eq!(scene.post("/pay", "k", "two").await.status, 422);
    let key = redis.keys().await.remove(0);
    let _: u8 = redis.ask(&["PEXPIRE", &key, "1"]).await;
    eventually("the end of the retention", async || redis.keys().await.is_empty().then_some(()))
        .await;
    let second = scene.post("/pay", "k", "two").await;
    assert_eq!(
        (second.body.as_str(), second.header("idempotent-replayed").as_str()),
        ("{\"run\":2}", "")
    );
    assert_eq!(problem(&scene.post("/pay", "k", "one").await), "key-reused");
    let ran = scene.service.ran();
    let fence = |n: usize| -> u64 {
        ran[n].headers["x-idempotency-fence"].to_str().unwrap().parse().unwrap()
    };
    assert!(fence(1) > fence(0));
    assert_eq!(ran[1].headers["x-idempotency-attempt"], "first");
}
