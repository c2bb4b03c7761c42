//! Records of operations in real servers.

use crate::house::{House, at, cluster, limit, patient, single};
use crate::support::eventually;
use crate::support::proxy::Proxy;
use crate::support::redis::{Redis, RedisCluster};
use futures_util::future::join_all;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidegate::algorithm::Charge;
use tidegate::idempotency::{
    Claim, Claimed, Fence, Fingerprint, OperationId, Outcome, Owner, Records, RecordsError,
    StoredAnswer, Terms, Token, Written,
};
use tidegate::rules::OnLeaseExpired;
use tidegate::settings::servers::RecordServers;
use tidegate::store::{RedisServers, StoreError};
use tidegate::telemetry::Metrics;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Records with the tasks that they live in.
struct Archive {
    records: Records,
    metrics: Arc<Metrics>,
    _stop: tokio_util::sync::DropGuard,
}

const LEASE: Duration = Duration::from_secs(10);
const RETENTION: Duration = Duration::from_secs(600);

/// Patient enough for a busy machine.
fn servers(servers: RedisServers) -> RecordServers {
    RecordServers {
        servers,
        max_in_flight: 10_000,
        key_prefix: "shop:".into(),
        timeout: Duration::from_secs(2),
        allow_eviction: false,
    }
}

impl Archive {
    fn start(servers: RecordServers) -> Self {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let metrics = Metrics::new(1);
        let series = metrics.record_store_series();
        let records = Records::in_redis(servers, series, &tasks, &stop).unwrap();
        Self { records, metrics, _stop: stop.drop_guard() }
    }

    /// Waits until it answers.
    async fn open(servers: RecordServers) -> Self {
        let archive = Self::start(servers);
        archive.answers().await;
        archive
    }

    async fn answers(&self) {
        let probe = claim("probe", 0);
        eventually("an answer", async || self.records.claim(&probe).await.ok()).await;
    }

    async fn start_operation(&self, key: &str) -> Token {
        let claim = claim(key, 1);
        let claimed = self.records.claim(&claim).await.unwrap();
        claim.token(claimed.fence().unwrap_or_else(|| panic!("{claimed:?}")))
    }

    async fn complete(&self, token: &Token) -> Result<Written, RecordsError> {
        self.records.complete(token, &answer(), RETENTION).await
    }
}

fn claim(key: &str, owner: u8) -> Claim {
    Claim {
        operation: operation(key),
        owner: Owner::new([owner; 16]),
        fingerprint: Fingerprint::new(1, "same"),
        terms: Terms {
            lease: LEASE,
            retention: RETENTION,
            on_lease_expired: OnLeaseExpired::Takeover,
        },
    }
}

fn operation(key: &str) -> OperationId {
    OperationId::of("test", "", "somebody", "*", key.as_bytes())
}

fn key(operation: &str) -> String {
    format!("shop:tg:id:{}", self::operation(operation))
}

fn answer() -> Outcome {
    Outcome::Stored(Arc::new(StoredAnswer {
        status: 201,
        headers: vec![("location".into(), b"/payments/1".to_vec())],
        body: b"paid".to_vec(),
        date: tidegate::clock::Micros::from_secs(1),
    }))
}

fn through(proxy: &Proxy) -> RecordServers {
    servers(at(&proxy.address()))
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_hundred_claims_at_two_processes_one_is_first_and_all_see_its_answer() {
    let redis = Redis::start().await;
    let one = Archive::open(servers(single(&redis))).await;
    let other = Archive::open(servers(single(&redis))).await;
    let claims = (0..200_u8).map(|n| {
        let archive = if n % 2 == 0 { &one } else { &other };
        async move { archive.records.claim(&claim("pay", n)).await.unwrap() }
    });
    let claimed = join_all(claims).await;
    let first: Vec<_> = (0..).zip(&claimed).filter(|(_, one)| one.fence().is_some()).collect();
    assert_eq!(first.len(), 1);
    let waiting = claimed.iter().filter(|one| matches!(one, Claimed::InProgress { .. }));
    assert_eq!(waiting.count(), 199);
    let (owner, fence) = (first[0].0, first[0].1.fence().unwrap());
    let token = claim("pay", owner).token(fence);
    assert_eq!(other.complete(&token).await, Ok(Written::Done));
    let Ok(Claimed::Completed { answer, .. }) = one.records.claim(&claim("pay", 201)).await else {
        panic!("not replayed")
    };
    assert_eq!(Outcome::Stored(answer), self::answer());
}

#[tokio::test]
async fn an_operation_is_one_key_that_expires_and_two_calls() {
    let redis = Redis::start().await;
    let archive = Archive::open(servers(single(&redis))).await;
    let calls = async || redis.calls("evalsha").await;
    let before = calls().await;
    archive.start_operation("warm").await;
    assert_eq!(archive.complete(&claim("warm", 1).token(Fence(1))).await, Ok(Written::Stale));
    let warm = calls().await;
    assert!(warm > before);
    let token = archive.start_operation("pay").await;
    assert_eq!(archive.complete(&token).await, Ok(Written::Done));
    assert_eq!(calls().await - warm, 2);
    assert!(redis.keys().await.contains(&key("pay")));
    let ttl: u64 = redis.ask(&["PTTL", &key("pay")]).await;
    assert!((500_000..=600_000).contains(&ttl), "{ttl}");
    let text = archive.metrics.render();
    let calls = format!("tidegate_idempotency_redis_calls_total{{node=\"{}\"}}", redis.address());
    assert!(text.contains(&calls), "{text}");
    assert!(!text.contains("tidegate_store_calls_total"), "{text}");
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_sent_again() {
    let redis = Redis::start().await;
    let archive = Archive::open(servers(single(&redis))).await;
    let token = archive.start_operation("pay").await;
    let _: () = redis.ask(&["SCRIPT", "FLUSH"]).await;
    assert_eq!(archive.complete(&token).await, Ok(Written::Done));
}

#[tokio::test]
async fn a_claim_whose_reply_was_lost_is_not_lost() {
    let redis = Redis::start().await;
    let proxy = Proxy::start(redis.port).await;
    // Its only connection is open before replies are lost.
    let one = RedisServers { pool_size: 1, ..at(&proxy.address()) };
    let archive = Archive::open(servers(one)).await;
    proxy.swallow(true);
    let claim = claim("pay", 1);
    let (claimed, ()) = tokio::join!(archive.records.claim(&claim), async {
        eventually("a claim without a reply", async || {
            redis.keys().await.contains(&key("pay")).then_some(())
        })
        .await;
        proxy.swallow(false);
        proxy.cut();
    });
    assert!(matches!(claimed, Ok(Claimed::First { .. })), "{claimed:?}");
}

/// A late reply is that of the call that was given up, not of the next one on its connection.
#[tokio::test]
async fn a_reply_that_comes_late_is_not_taken_for_another() {
    let redis = Redis::start().await;
    let proxy = Proxy::start(redis.port).await;
    let one = RedisServers { pool_size: 1, ..at(&proxy.address()) };
    let patient = Archive::open(servers(one.clone())).await;
    let done = patient.start_operation("done").await;
    assert_eq!(patient.complete(&done).await, Ok(Written::Done));
    let impatient = RecordServers { timeout: Duration::from_millis(100), ..servers(one) };
    let archive = Archive::open(impatient).await;
    let n_connections = proxy.n_accepted();
    proxy.delay(Duration::from_millis(500));
    let late = archive.records.claim(&claim("late", 1)).await;
    assert_eq!(late, Err(RecordsError::Store(StoreError::Timeout)));
    proxy.delay(Duration::ZERO);
    let next =
        eventually("a reply in time", async || archive.records.claim(&claim("done", 2)).await.ok())
            .await;
    assert!(matches!(next, Claimed::Completed { .. }), "{next:?}");
    let other = archive.records.claim(&claim("late", 2)).await;
    assert!(matches!(other, Ok(Claimed::InProgress { .. })), "{other:?}");
    assert_eq!(proxy.n_accepted(), n_connections, "on the same connection");
}

#[tokio::test]
async fn a_completion_outlasts_a_connection_that_breaks() {
    let redis = Redis::start().await;
    let proxy = Proxy::start(redis.port).await;
    let archive = Archive::open(through(&proxy)).await;
    let token = archive.start_operation("pay").await;
    proxy.cut();
    assert_eq!(archive.complete(&token).await, Ok(Written::Done));
}

#[tokio::test]
async fn a_redis_that_is_down_decides_nothing_and_soon_is_not_asked() {
    let mut redis = Redis::start().await;
    let impatient = RecordServers { timeout: Duration::from_millis(50), ..servers(single(&redis)) };
    let archive = Archive::open(impatient).await;
    let token = archive.start_operation("pay").await;
    redis.process.kill();
    eventually("an open breaker", async || match archive.records.claim(&claim("other", 1)).await {
        Err(RecordsError::Store(StoreError::BreakerOpen)) => Some(()),
        Err(error) => {
            assert!(!error.is_misconfigured(), "{error}");
            None
        }
        Ok(claimed) => panic!("{claimed:?}"),
    })
    .await;
    let asked = Instant::now();
    assert!(archive.complete(&token).await.is_err());
    assert!(asked.elapsed() < Duration::from_secs(1));
    redis.restart().await;
    archive.answers().await;
    assert_eq!(archive.complete(&token).await, Ok(Written::Missing), "nothing is brought back");
}

#[tokio::test]
async fn a_key_of_another_type_is_told_apart_from_an_outage() {
    let redis = Redis::start().await;
    let archive = Archive::open(servers(single(&redis))).await;
    let _: i64 = redis.ask(&["LPUSH", &key("pay"), "somebody else's"]).await;
    let error = archive.records.claim(&claim("pay", 1)).await.unwrap_err();
    assert_eq!(error, RecordsError::Store(StoreError::WrongType));
    assert!(error.is_misconfigured());
}

#[tokio::test]
async fn a_redis_without_memory_refuses_claims() {
    let redis = Redis::start().await;
    let archive = Archive::open(servers(single(&redis))).await;
    let _: String = redis.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = archive.records.claim(&claim("pay", 1)).await.unwrap_err();
    assert_eq!(error, RecordsError::Store(StoreError::OutOfMemory));
}

#[tokio::test]
async fn a_redis_that_evicts_is_refused_unless_that_is_allowed() {
    let evicting = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    let redis = Redis::start_with(&evicting).await;
    let archive = Archive::start(servers(single(&redis)));
    let error =
        eventually("a refusal", async || match archive.records.claim(&claim("pay", 1)).await {
            Err(error @ RecordsError::Evicts) => Some(error),
            Ok(_) | Err(_) => None,
        })
        .await;
    assert!(error.is_misconfigured());
    let allowed = RecordServers { allow_eviction: true, ..servers(single(&redis)) };
    let archive = Archive::open(allowed).await;
    eventually("the server's policy", async || {
        let text = archive.metrics.render();
        text.contains("tidegate_redis_maxmemory_policy_ok{node=").then_some(())
    })
    .await;
    assert!(archive.records.claim(&claim("other", 1)).await.is_ok());
}

#[tokio::test]
async fn a_redis_that_does_not_say_whether_it_evicts_takes_claims() {
    let withholding = ["--rename-command", "INFO", "kept-from-us"];
    let evicting = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    let redis = Redis::start_with(&[withholding.as_slice(), &evicting].concat()).await;
    let archive = Archive::open(servers(single(&redis))).await;
    let is_zero = |name: &str| {
        let line = format!("{name}{{node=\"{}\"}} 0\n", redis.address());
        archive.metrics.render().contains(&line)
    };
    eventually("the server to be asked", async || {
        (!is_zero("tidegate_redis_time_offset_seconds")).then_some(())
    })
    .await;
    assert!(is_zero("tidegate_redis_maxmemory_policy_ok"));
    let token = archive.start_operation("pay").await;
    assert_eq!(archive.complete(&token).await, Ok(Written::Done));
}

#[tokio::test]
async fn records_and_buckets_do_not_touch_each_other() {
    let redis = Redis::start().await;
    let buckets =
        tidegate::store::RedisConfig { key_prefix: "shop:".into(), ..patient(single(&redis)) };
    let house = House::open(buckets).await;
    let archive = Archive::open(servers(single(&redis))).await;
    let token = archive.start_operation("a").await;
    house.take("a", limit(5)).await.unwrap();
    let record: Vec<u8> = redis.ask(&["GET", &key("a")]).await;
    let batch = crate::house::batch(&[("a", limit(5), Charge::Peek)]);
    assert!(house.store.reset(&batch, &batch.items[0]).await.unwrap());
    assert_eq!(redis.ask::<Vec<u8>>(&["GET", &key("a")]).await, record);
    house.take("a", limit(5)).await.unwrap();
    assert_eq!(archive.records.release(&token).await, Ok(Written::Done));
    assert_eq!(house.take("a", limit(5)).await.unwrap().remaining, 3);
    let keys = redis.keys().await;
    let of = |kind: &str| keys.iter().filter(|key| key.starts_with(kind)).count();
    assert_eq!(of("shop:tg:id:") + of("shop:tg:rl:"), keys.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_operations_outlast_slots_that_move() {
    let redis = RedisCluster::start().await;
    let archive = Archive::open(servers(cluster(&redis))).await;
    let done = AtomicBool::new(false);
    let running = async {
        let mut n = 0;
        while !done.load(Ordering::SeqCst) || n < 200 {
            let key = n.to_string();
            let token = archive.start_operation(&key).await;
            assert_eq!(archive.complete(&token).await, Ok(Written::Done), "{key}");
            let again = archive.records.claim(&claim(&key, 2)).await;
            assert!(matches!(again, Ok(Claimed::Completed { .. })), "{key}: {again:?}");
            n += 1;
        }
    };
    let moving = async {
        redis.reshard(0, 1, 1000).await;
        done.store(true, Ordering::SeqCst);
    };
    tokio::join!(running, moving);
    for node in redis.nodes.iter().take(3) {
        assert!(!node.keys().await.is_empty(), "each master has its part");
    }
}

/// Replication does not wait: what a replica has not heard is lost when it takes over.
#[tokio::test]
async fn a_failover_that_loses_the_claim_still_makes_the_fence_grow() {
    let mut old = Redis::start().await;
    let link = Proxy::start(old.port).await;
    let port = link.port.to_string();
    let new = Redis::start_with(&["--replicaof", "127.0.0.1", &port]).await;
    let proxy = Proxy::start(old.port).await;
    let archive = Archive::open(through(&proxy)).await;
    let done = archive.start_operation("done").await;
    assert_eq!(archive.complete(&done).await, Ok(Written::Done));
    let offset = old.info("master_repl_offset").await;
    eventually("the replica to follow", async || {
        (new.info("slave_repl_offset").await >= offset).then_some(())
    })
    .await;
    link.refuse(true);
    link.cut();
    let first = archive.start_operation("pay").await;
    proxy.lead_to(new.port);
    old.process.kill();
    let _: String = new.ask(&["REPLICAOF", "NO", "ONE"]).await;
    proxy.cut();
    let second = eventually("a claim at the new master", async || {
        let claimed = archive.records.claim(&claim("pay", 2)).await;
        claimed.ok().map(|claimed| claimed.fence().unwrap())
    })
    .await;
    assert!(second > first.fence, "{second} after {}", first.fence);
    assert_eq!(archive.complete(&first).await, Ok(Written::Stale));
    let again = archive.records.claim(&claim("done", 2)).await;
    assert!(matches!(again, Ok(Claimed::Completed { .. })), "{again:?}");
}

#[tokio::test]
async fn a_cluster_that_is_down_decides_nothing_until_it_is_whole() {
    let redis = RedisCluster::start().await;
    let archive = Archive::open(servers(cluster(&redis))).await;
    let token = archive.start_operation("pay").await;
    let slot = redis.slot_of("of another key").await.to_string();
    let owner = redis.master_of(slot.parse().unwrap()).await;
    for node in &redis.nodes {
        // Whoever has not heard of it will not forget it.
        let _ = node.try_ask::<String>(::redis::cmd("CLUSTER").arg("DELSLOTS").arg(&slot)).await;
    }
    eventually("a cluster that is down", async || {
        match archive.records.claim(&claim("pay", 2)).await {
            Err(RecordsError::Store(StoreError::ClusterDown)) => Some(()),
            other => {
                assert!(matches!(other, Ok(Claimed::InProgress { .. })), "{other:?}");
                None
            }
        }
    })
    .await;
    let _: String = redis.nodes[owner].ask(&["CLUSTER", "ADDSLOTS", &slot]).await;
    eventually("a cluster that is whole", async || archive.complete(&token).await.ok()).await;
    let again = archive.records.claim(&claim("pay", 2)).await;
    assert!(matches!(again, Ok(Claimed::Completed { .. })), "{again:?}");
}

#[tokio::test]
async fn a_record_takes_little_more_than_its_answer() {
    let redis = Redis::start().await;
    let archive = Archive::open(servers(single(&redis))).await;
    // As long as the filter's fingerprints are: a version and a SHA-256.
    let mut claim = claim("pay", 1);
    claim.fingerprint = Fingerprint::new(1, "f".repeat(64));
    let fence = archive.records.claim(&claim).await.unwrap().fence().unwrap();
    let usage = async || redis.ask::<u64>(&["MEMORY", "USAGE", &key("pay")]).await;
    let in_progress = usage().await;
    let body = vec![b'x'; 4000];
    let answer = StoredAnswer { status: 201, body, ..StoredAnswer::default() };
    let outcome = Outcome::Stored(Arc::new(answer));
    let token = claim.token(fence);
    assert_eq!(archive.records.renew(&token, LEASE, RETENTION).await, Ok(Written::Done));
    let renewed = usage().await;
    assert_eq!(archive.records.complete(&token, &outcome, RETENTION).await, Ok(Written::Done));
    let completed = usage().await;
    assert!(in_progress <= 256 && renewed <= 384, "{in_progress} bytes, then {renewed}");
    // Redis rounds allocations of this size up by an eighth.
    assert!(completed <= 4000 + 4000 / 4 + 256, "{completed} bytes");
}
