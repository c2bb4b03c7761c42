//! One server.

use crate::house::{
    DAY, House, batch, config, group, key, limit, limit_by, n_allowed, patient, single, unix,
};
use crate::support::redis::Redis;
use futures_util::future::join_all;
use std::time::Duration;
use tidegate::algorithm::{Algorithm, Anchor, Charge, Limit};
use tidegate::clock::Micros;
use tidegate::store::{KeySecret, RedisConfig, RedisServers, StoreError};

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_together_admit_exactly_the_limit() {
    let redis = Redis::start().await;
    for coalesce in [true, false] {
        let config = || RedisConfig { coalesce, ..patient(single(&redis)) };
        let (one, other) = (House::open(config()).await, House::open(config()).await);
        for algorithm in Algorithm::ALL {
            let tag = format!("{}{coalesce}", algorithm.name());
            let limit = limit_by(algorithm, 300);
            let takes = (0..1000).map(|n| {
                let house = if n % 2 == 0 { &one } else { &other };
                house.take(&tag, limit)
            });
            assert_eq!(n_allowed(&join_all(takes).await), 300, "{tag}");
        }
    }
}

#[tokio::test]
async fn each_outcome_stands_at_the_place_of_its_item() {
    let redis = Redis::start().await;
    let house = House::open(patient(single(&redis))).await;
    let charges = [
        ("a", limit(5), Charge::Take(3)),
        ("b", limit(2), Charge::Take(3)),
        ("c", limit_by(Algorithm::FixedWindow(Anchor::Epoch), 9), Charge::Take(9)),
        ("a", limit(5), Charge::Take(3)),
        ("a", limit(5), Charge::Take(2)),
    ];
    let outcomes = house.decide(&batch(&charges)).await;
    let decided = |at: usize| outcomes[at].as_ref().map(|one| (one.allowed, one.remaining));
    assert_eq!(
        (0..5).map(decided).collect::<Vec<_>>(),
        [Ok((true, 2)), Ok((false, 2)), Ok((true, 0)), Ok((false, 2)), Ok((true, 0))]
    );
}

#[tokio::test]
async fn a_group_across_tags_is_decided_as_one() {
    let redis = Redis::start().await;
    let house = House::open(patient(single(&redis))).await;
    let charges = [("a", limit(5), Charge::Take(1)), ("b", limit(5), Charge::Take(6))];
    let outcomes = house.decide(&group(&charges)).await;
    assert_eq!(outcomes[0].as_ref().map(|one| (one.allowed, one.remaining)), Ok((true, 5)));
    assert_eq!(outcomes[1].as_ref().map(|one| (one.allowed, one.remaining)), Ok((false, 5)));
    assert!(!redis.keys().await.contains(&key("a", limit(5))), "nothing was consumed");
}

#[tokio::test(flavor = "multi_thread")]
async fn charges_that_wait_share_a_call() {
    let redis = Redis::start().await;
    let house = House::open(patient(single(&redis))).await;
    let before = redis.calls("evalsha").await;
    for _ in 0..20 {
        join_all((0..128).map(|_| house.take("hot", limit(10_000)))).await;
    }
    let n_calls = redis.calls("evalsha").await - before;
    assert!(n_calls <= 20 * 128 / 8, "{n_calls} calls");
}

#[tokio::test]
async fn without_coalescing_each_request_is_a_call() {
    let redis = Redis::start().await;
    let house = House::open(RedisConfig { coalesce: false, ..patient(single(&redis)) }).await;
    let before = redis.calls("evalsha").await + redis.calls("eval").await;
    join_all((0..100).map(|_| house.take("hot", limit(10_000)))).await;
    let after = redis.calls("evalsha").await + redis.calls("eval").await;
    assert_eq!(after - before, 100);
}

#[tokio::test]
async fn keys_carry_the_prefix_and_expire() {
    let redis = Redis::start().await;
    let config = RedisConfig { key_prefix: "shop:".into(), ..patient(single(&redis)) };
    let house = House::open(config).await;
    house.take("a", limit(5)).await.unwrap();
    let key = format!("shop:{}", key("a", limit(5)));
    assert!(redis.keys().await.contains(&key));
    let ttl: u64 = redis.ask(&["PTTL", &key]).await;
    // A fifth of a day until it is full again, and a second.
    assert!((17_281_000 - 30_000..=17_281_001).contains(&ttl), "{ttl}");
}

/// What stores nothing renews no expiry, and what stores something never leaves a key without one.
#[tokio::test]
async fn an_expiry_is_renewed_by_what_is_recorded_and_by_nothing_else() {
    let redis = Redis::start().await;
    let house = House::open(patient(single(&redis))).await;
    let ttl = async |key: &str| -> i64 { redis.ask(&["PTTL", key]).await };
    let soon = 1_000_000;
    for algorithm in Algorithm::ALL {
        let (tag, limit) = (algorithm.name(), limit_by(algorithm, 3));
        let key = key(tag, limit);
        house.ask(tag, limit, Charge::Peek).await.unwrap();
        assert_eq!(ttl(&key).await, -2, "{tag}: a peek creates nothing");
        house.ask(tag, limit, Charge::Take(2)).await.unwrap();
        assert!(ttl(&key).await > 0, "{tag}");
        for charge in [Charge::Peek, Charge::Take(9), Charge::Refund(0)] {
            let _: i64 = redis.ask(&["PEXPIRE", &key, &soon.to_string()]).await;
            house.ask(tag, limit, charge).await.unwrap();
            let left = ttl(&key).await;
            assert!(0 < left && left <= soon, "{tag}: {left} after {charge:?}");
        }
        for charge in [Charge::Take(1), Charge::Refund(1)] {
            let _: i64 = redis.ask(&["PERSIST", &key]).await;
            house.ask(tag, limit, charge).await.unwrap();
            assert!(ttl(&key).await > 0, "{tag}: none after {charge:?}");
        }
    }
}

#[tokio::test]
async fn no_algorithm_reads_what_another_has_stored() {
    let redis = Redis::start().await;
    let house = House::open(patient(single(&redis))).await;
    for algorithm in Algorithm::ALL {
        assert_eq!(house.take("a", limit_by(algorithm, 3)).await.unwrap().remaining, 2);
    }
    // The probe of the start is one more.
    assert_eq!(redis.keys().await.len(), Algorithm::ALL.len() + 1);
}

#[tokio::test]
async fn an_expiry_is_later_at_random_if_so_wished() {
    let redis = Redis::start().await;
    let jitter = Duration::from_secs(300);
    let house = House::open(RedisConfig { expiry_jitter: jitter, ..patient(single(&redis)) }).await;
    let mut ttls = std::collections::BTreeSet::new();
    for n in 0..20 {
        let tag = n.to_string();
        house.take(&tag, limit(86_400)).await.unwrap();
        let ttl: u64 = redis.ask(&["PTTL", &key(&tag, limit(86_400))]).await;
        assert!(ttl <= 302_001, "{ttl}");
        ttls.insert(ttl / 1000);
    }
    assert!(ttls.len() > 5, "{ttls:?}");
}

#[tokio::test]
async fn a_brace_in_the_prefix_is_refused() {
    let redis = Redis::start().await;
    let config = RedisConfig { key_prefix: "{x}".into(), ..config(single(&redis)) };
    let (tasks, stop) = Default::default();
    let error = tidegate::store::RedisStore::start(
        config,
        tidegate::telemetry::Metrics::new(1).store_series(),
        &tasks,
        &stop,
    )
    .unwrap_err();
    assert!(error.to_string().starts_with("CACHE_KEY_PREFIX: "), "{error}");
}

#[tokio::test]
async fn hashed_keys_show_nothing() {
    let redis = Redis::start().await;
    let secret = Some(KeySecret(b"secret".as_slice().into()));
    let hashed = || RedisConfig { key_secret: secret.clone(), ..patient(single(&redis)) };
    let (one, other) = (House::open(hashed()).await, House::open(hashed()).await);
    assert_eq!(one.take("somebody", limit(2)).await.unwrap().remaining, 1);
    assert_eq!(other.take("somebody", limit(2)).await.unwrap().remaining, 0);
    assert!(redis.keys().await.iter().all(|key| !key.contains("somebody") && !key.contains('=')));
    let batch = batch(&[("somebody", limit(2), Charge::Peek)]);
    assert!(one.store.reset(&batch, &batch.items[0]).await.unwrap());
    assert_eq!(one.take("somebody", limit(2)).await.unwrap().remaining, 1);
}

#[tokio::test]
async fn a_bucket_can_be_looked_at_and_forgotten() {
    let redis = Redis::start().await;
    let house = House::open(patient(single(&redis))).await;
    let batch = batch(&[("a", limit(5), Charge::Peek)]);
    let inspect = async || house.store.inspect(&batch, &batch.items[0]).await.unwrap();
    assert_eq!(inspect().await, None);
    house.ask("a", limit(5), Charge::Take(3)).await.unwrap();
    let found = inspect().await.unwrap();
    assert_eq!((found.after, found.remaining), (3, 2));
    assert!(house.store.reset(&batch, &batch.items[0]).await.unwrap());
    assert!(!house.store.reset(&batch, &batch.items[0]).await.unwrap());
    assert_eq!(inspect().await, None);
}

#[tokio::test]
async fn scripts_that_were_flushed_are_sent_again() {
    let redis = Redis::start().await;
    let house = House::open(patient(single(&redis))).await;
    for _ in 0..3 {
        let _: String = redis.ask(&["SCRIPT", "FLUSH"]).await;
        house.take("a", limit(5)).await.unwrap();
    }
    assert_eq!(house.take("a", limit(5)).await.unwrap().remaining, 1);
}

#[tokio::test]
async fn a_unix_socket_is_a_way_too() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("redis.sock");
    let _redis = Redis::start_with(&["--unixsocket", socket.to_str().unwrap()]).await;
    let house = House::open(patient(unix(&socket))).await;
    assert!(house.take("a", limit(5)).await.unwrap().allowed);
}

#[tokio::test]
async fn another_database_can_be_chosen() {
    let redis = Redis::start().await;
    let house = House::open(patient(RedisServers { database: 3, ..single(&redis) })).await;
    house.take("a", limit(5)).await.unwrap();
    let space: String = redis.ask(&["INFO", "keyspace"]).await;
    assert!(space.contains("db3:") && !space.contains("db0:"), "{space}");
}

#[tokio::test]
async fn what_is_all_per_second_goes_to_its_own_server() {
    let (main, fast) = (Redis::start().await, Redis::start().await);
    let config = RedisConfig { per_second: Some(single(&fast)), ..patient(single(&main)) };
    let house = House::open(config).await;
    let second = Limit { window: Micros::SECOND, ..limit(5) };
    let charges = [
        ("a", second, Charge::Take(1)),
        ("b", limit(5), Charge::Take(6)),
        ("c", second, Charge::Take(6)),
    ];
    let outcomes = house.decide(&batch(&charges)).await;
    let allowed: Vec<_> = outcomes.iter().map(|one| one.as_ref().unwrap().allowed).collect();
    assert_eq!(allowed, [true, false, false]);
    assert!(house.take("d", limit(5)).await.unwrap().allowed);
    assert_eq!(fast.keys().await, [key("a", second)]);
    assert!(main.keys().await.contains(&key("d", limit(5))));
}

#[tokio::test]
async fn a_key_of_another_type_fails_its_own_charge_only() {
    let redis = Redis::start().await;
    let house = House::open(patient(single(&redis))).await;
    let _: i64 = redis.ask(&["LPUSH", &key("a", limit(5)), "x"]).await;
    let charges = [("a", limit(5), Charge::Take(1)), ("b", limit(5), Charge::Take(1))];
    let outcomes = house.decide(&batch(&charges)).await;
    assert_eq!(outcomes[0], Err(StoreError::WrongType));
    assert!(outcomes[1].as_ref().unwrap().allowed);
}

#[tokio::test]
async fn a_full_server_says_so_and_is_not_taken_for_dead() {
    let redis = Redis::start().await;
    let house = House::open(patient(single(&redis))).await;
    let _: String = redis.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
    for _ in 0..10 {
        assert_eq!(house.take("a", limit(5)).await, Err(StoreError::OutOfMemory));
    }
    let _: String = redis.ask(&["CONFIG", "SET", "maxmemory", "0"]).await;
    assert!(house.take("a", limit(5)).await.unwrap().allowed);
}

#[tokio::test]
async fn a_user_with_the_rights_of_the_page_about_redis_is_enough() {
    let redis = Redis::start().await;
    let page = include_str!("../../docs/redis.md");
    let rules = page.lines().find(|line| line.starts_with("ACL SETUSER ")).unwrap();
    let _: String = redis.ask(&rules.split(' ').collect::<Vec<_>>()).await;
    let auth = tidegate::store::Credentials::parse("tidegate:password");
    let house = House::open(patient(RedisServers { auth, ..single(&redis) })).await;
    for algorithm in Algorithm::ALL {
        let limit = Limit { window: DAY, ..limit_by(algorithm, 5) };
        assert!(house.take("a", limit).await.unwrap().allowed, "{}", algorithm.name());
    }
    let charges = [("a", limit(5), Charge::Take(1)), ("b", limit(5), Charge::Take(1))];
    assert_eq!(n_allowed(&house.decide(&group(&charges)).await), 2);
    let denied: Vec<redis::Value> = redis.ask(&["ACL", "LOG"]).await;
    assert!(denied.is_empty(), "{denied:?}");
}

#[tokio::test]
async fn every_connection_is_closed_at_the_end() {
    let redis = Redis::start().await;
    let house = House::open(patient(single(&redis))).await;
    crate::support::eventually("four connections", async || {
        (redis.connections().await == 4).then_some(())
    })
    .await;
    house.close().await;
    crate::support::eventually("no connections", async || {
        (redis.connections().await == 0).then_some(())
    })
    .await;
}
