//! TLS, users, and credentials that change.

use crate::authority::{Authority, Secure};
use crate::house::{House, config, limit, patient, servers, single};
use crate::support::eventually;
use crate::support::redis::Redis;
use std::fs;
use tidegate::store::{Address, Credentials, RedisServers, TlsFiles, Topology};

/// A server by the name `localhost`, with TLS.
fn encrypted(redis: &Redis, tls: TlsFiles) -> RedisServers {
    let topology = Topology::Single(Address::tcp("localhost", redis.port));
    RedisServers { tls: Some(tls), ..servers(topology) }
}

#[tokio::test]
async fn a_trusted_certificate_lets_us_in() {
    let authority = Authority::new();
    let redis = authority.server("localhost", false).await;
    let house = House::open(patient(encrypted(&redis, authority.trusted()))).await;
    assert!(house.take("a", limit(5)).await.unwrap().allowed);
}

#[tokio::test]
async fn our_certificate_is_shown_if_it_is_wanted() {
    let authority = Authority::new();
    let redis = authority.server("localhost", true).await;
    let without = House::start(config(encrypted(&redis, authority.trusted())));
    let complaint = without.complaint().await;
    assert!(complaint.starts_with("REDIS_TLS_CLIENT_CERT: "), "{complaint}");
    let (cert, key) = authority.issue("client", "client");
    let tls = TlsFiles {
        client_cert: Some(cert.into()),
        client_key: Some(key.into()),
        ..authority.trusted()
    };
    let house = House::open(patient(encrypted(&redis, tls))).await;
    assert!(house.take("a", limit(5)).await.unwrap().allowed);
}

#[tokio::test]
async fn an_authority_that_we_do_not_trust_is_named() {
    let (authority, other) = (Authority::new(), Authority::new());
    let redis = authority.server("localhost", false).await;
    let complaint = House::start(config(encrypted(&redis, other.trusted()))).complaint().await;
    assert!(complaint.starts_with("REDIS_TLS_CACERT: "), "{complaint}");
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused_unless_that_is_wished() {
    let authority = Authority::new();
    let redis = authority.server("elsewhere", false).await;
    let complaint = House::start(config(encrypted(&redis, authority.trusted()))).complaint().await;
    assert!(complaint.starts_with("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION: "), "{complaint}");
    let tls = TlsFiles { skip_hostname_verification: true, ..authority.trusted() };
    let house = House::open(patient(encrypted(&redis, tls))).await;
    assert!(house.take("a", limit(5)).await.unwrap().allowed);
    let other = Authority::new();
    let tls = TlsFiles { skip_hostname_verification: true, ..other.trusted() };
    let complaint = House::start(config(encrypted(&redis, tls))).complaint().await;
    assert!(complaint.starts_with("REDIS_TLS_CACERT: "), "{complaint}");
}

#[tokio::test]
async fn plain_spoken_to_tls_and_tls_to_plain_are_named() {
    let authority = Authority::new();
    let redis = authority.server("localhost", false).await;
    let complaint = House::start(config(single(&redis))).complaint().await;
    assert_eq!(complaint, format!("REDIS_TLS: {} speaks TLS", redis.address()));
    let plain = Redis::start().await;
    let complaint = House::start(config(encrypted(&plain, authority.trusted()))).complaint().await;
    assert!(complaint.starts_with("REDIS_TLS: "), "{complaint}");
    assert!(complaint.contains("does not speak TLS"), "{complaint}");
}

#[tokio::test]
async fn credentials_that_change_are_taken_up_without_a_pause() {
    let redis = Redis::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("auth");
    fs::write(&file, "tide:one\n").unwrap();
    let user = ["ACL", "SETUSER", "tide", "on", ">one", "~tg:*", "+@all"];
    let _: String = redis.ask(&user).await;
    let house =
        House::open(patient(RedisServers { auth_file: Some(file.clone()), ..single(&redis) }))
            .await;
    let auths = redis.calls("auth").await;
    let _: String = redis.ask(&["ACL", "SETUSER", "tide", ">two", "<one"]).await;
    fs::write(&file, "tide:two\n").unwrap();
    eventually("four connections that log in anew", async || {
        house.take("a", limit(100_000)).await.unwrap();
        (redis.calls("auth").await >= auths + 4).then_some(())
    })
    .await;
    // Whatever connects from now on has the new password.
    let _: i64 = redis.ask(&["CLIENT", "KILL", "USER", "tide"]).await;
    house.decides().await;
}

#[tokio::test]
async fn a_wrong_user_is_named() {
    let redis = Redis::start().await;
    let auth = Credentials::parse("nobody:pass");
    let complaint = House::start(config(RedisServers { auth, ..single(&redis) })).complaint().await;
    assert!(complaint.starts_with("REDIS_AUTH: "), "{complaint}");
}
