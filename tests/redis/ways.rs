//! Every way in which the built program reaches Redis.

use crate::authority::{Authority, Secure};
use crate::support::eventually;
use crate::support::grpc::{Code, DescriptorStatus, descriptor, metadata, request};
use crate::support::redis::{Redis, RedisCluster};
use crate::support::tidegate::Tidegate;

const POLICY: &str = "\
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 2 }
  - key: second
    rate_limit: { unit: second, requests_per_unit: 1000 }
";

/// What no log may hold.
const SECRET: &str = "hunter2";

/// Starts two servers that share a limit of two, and asks them three times.
async fn share_one_truth(settings: &[(&str, &str)]) -> [Tidegate; 2] {
    let patient =
        [("RESPONSE_DYNAMIC_METADATA", "true"), ("REDIS_OP_TIMEOUT", "5s"), ("LOG_LEVEL", "debug")];
    let settings = [&patient, settings].concat();
    let one = Tidegate::start_with(POLICY, &settings).await;
    let other = Tidegate::start_with(POLICY, &settings).await;
    let mut codes = Vec::new();
    for server in [&one, &other, &one] {
        let (code, by) = server.client().await.decided_by("shop", &[("user", "x")]).await.unwrap();
        assert_eq!(by, "store", "{}", server.log());
        codes.push(code);
    }
    assert_eq!(codes, [Code::Ok, Code::Ok, Code::OverLimit]);
    assert!(![&one, &other].iter().any(|server| server.log().contains(SECRET)));
    [one, other]
}

#[tokio::test]
async fn by_name_user_and_password() {
    let redis = Redis::start().await;
    let user = ["ACL", "SETUSER", "tide", "on", ">hunter2", "~tg:*", "+@all"];
    let _: String = redis.ask(&user).await;
    let port = redis.port;
    let url = format!("redis://tide:hunter2@localhost:{port}/0");
    share_one_truth(&[("REDIS_URL", &url)]).await;
    let _: String = redis.ask(&["FLUSHALL"]).await;
    let (url, auth) = (format!("localhost:{port}"), "tide:hunter2");
    share_one_truth(&[("REDIS_URL", &url), ("REDIS_AUTH", auth)]).await;
}

#[tokio::test]
async fn by_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("redis.sock").display().to_string();
    let arguments = ["--unixsocket", &socket, "--requirepass", SECRET];
    let _redis = Redis::start_with(&arguments).await;
    share_one_truth(&[("REDIS_URL", &socket), ("REDIS_AUTH", SECRET)]).await;
}

#[tokio::test]
async fn by_tls_with_a_certificate_of_our_own() {
    let authority = Authority::new();
    let redis = authority.server("localhost", true).await;
    let (cert, key) = authority.issue("client", "client");
    let ca = authority.file("ca.pem").display().to_string();
    let url = format!("rediss://localhost:{}", redis.port);
    let settings = [
        ("REDIS_URL", url.as_str()),
        ("REDIS_TLS_CACERT", &ca),
        ("REDIS_TLS_CLIENT_CERT", &cert),
        ("REDIS_TLS_CLIENT_KEY", &key),
    ];
    share_one_truth(&settings).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_a_sentinel_through_a_failover() {
    let mut master = Redis::start().await;
    let port = master.port.to_string();
    let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &port]).await;
    let sentinel = Redis::sentinel(&master).await;
    let url = format!("mymaster,{}", sentinel.address());
    let servers = share_one_truth(&[("REDIS_TYPE", "sentinel"), ("REDIS_URL", &url)]).await;
    eventually("a sentinel that knows the replica, which follows", async || {
        let known: Vec<Vec<String>> = sentinel.ask(&["SENTINEL", "REPLICAS", "mymaster"]).await;
        let info: String = replica.ask(&["INFO", "replication"]).await;
        (!known.is_empty() && info.contains("master_link_status:up")).then_some(())
    })
    .await;
    master.process.kill();
    for server in &servers {
        let mut client = server.client().await;
        eventually("a decision by the new master", async || {
            let asked = client.decided_by("shop", &[("user", "y")]).await.unwrap();
            (asked.1 == "store").then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn by_a_cluster_with_a_password() {
    let redis = RedisCluster::start().await;
    for node in &redis.nodes {
        let user = ["ACL", "SETUSER", "tide", "on", ">hunter2", "~tg:*", "+@all"];
        let _: String = node.ask(&user).await;
    }
    let url = format!("{},{}", redis.nodes[5].address(), redis.nodes[0].address());
    let auth = ("REDIS_AUTH", "tide:hunter2");
    share_one_truth(&[("REDIS_TYPE", "cluster"), ("REDIS_URL", &url), auth]).await;
}

#[tokio::test]
async fn with_a_second_redis_for_limits_per_second() {
    let (main, fast) = (Redis::start().await, Redis::start().await);
    let (main_url, fast_url) = (main.address(), fast.address());
    let [one, _] = share_one_truth(&[
        ("REDIS_URL", &main_url),
        ("REDIS_PERSECOND", "true"),
        ("REDIS_PERSECOND_URL", &fast_url),
    ])
    .await;
    let asked = [("user", "y"), ("second", "y")];
    let asked = asked.iter().map(|(key, value)| descriptor(&[(key, value)])).collect();
    let answer = one.client().await.ask(request("shop", asked)).await.unwrap();
    assert_eq!(metadata(&answer, "decidedBy"), ["store", "store"]);
    let (main, fast) = (main.keys().await.join(" "), fast.keys().await.join(" "));
    assert!(main.contains("user=y") && !main.contains("second"), "{main}");
    assert!(fast.contains("second=y") && !fast.contains("user"), "{fast}");
}

/// Of a group that lies in two Redis the half that is decided refuses the half that is not.
#[tokio::test]
async fn a_refusal_by_one_redis_charges_nothing_locally_for_the_other() {
    const POLICY: &str = "\
domain: shop
hash_tag: [tenant]
consume: all_or_nothing
descriptors:
  - key: tenant
    descriptors:
      - key: day
        rate_limit: { unit: day, requests_per_unit: 1 }
      - key: second
        rate_limit: { unit: second, requests_per_unit: 1 }
";
    let (main, mut fast) = (Redis::start().await, Redis::start().await);
    let (main_url, fast_url) = (main.address(), fast.address());
    let settings = [
        ("REDIS_URL", main_url.as_str()),
        ("REDIS_PERSECOND", "true"),
        ("REDIS_PERSECOND_URL", &fast_url),
        ("RESPONSE_DYNAMIC_METADATA", "true"),
        ("REDIS_OP_TIMEOUT", "5s"),
        // A local bucket is filled again after a thousand seconds.
        ("LOCAL_FALLBACK_SHARE", "0.001"),
    ];
    let tidegate = Tidegate::start_with(POLICY, &settings).await;
    let mut client = tidegate.client().await;
    let day = [("tenant", "t"), ("day", "x")];
    let second = [("tenant", "t"), ("second", "x")];
    client.decided_by("shop", &day).await.unwrap();
    fast.process.kill();
    let both = request("shop", vec![descriptor(&day), descriptor(&second)]);
    for _ in 0..3 {
        let answer = client.ask(both.clone()).await.unwrap();
        let codes: Vec<_> = answer.statuses.iter().map(DescriptorStatus::code).collect();
        assert_eq!(codes, [Code::OverLimit, Code::Ok]);
        assert_eq!(metadata(&answer, "decidedBy"), ["store", "local"]);
    }
    let alone = client.decided_by("shop", &second).await.unwrap();
    assert_eq!(alone, (Code::Ok, "local".to_owned()), "nothing was charged");
    let again = client.decided_by("shop", &second).await.unwrap();
    assert_eq!(again, (Code::OverLimit, "local".to_owned()), "this was");
}
