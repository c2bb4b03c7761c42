//! Six nodes: slots, moves, failovers.

use crate::house::{House, batch, cluster, config, group, limit, limit_by, n_allowed, patient};
use crate::support::eventually;
use crate::support::redis::{Redis, RedisCluster};
use ::redis::cmd;
use futures_util::future::join_all;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tidegate::algorithm::{Algorithm, Charge};
use tidegate::store::StoreError;

/// The slot of a tag of these tests.
async fn slot(node: &Redis, tag: &str) -> u16 {
    node.ask(&["CLUSTER", "KEYSLOT", &format!("{{d|k={tag}}}")]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_admits_exactly_the_limit_of_every_tag() {
    let redis = RedisCluster::start().await;
    let house = House::open(patient(cluster(&redis))).await;
    let other = House::open(patient(cluster(&redis))).await;
    for algorithm in Algorithm::ALL {
        let limit = limit_by(algorithm, 20);
        let tags: Vec<String> = (0..12).map(|n| format!("{}{n}{{}}", algorithm.name())).collect();
        for tag in &tags {
            let takes = (0..30).map(|n| if n % 2 == 0 { &house } else { &other });
            let takes = join_all(takes.map(|house| house.take(tag, limit))).await;
            assert_eq!(n_allowed(&takes), 20, "{tag}");
        }
        let charges: Vec<_> =
            tags.iter().map(|tag| (tag.as_str(), limit, Charge::Take(1))).collect();
        assert_eq!(n_allowed(&house.decide(&batch(&charges)).await), 0, "all in one request");
    }
    for node in redis.nodes.iter().take(3) {
        assert!(!node.keys().await.is_empty(), "each master has its part");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_may_move_while_its_buckets_are_charged() {
    let redis = RedisCluster::start().await;
    let house = House::open(patient(cluster(&redis))).await;
    let tags: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let (done, n_taken) = (AtomicBool::new(false), AtomicU64::new(0));
    let charging = async {
        let mut rounds = 0;
        while !done.load(Ordering::SeqCst) || rounds < 3 {
            rounds += 1;
            let takes = join_all(tags.iter().map(|tag| house.take(tag, limit(1_000_000)))).await;
            let errors: Vec<_> = takes.iter().filter_map(|take| take.err()).collect();
            assert_eq!(errors, [], "single buckets are always decided");
            n_taken.fetch_add(1, Ordering::SeqCst);
        }
    };
    let moving = async {
        redis.reshard(0, 1, 1500).await;
        done.store(true, Ordering::SeqCst);
    };
    tokio::join!(charging, moving);
    let n_taken = n_taken.load(Ordering::SeqCst);
    for tag in &tags {
        let peek = house.ask(tag, limit(1_000_000), Charge::Peek).await.unwrap();
        // A token drips every 86 ms.
        assert!(peek.after <= n_taken && peek.after + 1000 > n_taken, "{tag}: {peek:?} {n_taken}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_is_on_the_move_is_asked_for_where_it_goes() {
    let redis = RedisCluster::start().await;
    let house = House::open(patient(cluster(&redis))).await;
    house.take("old", limit(5)).await.unwrap();
    let slot = slot(&redis.nodes[0], "old").await;
    let from = redis.master_of(slot).await;
    let to = (from + 1) % 3;
    let slot = slot.to_string();
    let (from_id, to_id) = (redis.id(from).await, redis.id(to).await);
    let importing = ["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id];
    let migrating = ["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id];
    let _: String = redis.nodes[to].ask(&importing).await;
    let _: String = redis.nodes[from].ask(&migrating).await;
    assert_eq!(house.take("old", limit(5)).await.unwrap().remaining, 3, "still where it was");
    let port = redis.nodes[to].port.to_string();
    let key = crate::house::key("old", limit(5));
    let _: String =
        redis.nodes[from].ask(&["MIGRATE", "127.0.0.1", &port, &key, "0", "1000"]).await;
    assert_eq!(house.take("old", limit(5)).await.unwrap().remaining, 2, "where it went");
    let takes = join_all((0..4).map(|_| house.take("old", limit(5)))).await;
    assert_eq!(n_allowed(&takes), 2);
    for node in redis.nodes.iter().take(3) {
        let _: String = node.ask(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]).await;
    }
    assert!(!house.take("old", limit(5)).await.unwrap().allowed, "and stays");
}

/// Two buckets of one tag, one of which has moved: neither server has both, and says to try again.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_torn_by_a_move_is_not_decided_in_halves() {
    let redis = RedisCluster::start().await;
    let house = House::open(config(cluster(&redis))).await;
    let (one, other) = (limit(5), limit_by(Algorithm::SlidingWindowCounter, 5));
    let charges = [("t", one, Charge::Take(1)), ("t", other, Charge::Take(1))];
    let list = group(&charges);
    assert_eq!(n_allowed(&house.decide(&list).await), 2);
    let slot = slot(&redis.nodes[0], "t").await;
    let from = redis.master_of(slot).await;
    let to = (from + 1) % 3;
    let (from_id, to_id) = (redis.id(from).await, redis.id(to).await);
    let slot = slot.to_string();
    let _: String =
        redis.nodes[to].ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]).await;
    let _: String =
        redis.nodes[from].ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]).await;
    let port = redis.nodes[to].port.to_string();
    let migrate = async |limit| {
        let key = crate::house::key("t", limit);
        let words = ["MIGRATE", "127.0.0.1", &port, &key, "0", "1000"];
        redis.nodes[from].ask::<String>(&words).await
    };
    migrate(one).await;
    assert_eq!(house.decide(&list).await[0], Err(StoreError::ClusterDown));
    migrate(other).await;
    let decided = house.decide(&list).await;
    let left: Vec<_> = decided.iter().map(|one| one.as_ref().unwrap().remaining).collect();
    assert_eq!(left, [3, 3], "what could not be decided has taken nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_death_of_a_master_touches_only_its_keys_until_its_replica_takes_over() {
    let mut redis = RedisCluster::start_with(&["--cluster-require-full-coverage", "no"]).await;
    let house = House::open(config(cluster(&redis))).await;
    let tags: Vec<String> = (0..30).map(|n| n.to_string()).collect();
    let mut of_dead = Vec::new();
    let mut of_others = Vec::new();
    for tag in &tags {
        let master = redis.master_of(slot(&redis.nodes[1], tag).await).await;
        if master == 0 {
            of_dead.push(tag);
        } else {
            of_others.push(tag);
        }
        eventually("a decision", async || house.take(tag, limit(1000)).await.ok()).await;
    }
    redis.nodes[0].process.kill();
    for node in &redis.nodes[1..3] {
        let _: String = node.ask(&["SCRIPT", "FLUSH"]).await;
    }
    let refused = house.take(of_dead[0], limit(1000)).await;
    assert!(refused.is_err());
    for tag in &of_others {
        let mut tries = 0;
        eventually("a decision of the living", async || {
            tries += 1;
            house.take(tag, limit(1000)).await.ok()
        })
        .await;
        assert!(tries <= 2, "{tag} was tried {tries} times");
    }
    for tag in of_dead {
        eventually("the replica", async || house.take(tag, limit(1000)).await.ok()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planned_failover_loses_no_count() {
    let redis = RedisCluster::start().await;
    let house = House::open(config(cluster(&redis))).await;
    house.take("a", limit(1000)).await.unwrap();
    let slot = slot(&redis.nodes[0], "a").await;
    let master = redis.master_of(slot).await;
    let master_id = redis.id(master).await;
    for node in &redis.nodes[3..] {
        let nodes: String = node.ask(&["CLUSTER", "NODES"]).await;
        let me = nodes.lines().find(|line| line.contains("myself")).unwrap();
        if me.contains(&master_id) {
            let _: String = node.try_ask(cmd("CLUSTER").arg("FAILOVER")).await.unwrap();
        }
    }
    eventually("the new master", async || (redis.master_of(slot).await != master).then_some(()))
        .await;
    let decision = eventually("a decision", async || house.take("a", limit(1000)).await.ok()).await;
    assert_eq!(decision.remaining, 998);
    eventually("no connection to the replica", async || {
        (redis.nodes[master].connections().await == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_wants_all_slots_says_at_once_that_it_is_down() {
    let mut redis = RedisCluster::start().await;
    let house = House::open(config(cluster(&redis))).await;
    let slot = slot(&redis.nodes[0], "a").await;
    let alive = redis.master_of(slot).await;
    let dead = (alive + 1) % 3;
    let dead_id = redis.id(dead).await;
    for at in 3..6 {
        let nodes: String = redis.nodes[at].ask(&["CLUSTER", "NODES"]).await;
        if nodes.lines().any(|line| line.contains("myself") && line.contains(&dead_id)) {
            redis.nodes[at].process.kill();
        }
    }
    redis.nodes[dead].process.kill();
    eventually("a cluster that is down", async || {
        let started = tokio::time::Instant::now();
        let outcome = house.take("a", limit(1000)).await;
        assert!(started.elapsed() < Duration::from_millis(200));
        (outcome == Err(StoreError::ClusterDown)).then_some(())
    })
    .await;
    redis.nodes[dead].restart().await;
    house.decides().await;
}
