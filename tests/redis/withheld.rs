//! Services that keep commands from everybody, or from our user: what these would have told, calls
//! show.

use crate::house::{House, cluster, config, limit, single};
use crate::support::eventually;
use crate::support::redis::{Redis, RedisCluster};
use tidegate::store::{Credentials, RedisServers, StoreError};

/// `ROLE` is known to nobody.
const NO_ROLE: [&str; 3] = ["--rename-command", "ROLE", "kept-from-us"];

/// A user on this server who lacks some rights.
async fn user_without(redis: &Redis, rights: &[&str]) {
    let user = ["ACL", "SETUSER", "tide", "on", ">pass", "~tg:*", "+@all"];
    let _: String = redis.ask(&[&user, rights].concat()).await;
}

fn as_user(servers: RedisServers) -> RedisServers {
    RedisServers { auth: Credentials::parse("tide:pass"), ..servers }
}

#[tokio::test]
async fn a_server_without_role_is_left_and_found_again() {
    let mut redis = Redis::start_with(&NO_ROLE).await;
    let house = House::open(config(single(&redis))).await;
    assert_eq!(house.take("a", limit(5)).await.unwrap().remaining, 4);

    let master = Redis::start().await;
    let _: String = redis.ask(&["REPLICAOF", "127.0.0.1", &master.port.to_string()]).await;
    assert_eq!(house.take("a", limit(5)).await, Err(StoreError::ReadOnly));
    let _: String = redis.ask(&["REPLICAOF", "NO", "ONE"]).await;
    house.decides().await;

    redis.process.kill();
    eventually("an outage", async || house.take("a", limit(5)).await.err()).await;
    redis.restart().await;
    house.decides().await;
}

#[tokio::test]
async fn a_server_decides_for_who_may_ask_nothing_about_it() {
    let redis = Redis::start().await;
    user_without(&redis, &["-role", "-info", "-client", "-ping"]).await;
    let house = House::open(config(as_user(single(&redis)))).await;
    assert_eq!(house.take("a", limit(5)).await.unwrap().remaining, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_tells_only_its_slots_is_followed_through_a_failover() {
    let mut redis = RedisCluster::start_with(&NO_ROLE).await;
    for node in &redis.nodes {
        user_without(node, &["-info", "-cluster", "+cluster|slots"]).await;
    }
    let house = House::open(config(as_user(cluster(&redis)))).await;
    for tag in ["a", "b", "c", "d"] {
        eventually("a decision", async || house.take(tag, limit(1000)).await.ok()).await;
    }
    let master = redis.master_of(redis.slot_of("{d|k=a}").await).await;
    redis.nodes[master].process.kill();
    eventually("the death", async || house.take("a", limit(1000)).await.err()).await;
    eventually("the replica", async || house.take("a", limit(1000)).await.ok()).await;
}
