//! What Kubernetes makes of the server while Redis is away, as Envoy Gateway deploys it: a startup
//! probe, a readiness probe every 5 s that hides the pod at its first failure, a liveness probe every
//! 10 s that ends it at the third, all of them on `/healthcheck`, each given a second.
//!
//! Here a readiness probe comes every 50 ms and a liveness probe every 100 ms, so that an outage of
//! some seconds is met by a hundred times more of them.

use crate::callers::{decided_by_redis, on, somebody_falls_back, users};
use crate::support::redis::{Redis, free_port};
use crate::support::tidegate::Tidegate;
use crate::support::{eventually, http};
use std::time::Duration;
use tokio::time::{interval, timeout};

const READINESS: Duration = Duration::from_millis(50);
const PROBES_PER_LIVENESS: u32 = 2;
const FAILURES_TO_END: u32 = 3;

/// Whether a probe succeeds.
async fn probe(tidegate: &Tidegate) -> bool {
    let answer = timeout(Duration::from_secs(1), http::try_get(tidegate.http, "/healthcheck"));
    matches!(answer.await, Ok(Ok(answer)) if answer.status == 200)
}

/// Plays the probes of a pod that has started, until something has happened: it is neither hidden
/// nor ended.
async fn stays<T>(tidegate: &Tidegate, happening: impl Future<Output = T>) -> T {
    let probing = async {
        let mut tick = interval(READINESS);
        let mut n_failed = 0;
        for n in 0_u32.. {
            tick.tick().await;
            let succeeded = probe(tidegate).await;
            if n % PROBES_PER_LIVENESS == 0 {
                n_failed = if succeeded { 0 } else { n_failed + 1 };
                assert!(n_failed < FAILURES_TO_END, "ended at probe {n}");
            }
            assert!(succeeded, "hidden at probe {n}");
        }
    };
    tokio::select! {
        happened = happening => happened,
        () = probing => unreachable!("probes have no end"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_neither_ends_nor_hides_a_server() {
    let mut redis = Redis::start().await;
    let tidegate = on(&redis.address(), &[]).await;
    let users = users();
    for dies in [true, false] {
        stays(&tidegate, async {
            if dies {
                redis.process.kill();
            } else {
                redis.process.signal("STOP");
            }
            somebody_falls_back(&tidegate, &users).await;
            let mut tick = interval(Duration::from_millis(100));
            for _ in 0..30 {
                tick.tick().await;
                tidegate.client().await.decided_by("shop", &[("local", "x")]).await.unwrap();
            }
            if dies {
                redis.restart().await;
            } else {
                redis.process.signal("CONT");
            }
            decided_by_redis(&tidegate, &users).await;
        })
        .await;
    }
}

/// Starting while Redis is away takes the time of grace, and is then a start like any other.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_starts_in_an_outage_starts_after_its_grace() {
    let port = free_port();
    let url = format!("127.0.0.1:{port}");
    let settings = [("REDIS_URL", url.as_str()), ("START_GRACE", "1s")];
    let settings = [&settings[..], &[("RESPONSE_DYNAMIC_METADATA", "true")]].concat();
    let tidegate = Tidegate::start_unready(crate::callers::POLICY, &settings).await;
    assert!(!probe(&tidegate).await, "not before its grace is over");
    let mut client = tidegate.client().await;
    let (_, by) = client.decided_by("shop", &[("local", "x")]).await.unwrap();
    assert_eq!(by, "local", "calls are answered from the start");
    eventually("the startup probe", async || probe(&tidegate).await.then_some(())).await;
    let users = users();
    stays(&tidegate, async {
        let redis = Redis::start_at(port).await;
        decided_by_redis(&tidegate, &users).await;
        redis
    })
    .await;
}
