//! Operations in Redis: two Tidegates share them, and outlive each other and Redis's troubles.

use crate::answers::problem;
use crate::scene::{self, Setting};
use crate::service::Service;
use crate::support::envoy::Envoy;
use crate::support::eventually;
use crate::support::grpc::{Code, descriptor};
use crate::support::http::{self, Answer};
use crate::support::redis::{Redis, RedisCluster};
use crate::support::tidegate::Tidegate;
use futures_util::future::join_all;
use std::net::SocketAddr;
use tempfile::TempDir;

const POLICY: &str = "
idempotency:
  namespace: test
  defaults:
    scope: { principal: [{ trusted_header: x-user }] }
    lease: 1s
    retention: 1m
  routes:
    - { name: takeover, path: '/slow/takeover*', on_lease_expired: takeover }
    - { name: hold, path: '/slow/hold*' }
    - { name: open, path: '/open*', on_lease_expired: takeover, store_failure: open }
    - { name: all, lease: 30s, retention: 10m }
";

/// A Tidegate and its Envoy.
struct Edge {
    envoy: Envoy,
    tidegate: Tidegate,
    _folder: TempDir,
}

impl Edge {
    async fn start(service: &Service, redis: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        // A busy machine must not look like an outage.
        let settings = [redis, &[("IDEMPOTENCY_STORE_TIMEOUT", "5s"), ("START_GRACE", "0s")]];
        let setting =
            Setting { policy: Some(POLICY), settings: settings.concat(), ..Setting::default() };
        let tidegate = scene::tidegate(&folder, &setting).await;
        tidegate.ready().await;
        let filter = tidegate.address_of("idempotency").await;
        let envoy = scene::envoy(service.address, tidegate.grpc, filter, &[]).await;
        Self { envoy, tidegate, _folder: folder }
    }

    async fn post(&self, path: &str, key: &str) -> Answer {
        post(self.envoy.address, path, key).await
    }

    async fn counted(&self, line: &str, value: f64) {
        eventually(&format!("{line} to be {value}"), async || {
            let found = self.tidegate.metric(&format!("tidegate_idempotency_{line}")).await;
            ((found - value).abs() < 0.5).then_some(())
        })
        .await;
    }
}

async fn post(server: SocketAddr, path: &str, key: &str) -> Answer {
    let headers = [("x-user", "ann"), ("idempotency-key", key)];
    http::ask(server, "POST", path, &headers, "{}").await
}

async fn one(redis: &Redis, service: &Service) -> Edge {
    Edge::start(service, &[("REDIS_URL", &redis.address())]).await
}

fn fence(service: &Service, n: usize) -> u64 {
    service.ran()[n].headers["x-idempotency-fence"].to_str().unwrap().parse().unwrap()
}

async fn ran(service: &Service, n: usize) {
    eventually("the service to run", async || (service.n_ran() >= n).then_some(())).await;
}

#[tokio::test]
async fn two_tidegates_know_of_each_others_operations() {
    let (redis, service) = (Redis::start().await, Service::start().await);
    let (a, b) = (one(&redis, &service).await, one(&redis, &service).await);
    let (first, ()) = tokio::join!(a.post("/slow", "k"), async {
        ran(&service, 1).await;
        assert_eq!(problem(&b.post("/slow", "k").await), "in-progress");
        service.open_gate();
    });
    let retry = b.post("/slow", "k").await;
    assert_eq!((retry.status, &retry.body), (201, &first.body));
    assert_eq!(retry.header("idempotent-replayed"), "true");
    assert_eq!(service.n_ran(), 1);
}

#[tokio::test]
async fn an_operation_takes_two_calls_and_a_replay_one() {
    let (redis, service) = (Redis::start().await, Service::start().await);
    let edge = one(&redis, &service).await;
    edge.post("/pay", "warm").await;
    let n_calls = async || redis.calls("evalsha").await + redis.calls("eval").await;
    let before = n_calls().await;
    edge.post("/pay", "k").await;
    assert_eq!(n_calls().await - before, 2);
    edge.post("/pay", "k").await;
    assert_eq!(n_calls().await - before, 3);
    let keys = redis.keys().await;
    assert_eq!(keys.len(), 2);
    assert!(keys.iter().all(|key| key.starts_with("tg:id:")), "{keys:?}");
    for key in keys {
        let left: u64 = redis.ask(&["PTTL", &key]).await;
        assert!((590_000..=600_000).contains(&left), "a retention from its completion: {left}");
    }
}

#[tokio::test]
async fn an_operation_whose_tidegate_was_killed_is_taken_over_with_a_larger_fence() {
    let (redis, service) = (Redis::start().await, Service::start().await);
    let (mut a, b) = (one(&redis, &service).await, one(&redis, &service).await);
    let server = a.envoy.address;
    let asking = tokio::spawn(async move { post(server, "/slow/takeover", "k").await });
    ran(&service, 1).await;
    a.tidegate.kill();
    assert_eq!(asking.await.unwrap().status, 503);
    service.open_gate();
    let server = b.envoy.address;
    eventually("the end of the lease", async || {
        let taken = tokio::spawn(async move { post(server, "/slow/takeover", "k").await });
        let taken = eventually("an answer", async || {
            service.open_gate();
            taken.is_finished().then_some(())
        });
        taken.await;
        (service.n_ran() == 2).then_some(())
    })
    .await;
    assert!(fence(&service, 1) > fence(&service, 0));
    assert_eq!(service.ran()[1].headers["x-idempotency-attempt"], "takeover");
    assert_eq!(b.post("/slow/takeover", "k").await.header("idempotent-replayed"), "true");
}

#[tokio::test]
async fn an_operation_whose_tidegate_was_killed_is_held_where_the_policy_says_so() {
    let (redis, service) = (Redis::start().await, Service::start().await);
    let (mut a, b) = (one(&redis, &service).await, one(&redis, &service).await);
    let server = a.envoy.address;
    let asking = tokio::spawn(async move { post(server, "/slow/hold", "k").await });
    ran(&service, 1).await;
    assert_eq!(problem(&b.post("/slow/hold", "k").await), "in-progress");
    a.tidegate.kill();
    assert_eq!(asking.await.unwrap().status, 503);
    eventually("the end of the lease", async || {
        let answer = b.post("/slow/hold", "k").await;
        (problem(&answer) == "outcome-unknown").then_some(())
    })
    .await;
    assert_eq!(service.n_ran(), 1);
}

/// A hundred requests that run when a Tidegate is asked to stop, which it does within this time; how
/// they were answered, and the Tidegate beside it.
async fn stopped(
    redis: &Redis,
    service: &Service,
    within: &str,
    opens: bool,
) -> (Vec<Answer>, Edge) {
    const N: usize = 100;
    let address = redis.address();
    let settings =
        [("REDIS_URL", address.as_str()), ("DRAIN_DELAY", "0s"), ("STOP_TIMEOUT", within)];
    let mut a = Edge::start(service, &settings).await;
    let server = a.envoy.address;
    let asking = (0..N).map(|n| async move { post(server, "/slow/all", &n.to_string()).await });
    let asking = tokio::spawn(join_all(asking.collect::<Vec<_>>()));
    ran(service, N).await;
    a.tidegate.signal("TERM");
    eventually("the stop", async || a.tidegate.log().contains("stopping").then_some(())).await;
    if opens {
        service.open_gate();
    }
    let answers = asking.await.unwrap();
    assert!(a.tidegate.end().await.success());
    (answers, one(redis, service).await)
}

#[tokio::test]
async fn all_that_runs_at_a_stop_is_stored() {
    let (redis, service) = (Redis::start().await, Service::start().await);
    let (answers, b) = stopped(&redis, &service, "20s", true).await;
    for (n, first) in answers.iter().enumerate() {
        let retry = b.post("/slow/all", &n.to_string()).await;
        assert_eq!((first.status, &retry.body), (201, &first.body), "{n}");
        assert_eq!(retry.header("idempotent-replayed"), "true", "{n}");
    }
    assert_eq!(service.n_ran(), 100);
}

#[tokio::test]
async fn what_a_stop_cuts_off_ends_with_an_error_and_is_not_run_again() {
    let (redis, service) = (Redis::start().await, Service::start().await);
    let (answers, b) = stopped(&redis, &service, "500ms", false).await;
    for (n, first) in answers.iter().enumerate() {
        assert_eq!(first.status, 503, "{n}: its answer was not let through");
        assert_eq!(problem(&b.post("/slow/all", &n.to_string()).await), "in-progress", "{n}");
    }
    assert_eq!(service.n_ran(), 100);
}

#[tokio::test]
async fn a_tidegate_that_stood_still_past_its_lease_completes_nothing() {
    let (redis, service) = (Redis::start().await, Service::start().await);
    let (a, b) = (one(&redis, &service).await, one(&redis, &service).await);
    let server = a.envoy.address;
    let first = tokio::spawn(async move { post(server, "/slow/takeover", "k").await });
    ran(&service, 1).await;
    a.tidegate.signal("STOP");
    let server = b.envoy.address;
    let second = eventually("the end of the lease", async || {
        let asking = tokio::spawn(async move { post(server, "/slow/takeover", "k").await });
        eventually("an answer or a second run", async || {
            (asking.is_finished() || service.n_ran() == 2).then_some(())
        })
        .await;
        (service.n_ran() == 2).then_some(asking)
    })
    .await;
    // Both get their answers; only one of them is stored.
    service.open_gate();
    let second = second.await.unwrap();
    assert_eq!(second.status, 201);
    a.tidegate.signal("CONT");
    let _first = first.await.unwrap();
    a.counted("complete_total{result=\"stale\"}", 1.0).await;
    let retry = a.post("/slow/takeover", "k").await;
    assert_eq!((retry.header("idempotent-replayed").as_str(), retry.body), ("true", second.body));
    assert_eq!(service.n_ran(), 2);
}

#[tokio::test]
async fn without_redis_nothing_runs_unless_the_policy_says_so() {
    let (mut redis, service) = (Redis::start().await, Service::start().await);
    let edge = one(&redis, &service).await;
    assert_eq!(edge.post("/pay", "before").await.status, 201);
    redis.process.kill();
    let refused = edge.post("/pay", "k").await;
    assert_eq!((refused.status, problem(&refused).as_str()), (503, "store-unavailable"));
    assert!((1..=5).contains(&refused.number("retry-after")), "{refused:?}");
    assert_eq!(service.n_ran(), 1);
    assert_eq!(edge.post("/open", "k").await.status, 201);
    edge.counted("requests_total{outcome=\"bypass\",route=\"open\"}", 1.0).await;
    edge.counted("requests_total{outcome=\"store_unavailable\",route=\"all\"}", 1.0).await;
    redis.restart().await;
    eventually("Redis to be back", async || {
        (edge.post("/pay", "k").await.status == 201).then_some(())
    })
    .await;
    assert_eq!(edge.post("/pay", "k").await.header("idempotent-replayed"), "true");
}

#[tokio::test]
async fn an_answer_that_redis_does_not_take_is_delivered_all_the_same() {
    let (mut redis, service) = (Redis::start().await, Service::start().await);
    let edge = one(&redis, &service).await;
    let server = edge.envoy.address;
    let asking = tokio::spawn(async move { post(server, "/slow", "k").await });
    ran(&service, 1).await;
    redis.process.kill();
    service.open_gate();
    assert_eq!(asking.await.unwrap().status, 201);
    edge.counted("complete_total{result=\"failed\"}", 1.0).await;
}

#[tokio::test]
async fn a_redis_without_memory_claims_nothing_and_takes_no_answer() {
    let (redis, service) = (Redis::start().await, Service::start().await);
    let edge = one(&redis, &service).await;
    let server = edge.envoy.address;
    let asking = tokio::spawn(async move { post(server, "/slow", "k").await });
    ran(&service, 1).await;
    redis.ask::<String>(&["CONFIG", "SET", "maxmemory", "1"]).await;
    assert_eq!(problem(&edge.post("/pay", "other").await), "store-unavailable");
    service.open_gate();
    assert_eq!(asking.await.unwrap().status, 201);
    edge.counted("complete_total{result=\"failed\"}", 1.0).await;
    redis.ask::<String>(&["CONFIG", "SET", "maxmemory", "0"]).await;
    eventually("its answer to be stored after all", async || {
        let retry = edge.post("/slow", "k").await;
        (retry.header("idempotent-replayed") == "true").then_some(())
    })
    .await;
    assert_eq!(service.n_ran(), 1);
}

#[tokio::test]
async fn a_completion_of_what_is_forgotten_brings_nothing_back() {
    let (redis, service) = (Redis::start().await, Service::start().await);
    let edge = one(&redis, &service).await;
    let server = edge.envoy.address;
    let asking = tokio::spawn(async move { post(server, "/slow", "k").await });
    ran(&service, 1).await;
    redis.ask::<String>(&["FLUSHALL"]).await; // As if its retention had ended.
    service.open_gate();
    assert_eq!(asking.await.unwrap().status, 201);
    edge.counted("complete_total{result=\"missing\"}", 1.0).await;
    assert_eq!(redis.keys().await, [""; 0]);
}

#[tokio::test]
async fn without_the_redis_of_operations_limits_go_on() {
    let (buckets, mut redis) = (Redis::start().await, Redis::start().await);
    let (service, addresses) = (Service::start().await, (buckets.address(), redis.address()));
    let settings =
        [("REDIS_URL", addresses.0.as_str()), ("IDEMPOTENCY_REDIS_URL", addresses.1.as_str())];
    let edge = Edge::start(&service, &settings).await;
    assert_eq!(edge.post("/pay", "k").await.status, 201);
    redis.process.kill();
    let breaker = format!("tidegate_idempotency_redis_breaker_open{{node=\"{}\"}}", addresses.1);
    eventually("nobody to ask", async || {
        assert_eq!(problem(&edge.post("/pay", "other").await), "store-unavailable");
        (edge.tidegate.metric(&breaker).await > 0.5).then_some(())
    })
    .await;
    assert_eq!(edge.tidegate.get("/readyz").await.status, 200);
    let mut limits = edge.tidegate.client().await;
    let status = limits.status("example", descriptor(&[("user", "ann")])).await;
    assert_eq!(status.code(), Code::Ok);
    let late = Edge::start(&service, &settings).await;
    assert_eq!(late.tidegate.get("/readyz").await.status, 200, "ready without it");
    assert_eq!(problem(&late.post("/pay", "other").await), "store-unavailable");
    redis.restart().await;
    eventually("operations to be back", async || {
        (late.post("/pay", "other").await.status == 201).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_claim_that_redis_forgot_runs_again_with_a_larger_fence() {
    let (mut redis, service) = (Redis::start().await, Service::start().await);
    let edge = one(&redis, &service).await;
    let server = edge.envoy.address;
    let first = tokio::spawn(async move { post(server, "/slow", "k").await });
    ran(&service, 1).await;
    redis.restart().await; // It keeps nothing: what was claimed is lost, as by a failover.
    let claim = eventually("a claim", async || {
        let answer = edge.post("/slow", "k").await;
        (answer.status == 201).then_some(answer)
    });
    let (second, ()) = tokio::join!(claim, async {
        ran(&service, 2).await;
        assert!(fence(&service, 1) > fence(&service, 0));
        service.open_gate();
    });
    assert_eq!(first.await.unwrap().status, 201, "its client gets its answer");
    edge.counted("complete_total{result=\"stale\"}", 1.0).await;
    assert_eq!(edge.post("/slow", "k").await.body, second.body);
}

#[tokio::test]
async fn a_record_of_another_version_is_not_guessed_at() {
    let (redis, service) = (Redis::start().await, Service::start().await);
    let edge = one(&redis, &service).await;
    edge.post("/pay", "k").await;
    let key = redis.keys().await.remove(0);
    redis.ask::<String>(&["SET", &key, "\u{7f}of another version"]).await;
    let answer = edge.post("/pay", "k").await;
    assert_eq!((answer.status, problem(&answer).as_str()), (409, "fingerprint-unverifiable"));
    assert_eq!(service.n_ran(), 1);
}

#[tokio::test]
async fn operations_live_in_a_cluster() {
    let (cluster, service) = (RedisCluster::start().await, Service::start().await);
    let url = cluster.addresses().join(",");
    let redis = [("REDIS_TYPE", "cluster"), ("REDIS_URL", url.as_str())];
    let (a, b) = (Edge::start(&service, &redis).await, Edge::start(&service, &redis).await);
    for n in 1..=20 {
        let key = format!("key-{n}");
        let first = a.post("/pay", &key).await;
        let retry = b.post("/pay", &key).await;
        assert_eq!((first.status, &first.body), (201, &retry.body), "{first:?} {retry:?}");
        assert_eq!(retry.header("idempotent-replayed"), "true");
        assert_eq!(service.n_ran(), n);
    }
}
