//! The built program on Redis as its callers see it, while things happen to Redis.

use crate::support::eventually;
use crate::support::grpc::{Client, Code};
use crate::support::redis::RedisCluster;
use crate::support::tidegate::Tidegate;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Limits that nobody reaches, one for each failure mode.
pub const POLICY: &str = "\
domain: shop
descriptors:
  - key: local
    rate_limit: { unit: day, requests_per_unit: 100000000 }
  - key: open
    rate_limit: { unit: day, requests_per_unit: 7, failure_mode: open }
  - key: closed
    rate_limit: { unit: day, requests_per_unit: 100000000, failure_mode: closed }
  - key: error
    rate_limit: { unit: day, requests_per_unit: 100000000, failure_mode: error }
";

/// No call may take so long, however busy the machine: far more than any deadline here, far less
/// than any outage.
const LONG: Duration = Duration::from_secs(1);

/// Between two calls of one user.
const PAUSE: Duration = Duration::from_millis(20);

/// A Tidegate that tells who decided. Its deadline lets a busy machine be busy.
pub async fn on(url: &str, settings: &[(&str, &str)]) -> Tidegate {
    let always =
        [("REDIS_URL", url), ("REDIS_OP_TIMEOUT", "100ms"), ("RESPONSE_DYNAMIC_METADATA", "true")];
    Tidegate::start_with(POLICY, &[&always, settings].concat()).await
}

/// A Tidegate on a cluster.
pub async fn on_cluster(cluster: &RedisCluster, settings: &[(&str, &str)]) -> Tidegate {
    let url = cluster.addresses().join(",");
    on(&url, &[&[("REDIS_TYPE", "cluster")], settings].concat()).await
}

/// Names of users, some of them on every shard.
pub fn users() -> Vec<String> {
    (0..24).map(|n| format!("u{n}")).collect()
}

/// Calls for each of these users again and again until something has happened. No call may fail or
/// take long.
pub async fn calls_while<T>(
    tidegate: &Tidegate,
    users: &[String],
    happening: impl Future<Output = T>,
) -> T {
    let over = CancellationToken::new();
    let mut callers = tokio::task::JoinSet::new();
    for user in users {
        let (client, user, over) = (tidegate.client().await, user.clone(), over.clone());
        callers.spawn(call_until(over, client, user));
    }
    let happened = happening.await;
    over.cancel();
    callers.join_all().await;
    happened
}

async fn call_until(over: CancellationToken, mut client: Client, user: String) {
    while !over.is_cancelled() {
        let began = Instant::now();
        let answer = client.decided_by("shop", &[("local", &user)]).await;
        assert!(began.elapsed() < LONG, "{user} waited {:?}", began.elapsed());
        answer.unwrap_or_else(|status| panic!("{user} got {status:?}"));
        tokio::time::sleep(PAUSE).await;
    }
}

/// Who decides for each of these users now; a refusal would be a fault.
pub async fn deciders(tidegate: &Tidegate, users: &[String]) -> Vec<String> {
    let mut client = tidegate.client().await;
    let mut deciders = Vec::new();
    for user in users {
        let (code, by) = client.decided_by("shop", &[("local", user)]).await.unwrap();
        assert!(code == Code::Ok || by == "local", "{user}: {code:?} by {by}");
        deciders.push(by);
    }
    deciders
}

/// Waits until Redis decides for every one of them.
pub async fn decided_by_redis(tidegate: &Tidegate, users: &[String]) {
    let mut client = tidegate.client().await;
    for user in users {
        eventually(&format!("Redis to decide for {user}"), async || {
            let (_, by) = client.decided_by("shop", &[("local", user)]).await.unwrap();
            (by == "store").then_some(())
        })
        .await;
    }
}

/// Waits until somebody is answered without Redis.
pub async fn somebody_falls_back(tidegate: &Tidegate, users: &[String]) {
    eventually("somebody to be answered without Redis", async || {
        deciders(tidegate, users).await.iter().any(|by| by == "local").then_some(())
    })
    .await;
}
