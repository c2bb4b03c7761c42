//! Services that keep commands from everybody, or from our user: what these would have told, calls
//! show.

use crate::house::{House, cluster, config, limit, servers, single};
use crate::support::eventually;
use crate::support::grpc::descriptor;
use crate::support::redis::{Redis, RedisCluster};
use crate::support::tidegate::Tidegate;
use tidegate::store::{Credentials, RedisServers, StoreError, Topology};

/// `ROLE` is known to nobody.
const NO_ROLE: [&str; 3] = ["--rename-command", "ROLE", "kept-from-us"];

const POLICY: &str = "\
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 5 }
";

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
async fn a_cluster_that_tells_only_its_slots_is_followed_through_failovers() {
    let mut redis = RedisCluster::start_with(&NO_ROLE).await;
    for node in &redis.nodes {
        user_without(node, &["-info", "-cluster", "+cluster|slots"]).await;
    }
    let house = House::open(config(as_user(cluster(&redis)))).await;
    for tag in ["a", "b", "c", "d"] {
        eventually("a decision", async || house.take(tag, limit(1000)).await.ok()).await;
    }
    let slot = redis.slot_of("{d|k=a}").await;
    let master = redis.master_of(slot).await;
    let replica = redis.replica_of(master).await;
    let _: String = redis.nodes[replica].ask(&["CLUSTER", "FAILOVER"]).await;
    eventually("the new master", async || (redis.master_of(slot).await == replica).then_some(()))
        .await;
    eventually("its decision", async || house.take("a", limit(1000)).await.ok()).await;
    redis.nodes[replica].process.kill();
    eventually("the death", async || house.take("a", limit(1000)).await.err()).await;
    eventually("the old master", async || house.take("a", limit(1000)).await.ok()).await;
}

#[tokio::test]
async fn a_cluster_that_does_not_tell_its_slots_is_named() {
    let node = Redis::start_with(&["--cluster-enabled", "yes"]).await;
    user_without(&node, &["-cluster|slots"]).await;
    let seeds = vec![node.address().parse().unwrap()];
    let house = House::start(config(as_user(servers(Topology::Cluster { seeds }))));
    let what = "does not let this user call `CLUSTER SLOTS`";
    assert_eq!(house.complaint().await, format!("REDIS_AUTH: {} {what}", node.address()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_checked_is_logged_once_for_a_server() {
    let redis = Redis::start_with(&NO_ROLE).await;
    user_without(&redis, &["-info"]).await;
    let url = format!("redis://tide:pass@{}", redis.address());
    let settings = [("REDIS_URL", url.as_str()), ("REDIS_OP_TIMEOUT", "5s")];
    let tidegate = Tidegate::start_with(POLICY, &settings).await;
    let line = "whether it is a master (ROLE), whether it evicts keys (INFO)";
    let n_lines = || tidegate.log().matches(line).count();
    eventually("a line", async || (n_lines() > 0).then_some(())).await;
    assert_eq!(n_lines(), 1, "{}", tidegate.log());
    let asked = descriptor(&[("user", "alice")]);
    let status = tidegate.client().await.status("shop", asked).await;
    assert_eq!(status.limit_remaining, 4);
    assert_eq!(redis.keys().await.len(), 1);
    assert!(tidegate.sum("tidegate_fallback_decisions_total", "").await.abs() < 0.5);
}
