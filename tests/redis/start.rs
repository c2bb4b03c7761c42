//! Settings that cannot be right are named; a server that is not there yet is waited for.

use crate::house::{House, at, config, limit, servers, single};
use crate::support::eventually;
use crate::support::redis::{Redis, free_port};
use std::sync::Arc;
use tidegate::store::{
    Credentials, RedisServers, RedisState, RedisStore, StoreError, TlsFiles, Topology,
};
use tidegate::telemetry::Metrics;

async fn complaint(servers: RedisServers) -> String {
    let house = House::start(config(servers));
    let complaint = house.complaint().await;
    assert!(house.take("a", limit(5)).await.is_err());
    complaint
}

#[tokio::test]
async fn a_wrong_password_is_named_and_not_shown() {
    let redis = Redis::start_with(&["--requirepass", "right"]).await;
    let auth = Credentials::parse("hunter2");
    let complaint = complaint(RedisServers { auth, ..single(&redis) }).await;
    let expected = format!("REDIS_AUTH: {} refuses this user or password", redis.address());
    assert_eq!(complaint, expected);
}

#[tokio::test]
async fn a_missing_password_is_named() {
    let redis = Redis::start_with(&["--requirepass", "right"]).await;
    let complaint = complaint(single(&redis)).await;
    assert_eq!(complaint, format!("REDIS_AUTH: {} wants a password", redis.address()));
}

#[tokio::test]
async fn the_second_redis_is_named_by_its_own_variables() {
    let redis = Redis::start_with(&["--requirepass", "right"]).await;
    let complaint =
        complaint(RedisServers { variables: "REDIS_PERSECOND", ..single(&redis) }).await;
    assert!(complaint.starts_with("REDIS_PERSECOND_AUTH: "), "{complaint}");
}

#[tokio::test]
async fn an_unknown_host_is_named() {
    let complaint = complaint(at("no-such-host.invalid:6379")).await;
    assert_eq!(complaint, "REDIS_URL: host `no-such-host.invalid` is unknown");
}

#[tokio::test]
async fn a_cluster_that_is_none_and_none_that_is_one_are_named() {
    let plain = Redis::start().await;
    let seeds = vec![plain.address().parse().unwrap()];
    let found = complaint(servers(Topology::Cluster { seeds })).await;
    assert_eq!(found, format!("REDIS_TYPE: {} is not a node of a cluster", plain.address()));
    let node = Redis::start_with(&["--cluster-enabled", "yes"]).await;
    let found = complaint(single(&node)).await;
    let what = "is a node of a cluster, expected `cluster`";
    assert_eq!(found, format!("REDIS_TYPE: {} {what}", node.address()));
}

#[tokio::test]
async fn a_server_that_is_no_sentinel_is_named() {
    let redis = Redis::start().await;
    let sentinels = vec![redis.address().parse().unwrap()];
    let found = complaint(servers(Topology::Sentinel { master: "m".into(), sentinels })).await;
    assert_eq!(found, format!("REDIS_TYPE: {} is no sentinel", redis.address()));
}

#[tokio::test]
async fn files_that_are_missing_are_told_at_once() {
    let (tasks, stop) = Default::default();
    let series = Arc::clone(Metrics::new(1).store_series());
    let redis = Redis::start().await;
    let tls = TlsFiles { ca: Some("/no/such/ca.pem".into()), ..TlsFiles::default() };
    let with_tls = RedisServers { tls: Some(tls), ..single(&redis) };
    let error = RedisStore::start(config(with_tls), &series, &tasks, &stop).unwrap_err();
    assert!(error.to_string().starts_with("REDIS_TLS_CACERT: /no/such/ca.pem: "), "{error}");
    let with_file = RedisServers { auth_file: Some("/no/such/auth".into()), ..single(&redis) };
    let error = RedisStore::start(config(with_file), &series, &tasks, &stop).unwrap_err();
    assert!(error.to_string().starts_with("REDIS_AUTH_FILE: /no/such/auth: "), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_yet_is_waited_for() {
    let port = free_port();
    let house = House::start(config(at(&format!("127.0.0.1:{port}"))));
    eventually("a refusal", async || house.take("a", limit(5)).await.err()).await;
    eventually("the breaker", async || {
        (house.take("a", limit(5)).await == Err(StoreError::BreakerOpen)).then_some(())
    })
    .await;
    assert_eq!(house.store.state(), RedisState::Waiting);
    let _redis = Redis::start_at(port).await;
    house.decides().await;
    assert_eq!(house.store.state(), RedisState::Answered);
}

#[tokio::test]
async fn a_password_that_is_set_right_later_heals() {
    let redis = Redis::start_with(&["--requirepass", "other"]).await;
    let auth = Credentials::parse("right");
    let house = House::start(config(RedisServers { auth, ..single(&redis) }));
    house.complaint().await;
    let client = redis::Client::open(format!("redis://:other@{}/", redis.address())).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg("requirepass").arg("right");
    set.query_async::<String>(&mut connection).await.unwrap();
    house.decides().await;
}
