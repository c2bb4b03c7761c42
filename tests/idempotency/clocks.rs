//! Clocks apart: those of two Tidegates, and that of a Redis master and of the one before it. What the
//! former master wrote by its own clock is made by moving the times of what is stored.

use crate::answers::problem;
use crate::defects;
use crate::scene::{self, NO_LIMITS, POLICY, Scene, Setting};
use crate::service::Service;
use crate::support::envoy::Envoy;
use crate::support::eventually;
use crate::support::http::{self, Answer};
use crate::support::redis::Redis;
use crate::support::tidegate::Tidegate;
use ::redis::cmd;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tidegate::clock::{Clock, ManualClock, Micros, SystemClock};
use tidegate::idempotency::Records;
use tidegate::settings::servers::RecordServers;
use tidegate::store::{OpTimeout, RedisServers, Topology};
use tidegate::telemetry::Metrics;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The seconds of a lease, if the policy says nothing.
const LEASE: u64 = 60;

/// Where the times stand in a record: the end of its lease, and since when it is as it is.
const TIMES: [Range<usize>; 2] = [26..33, 33..40];

/// Moves the times of the only record, by seconds.
async fn shift(redis: &Redis, seconds: i64) {
    let key = redis.keys().await.remove(0);
    let mut record: Vec<u8> = redis.try_ask(cmd("GET").arg(&key)).await.unwrap();
    for place in TIMES {
        let time = record[place.clone()].iter().fold(0, |time, byte| time << 8 | i64::from(*byte));
        let moved = (time + seconds * 1_000_000).to_be_bytes();
        record[place].copy_from_slice(&moved[1..]);
    }
    let set = &mut cmd("SET");
    let _: String = redis.try_ask(set.arg(&key).arg(record).arg("KEEPTTL")).await.unwrap();
}

async fn scene(redis: &Redis) -> Scene {
    let address = redis.address();
    let settings = vec![("REDIS_URL", address.as_str()), ("IDEMPOTENCY_STORE_TIMEOUT", "5s")];
    Scene::start_with(Setting { policy: Some(POLICY), settings, ..Setting::default() }).await
}

#[tokio::test]
async fn a_master_that_is_behind_lets_nobody_wait_for_longer_than_a_lease() {
    let redis = Redis::start().await;
    let scene = scene(&redis).await;
    let (first, ()) = tokio::join!(scene.post("/slow", "k", ""), async {
        scene.ran(1).await;
        shift(&redis, 120).await;
        for _ in 0..20 {
            let retry = scene.post("/slow", "k", "").await;
            assert_eq!(problem(&retry), "in-progress");
            assert!((1..=LEASE).contains(&retry.number("retry-after")), "{retry:?}");
        }
        scene.service.open_gate();
    });
    assert_eq!(first.status, 201);
    assert_eq!(scene.post("/slow", "k", "").await.header("idempotent-replayed"), "true");
    assert_eq!(scene.service.n_ran(), 1);
}

#[tokio::test]
async fn a_master_that_is_ahead_runs_nothing_twice_where_leases_hold() {
    let redis = Redis::start().await;
    let scene = scene(&redis).await;
    let (first, ()) = tokio::join!(scene.post("/slow", "k", ""), async {
        scene.ran(1).await;
        shift(&redis, -120).await;
        assert_eq!(problem(&scene.post("/slow", "k", "").await), "outcome-unknown");
        scene.service.open_gate();
    });
    assert_eq!(first.status, 201);
    assert_eq!(scene.post("/slow", "k", "").await.header("idempotent-replayed"), "true");
    assert_eq!(scene.service.n_ran(), 1);
}

fn servers(redis: &Redis) -> RedisServers {
    RedisServers {
        variables: "REDIS",
        topology: Topology::Single(redis.address().parse().unwrap()),
        database: 0,
        auth: None,
        auth_file: None,
        sentinel_auth: None,
        tls: None,
        pool_size: 1,
        connect_timeout: Duration::from_secs(5),
        op_timeout: OpTimeout::Fixed(Duration::from_secs(5)),
    }
}

/// A filter with its own clock, and the Envoy in front of it.
struct Edge {
    envoy: Envoy,
    _stop: tokio_util::sync::DropGuard,
}

impl Edge {
    async fn start(
        redis: &Redis,
        clock: ManualClock,
        service: &Service,
        limits: &Tidegate,
    ) -> Self {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let servers = RecordServers {
            servers: servers(redis),
            max_in_flight: 10,
            key_prefix: "".into(),
            timeout: Duration::from_secs(5),
            allow_eviction: false,
        };
        let metrics = Metrics::new(1);
        let series = metrics.record_store_series();
        let records = Records::in_redis(servers, series, &tasks, &stop).unwrap();
        let filter = defects::filter(records, Arc::new(clock), POLICY).await;
        let envoy = scene::envoy(service.address, limits.grpc, filter, &[]).await;
        Self { envoy, _stop: stop.drop_guard() }
    }

    async fn post(&self, path: &str, key: &str) -> Answer {
        let headers = [("x-user", "ann"), ("idempotency-key", key)];
        http::ask(self.envoy.address, "POST", path, &headers, "{}").await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tidegates_whose_clocks_are_apart_wait_for_each_others_leases() {
    let (redis, service) = (Redis::start().await, Service::start().await);
    let limits = Tidegate::start(NO_LIMITS).await;
    let (now, apart) = (SystemClock::new().now(), Micros::from_secs(600));
    let late = ManualClock::at(now.saturating_sub(apart));
    let early = ManualClock::at(now.saturating_add(apart));
    let late = Edge::start(&redis, late, &service, &limits).await;
    let early = Edge::start(&redis, early, &service, &limits).await;
    for (n, (one, other)) in [(&late, &early), (&early, &late)].into_iter().enumerate() {
        let key = n.to_string();
        eventually("both to answer", async || {
            let statuses =
                [one.post("/pay", "warm").await.status, other.post("/pay", "warm").await.status];
            (statuses == [201, 201]).then_some(())
        })
        .await;
        let before = service.n_ran();
        let (first, ()) = tokio::join!(one.post("/slow", &key), async {
            eventually("a run", async || (service.n_ran() > before).then_some(())).await;
            let retry = other.post("/slow", &key).await;
            assert_eq!(problem(&retry), "in-progress");
            assert!((1..=LEASE).contains(&retry.number("retry-after")), "{retry:?}");
            service.open_gate();
        });
        let retry = other.post("/slow", &key).await;
        assert_eq!((retry.status, &retry.body), (201, &first.body));
        assert_eq!(service.n_ran(), before + 1);
    }
}
