//! What happens when the server or the way to it fails.

use crate::house::{House, at, config, limit, patient, single};
use crate::support::eventually;
use crate::support::proxy::Proxy;
use crate::support::redis::Redis;
use ::redis::cmd;
use futures_util::future::join_all;
use std::time::Duration;
use tidegate::algorithm::Charge;
use tidegate::store::{OpTimeout, RedisConfig, RedisServers, StoreError};
use tokio::time::{Instant, timeout};

/// So soon decisions must come again once the server is back; the machine may be busy.
const SOON: Duration = Duration::from_secs(3);

async fn connected(redis: &Redis, n: usize) {
    eventually("all connections", async || (redis.connections().await == n).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_is_never_asked_for_again() {
    let redis = Redis::start().await;
    let proxy = Proxy::start(redis.port).await;
    let house = House::open(config(at(&proxy.address()))).await;
    house.take("a", limit(100)).await.unwrap();
    proxy.swallow(true);
    let lost = house.ask("a", limit(100), Charge::Take(10)).await;
    assert_eq!(lost, Err(StoreError::Timeout));
    proxy.swallow(false);
    proxy.cut();
    // Once for what was answered, once for what was lost, once for this.
    let decision = eventually("a decision", async || house.take("a", limit(100)).await.ok()).await;
    assert!([88, 98].contains(&decision.remaining), "{decision:?}");
    assert_eq!(decision.remaining, 88, "the lost call had been decided");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_connection_is_opened_again_and_never_one_more() {
    let redis = Redis::start().await;
    let proxy = Proxy::start(redis.port).await;
    let house = House::open(config(at(&proxy.address()))).await;
    for _ in 0..3 {
        connected(&redis, 4).await;
        proxy.cut();
        let again = eventually("a decision", async || house.take("a", limit(100)).await.ok());
        timeout(SOON, again).await.unwrap();
    }
    connected(&redis, 4).await;
    assert_eq!(proxy.n_accepted(), 4 * 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_became_a_replica_is_left() {
    let (old, new) = (Redis::start().await, Redis::start().await);
    let proxy = Proxy::start(old.port).await;
    let house = House::open(config(at(&proxy.address()))).await;
    connected(&old, 4).await;
    proxy.lead_to(new.port);
    let _: String = old.ask(&["REPLICAOF", "127.0.0.1", &new.port.to_string()]).await;
    let mut errors = Vec::new();
    let again = eventually("a decision by the new master", async || {
        let outcome = house.take("a", limit(100)).await;
        errors.extend(outcome.err());
        outcome.ok()
    });
    timeout(SOON, again).await.unwrap();
    assert!(errors.contains(&StoreError::ReadOnly), "{errors:?}");
    eventually("nothing but the new master", async || {
        (new.connections().await == 4 && old.connections().await == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_server_costs_a_deadline_and_then_nothing() {
    let redis = Redis::start().await;
    let house = House::open(config(single(&redis))).await;
    connected(&redis, 4).await;
    let before = redis.info("total_connections_received").await;
    redis.process.signal("STOP");
    let deadline = Duration::from_millis(200);
    let mut errors = Vec::new();
    let opened = eventually("the breaker", async || {
        let started = Instant::now();
        let error = house.take("a", limit(100)).await.unwrap_err();
        assert!(started.elapsed() < deadline, "{error} after {:?}", started.elapsed());
        errors.push(error);
        (error == StoreError::BreakerOpen).then_some(())
    });
    opened.await;
    assert!(errors.len() <= 8, "{errors:?}");
    for _ in 0..1000 {
        assert_eq!(house.take("a", limit(100)).await, Err(StoreError::BreakerOpen));
    }
    redis.process.signal("CONT");
    let again = eventually("a decision", async || house.take("b", limit(100)).await.ok());
    timeout(SOON, again).await.unwrap();
    connected(&redis, 4).await;
    // Those that this test made itself: one for each question.
    let after = redis.info("total_connections_received").await;
    assert!(after - before < 10, "{}", after - before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_is_used_within_a_second() {
    let mut redis = Redis::start().await;
    let house = House::open(config(single(&redis))).await;
    redis.process.kill();
    eventually("the breaker", async || {
        (house.take("a", limit(100)).await == Err(StoreError::BreakerOpen)).then_some(())
    })
    .await;
    redis.restart().await;
    let again = eventually("a decision", async || house.take("a", limit(100)).await.ok());
    timeout(SOON, again).await.unwrap();
    connected(&redis, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_busy_with_a_script_is_left_alone_until_it_is_killed() {
    let redis = Redis::start_with(&["--lua-time-limit", "50"]).await;
    let house = House::open(config(single(&redis))).await;
    let endless = async { redis.try_ask::<i64>(cmd("EVAL").arg("while true do end").arg(0)).await };
    let rest = async {
        eventually("a refusal", async || {
            let error = house.take("a", limit(100)).await.err();
            (error == Some(StoreError::BreakerOpen)).then_some(())
        })
        .await;
        eventually("the script's end", async || {
            let killed = redis.try_ask::<String>(cmd("SCRIPT").arg("KILL")).await;
            killed.ok().map(|_| ())
        })
        .await;
        house.decides().await;
    };
    tokio::join!(async { endless.await.unwrap_err() }, rest);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_may_be_under_way_are_refused_at_once() {
    let redis = Redis::start().await;
    let config = RedisConfig {
        max_in_flight: 10,
        ..config(RedisServers {
            op_timeout: OpTimeout::Fixed(Duration::from_millis(300)),
            ..single(&redis)
        })
    };
    let house = House::open(config).await;
    redis.process.signal("STOP");
    let outcomes = join_all((0..30).map(|n| {
        let house = &house;
        async move {
            let started = Instant::now();
            let error = house.take(&n.to_string(), limit(5)).await.unwrap_err();
            (error, started.elapsed())
        }
    }))
    .await;
    let refused = outcomes.iter().filter(|(error, _)| *error == StoreError::Overloaded);
    assert_eq!(refused.clone().count(), 20);
    assert!(refused.into_iter().all(|(_, took)| *took < Duration::from_millis(200)));
    redis.process.signal("CONT");
    house.decides().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_that_nobody_waits_for_is_not_sent() {
    let redis = Redis::start().await;
    let proxy = Proxy::start(redis.port).await;
    let servers = RedisServers { pool_size: 1, ..at(&proxy.address()) };
    let house = House::open(patient(servers)).await;
    proxy.delay(Duration::from_millis(500));
    let a = crate::house::key("a", limit(100));
    let impatient = async {
        eventually("the first call", async || redis.keys().await.contains(&a).then_some(())).await;
        timeout(Duration::from_millis(20), house.take("b", limit(100))).await
    };
    let (first, gone) = tokio::join!(house.take("a", limit(100)), impatient);
    assert!(first.unwrap().allowed && gone.is_err());
    proxy.delay(Duration::ZERO);
    assert_eq!(house.take("b", limit(100)).await.unwrap().remaining, 99);
}
