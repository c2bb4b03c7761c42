//! A master that sentinels name.

use crate::house::{House, config, limit, servers};
use crate::support::eventually;
use crate::support::redis::Redis;
use tidegate::store::{RedisServers, Topology};

fn watched(sentinel: &Redis, master: &str) -> RedisServers {
    let sentinels = vec!["127.0.0.1:1".parse().unwrap(), sentinel.address().parse().unwrap()];
    servers(Topology::Sentinel { master: master.into(), sentinels })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_is_followed() {
    let mut master = Redis::start().await;
    let port = master.port.to_string();
    let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &port]).await;
    let sentinel = Redis::sentinel(&master).await;
    eventually("a sentinel that knows the replica", async || {
        let replicas: Vec<Vec<String>> = sentinel.ask(&["SENTINEL", "REPLICAS", "mymaster"]).await;
        let flags = replicas.first()?.iter().any(|field| field == "slave");
        flags.then_some(())
    })
    .await;
    let house = House::open(config(watched(&sentinel, "mymaster"))).await;
    house.take("a", limit(5)).await.unwrap();
    eventually("a replica that follows", async || {
        let info: String = replica.ask(&["INFO", "replication"]).await;
        info.contains("master_link_status:up").then_some(())
    })
    .await;
    master.process.kill();
    let decision = eventually("the new master", async || house.take("a", limit(5)).await.ok());
    assert_eq!(decision.await.remaining, 3);
    assert!(replica.connections().await > 0);
}

#[tokio::test]
async fn a_master_that_no_sentinel_knows_is_named() {
    let master = Redis::start().await;
    let sentinel = Redis::sentinel(&master).await;
    let complaint = House::start(config(watched(&sentinel, "other"))).complaint().await;
    let expected = format!("REDIS_URL: {} knows no master `other`", sentinel.address());
    assert_eq!(complaint, expected);
}
