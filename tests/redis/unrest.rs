//! No caller sees an error whatever befalls a cluster.

use crate::callers::{calls_while, decided_by_redis, deciders, on_cluster, users};
use crate::support::eventually;
use crate::support::grpc::{Client, Code, descriptor, request};
use crate::support::redis::{Redis, RedisCluster};
use crate::support::tidegate::Tidegate;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Waits until a shard's replica has taken its master's place.
async fn taken_over(redis: &RedisCluster, replica: usize) {
    eventually("the replica to take over", async || {
        let role: Vec<::redis::Value> = redis.nodes[replica].ask(&["ROLE"]).await;
        (role.first() == Some(&::redis::Value::BulkString(b"master".to_vec()))).then_some(())
    })
    .await;
}

async fn at_most(redis: &Redis, n: usize) {
    let found = redis.connections().await;
    assert!(found <= n, "{found} connections to {}", redis.port);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_caller_sees_masters_give_way_stop_or_die() {
    let mut redis = RedisCluster::start().await;
    let tidegate = on_cluster(&redis, &[("REDIS_POOL_SIZE", "2")]).await;
    let users = users();
    calls_while(&tidegate, &users, async {
        redis.fail_over(0).await;
        decided_by_redis(&tidegate, &users).await;
        let replica = redis.replica_of(1).await;
        redis.nodes[1].process.signal("STOP");
        taken_over(&redis, replica).await;
        decided_by_redis(&tidegate, &users).await;
        redis.nodes[1].process.signal("CONT");
        let replica = redis.replica_of(2).await;
        redis.nodes[2].process.kill();
        taken_over(&redis, replica).await;
        decided_by_redis(&tidegate, &users).await;
        for node in [0, 1, 3, 4, 5] {
            at_most(&redis.nodes[node], 2).await;
        }
        redis.nodes[2].restart().await;
        decided_by_redis(&tidegate, &users).await;
    })
    .await;
}

async fn lose_shard(redis: &mut RedisCluster, master: usize) -> usize {
    let replica = redis.replica_of(master).await;
    redis.nodes[replica].process.kill();
    redis.nodes[master].process.kill();
    replica
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_shard_touches_its_own_keys_only() {
    let mut redis = RedisCluster::start_with(&["--cluster-require-full-coverage", "no"]).await;
    let tidegate = on_cluster(&redis, &[]).await;
    let users = users();
    let mut of_lost = Vec::new();
    for user in &users {
        let slot = redis.slot_of(&format!("{{shop|local={user}}}")).await;
        of_lost.push(redis.master_of(slot).await == 0);
    }
    assert!(of_lost.contains(&true) && of_lost.contains(&false));
    calls_while(&tidegate, &users, async {
        lose_shard(&mut redis, 0).await;
        eventually("the lost shard's keys alone to do without", async || {
            let deciders = deciders(&tidegate, &users).await;
            let lost: Vec<_> = deciders.iter().map(|by| by != "store").collect();
            (lost == of_lost).then_some(())
        })
        .await;
        redis.nodes[0].restart().await;
        decided_by_redis(&tidegate, &users).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_shard_that_takes_all_with_it_is_no_error_either() {
    let mut redis = RedisCluster::start().await;
    let tidegate = on_cluster(&redis, &[]).await;
    let users = users();
    calls_while(&tidegate, &users, async {
        lose_shard(&mut redis, 0).await;
        eventually("everybody to be answered without Redis", async || {
            let deciders = deciders(&tidegate, &users).await;
            deciders.iter().all(|by| by == "local").then_some(())
        })
        .await;
        let down = "reason=\"cluster_down\"";
        assert!(tidegate.sum("tidegate_fallback_decisions_total", down).await >= 1.0);
        assert!(tidegate.log().contains("cluster-require-full-coverage"), "{}", tidegate.log());
        redis.nodes[0].restart().await;
        decided_by_redis(&tidegate, &users).await;
    })
    .await;
}

/// Slots move from master to master under load: Redis decides every single bucket, exactly.
#[tokio::test(flavor = "multi_thread")]
async fn no_decision_is_lost_while_slots_move() {
    const POLICY: &str = "\
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 4000000000 }
";
    let redis = RedisCluster::start().await;
    let url = redis.addresses().join(",");
    let settings =
        [("REDIS_TYPE", "cluster"), ("REDIS_URL", url.as_str()), ("REDIS_OP_TIMEOUT", "10s")];
    let servers = [
        Tidegate::start_with(POLICY, &settings).await,
        Tidegate::start_with(POLICY, &settings).await,
    ];
    let (ended, over) = watch::channel(false);
    let mut callers = JoinSet::new();
    for user in 0..30 {
        let clients = [servers[0].client().await, servers[1].client().await];
        callers.spawn(charge_until(over.clone(), clients, user));
    }
    redis.reshard(0, 1, 300).await;
    redis.reshard(1, 2, 300).await;
    ended.send(true).unwrap();
    callers.join_all().await;
    for server in &servers {
        assert!(server.sum("tidegate_fallback_decisions_total", "").await < 1.0);
    }
}

/// Charges a user in turn through each server: each charge counts once, whoever makes it.
async fn charge_until(over: watch::Receiver<bool>, mut clients: [Client; 2], user: u32) {
    let user = user.to_string();
    let mut n_charged = 0;
    while !*over.borrow() {
        for client in &mut clients {
            let asked = request("shop", vec![descriptor(&[("user", &user)])]);
            let answer = client.ask(asked).await.unwrap();
            n_charged += 1;
            assert_eq!(answer.overall_code(), Code::Ok);
            assert_eq!(answer.statuses[0].limit_remaining, 4_000_000_000 - n_charged, "{user}");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(n_charged > 0);
}
