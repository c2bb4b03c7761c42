//! No caller sees an error while one Redis fails in any way it can, and none is answered in silence.

use crate::callers::{
    calls_while, decided_by_redis, deciders, on, on_cluster, somebody_falls_back, users,
};
use crate::support::eventually;
use crate::support::grpc::{Code, DescriptorStatus, descriptor, metadata, request};
use crate::support::proxy::Proxy;
use crate::support::redis::{Redis, RedisCluster};
use crate::support::tidegate::Tidegate;
use ::redis::cmd;
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test]
async fn each_mode_answers_as_it_says_and_tells_so() {
    let mut redis = Redis::start().await;
    let tidegate = on(&redis.address(), &[]).await;
    let mut client = tidegate.client().await;
    redis.process.kill();
    let mut ask = async |keys: &[&str]| {
        let asked = keys.iter().map(|key| descriptor(&[(key, "x")])).collect();
        client.ask(request("shop", asked)).await
    };
    let answer = ask(&["open", "closed", "local"]).await.unwrap();
    assert_eq!(answer.overall_code(), Code::OverLimit);
    let codes: Vec<_> = answer.statuses.iter().map(DescriptorStatus::code).collect();
    assert_eq!(codes, [Code::Ok, Code::OverLimit, Code::Ok]);
    assert_eq!(metadata(&answer, "decidedBy"), ["open", "closed", "local"]);
    assert!(metadata(&answer, "storeFailure").iter().all(|why| !why.is_empty()), "{answer:?}");
    let open = &answer.statuses[0];
    assert_eq!((open.limit_remaining, open.duration_until_reset), (7, None));
    assert!(open.current_limit.is_some());
    let closed = answer.statuses[1].duration_until_reset.unwrap();
    assert_eq!((closed.seconds, closed.nanos), (1, 0));
    let refusal = ask(&["open", "error"]).await.unwrap_err();
    assert_eq!(refusal.code(), tonic::Code::Unavailable);
    assert!(!refusal.message().contains(&redis.port.to_string()), "{refusal:?}");
    for mode in ["open", "closed", "local", "error"] {
        let label = format!("mode=\"{mode}\"");
        assert!(tidegate.sum("tidegate_fallback_decisions_total", &label).await >= 1.0, "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_on_a_living_shard_stands_beside_a_dead_one() {
    let redis = RedisCluster::start_with(&["--cluster-require-full-coverage", "no"]).await;
    let tidegate = on_cluster(&redis, &[]).await;
    let mut client = tidegate.client().await;
    let mut of_living = None;
    for n in 0..100 {
        let key = format!("{{shop|open=n{n}}}");
        if redis.master_of(redis.slot_of(&key).await).await == 1 {
            of_living = Some(format!("n{n}"));
            break;
        }
    }
    let of_living = of_living.unwrap();
    eventually("a refusal by Redis", async || {
        let (code, _) = client.decided_by("shop", &[("open", &of_living)]).await.unwrap();
        (code == Code::OverLimit).then_some(())
    })
    .await;
    for node in [0, redis.replica_of(0).await] {
        redis.nodes[node].process.signal("STOP");
    }
    let users = users();
    somebody_falls_back(&tidegate, &users).await;
    let dead = deciders(&tidegate, &users).await.iter().position(|by| by == "local").unwrap();
    let asked = [("local", &users[dead]), ("open", &of_living)];
    let asked = asked.iter().map(|(key, value)| descriptor(&[(key, value)])).collect();
    let answer = client.ask(request("shop", asked)).await.unwrap();
    assert_eq!(answer.overall_code(), Code::OverLimit, "{answer:?}");
    assert_eq!(metadata(&answer, "decidedBy")[0], "local");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_caller_sees_a_server_die_stop_or_come_back() {
    let mut redis = Redis::start().await;
    let tidegate = on(&redis.address(), &[("REDIS_POOL_SIZE", "3")]).await;
    let users = users();
    for turn in 0..4 {
        calls_while(&tidegate, &users, async {
            match turn % 2 {
                0 => redis.process.kill(),
                _ => redis.process.signal("STOP"),
            }
            somebody_falls_back(&tidegate, &users).await;
            match turn % 2 {
                0 => redis.restart().await,
                _ => redis.process.signal("CONT"),
            }
            decided_by_redis(&tidegate, &users).await;
        })
        .await;
        eventually("three connections again", async || {
            let n = redis.connections().await;
            assert!(n <= 3, "{n} connections");
            (n == 3).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_break_again_and_again_are_never_more_than_the_pool() {
    let redis = Redis::start().await;
    let proxy = Proxy::start(redis.port).await;
    let tidegate = on(&proxy.address(), &[("REDIS_POOL_SIZE", "3")]).await;
    let users = users();
    calls_while(&tidegate, &users, async {
        for _ in 0..20 {
            proxy.cut();
            let n = redis.connections().await;
            assert!(n <= 3, "{n} connections");
            decided_by_redis(&tidegate, &users[..1]).await;
        }
    })
    .await;
    assert!(proxy.n_accepted() <= 3 * 21, "{} were opened", proxy.n_accepted());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_caller_sees_a_master_become_a_replica() {
    let (old, new) = (Redis::start().await, Redis::start().await);
    let proxy = Proxy::start(old.port).await;
    let tidegate = on(&proxy.address(), &[]).await;
    let users = users();
    calls_while(&tidegate, &users, async {
        proxy.lead_to(new.port);
        let port = new.port.to_string();
        let _: String = old.ask(&["REPLICAOF", "127.0.0.1", &port]).await;
        eventually("nothing but the new master", async || {
            (old.connections().await == 0 && new.connections().await == 2).then_some(())
        })
        .await;
        decided_by_redis(&tidegate, &users).await;
    })
    .await;
    assert!(tidegate.log().contains("is not a master"), "{}", tidegate.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_caller_sees_a_server_load_its_data() {
    let slowly = ["--loading-process-events-interval-bytes", "1024", "--key-load-delay", "100"];
    let may = ["--enable-debug-command", "yes"];
    let mut redis = Redis::start_with(&[&slowly[..], &may].concat()).await;
    let tidegate = on(&redis.address(), &[]).await;
    let users = users();
    let _: String = redis.ask(&["DEBUG", "POPULATE", "20000"]).await;
    let _: String = redis.ask(&["SAVE"]).await;
    calls_while(&tidegate, &users, async {
        redis.restart().await;
        let loading = redis.try_ask::<String>(cmd("GET").arg("x")).await;
        assert!(loading.unwrap_err().to_string().contains("loading"), "it takes its time");
        eventually("somebody who is told that it loads", async || {
            let log = tidegate.log();
            log.contains("the store is loading its data").then_some(())
        })
        .await;
        decided_by_redis(&tidegate, &users).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_caller_sees_a_script_of_somebody_else() {
    let redis = Redis::start_with(&["--lua-time-limit", "50"]).await;
    let tidegate = on(&redis.address(), &[]).await;
    let users = users();
    let endless = async { redis.try_ask::<i64>(cmd("EVAL").arg("while true do end").arg(0)).await };
    let killed = calls_while(
        &tidegate,
        &users,
        Box::pin(async {
            let (killed, ()) = tokio::join!(endless, async {
                eventually("what to do in the log", async || {
                    tidegate.log().contains("SCRIPT KILL").then_some(())
                })
                .await;
                somebody_falls_back(&tidegate, &users).await;
                assert_eq!(tidegate.get("/readyz").await.status, 200);
                eventually("the script's end", async || {
                    redis.try_ask::<String>(cmd("SCRIPT").arg("KILL")).await.ok()
                })
                .await;
            });
            decided_by_redis(&tidegate, &users).await;
            killed
        }),
    )
    .await;
    assert!(killed.is_err());
}

/// A charge that does not fit into memory is answered by its mode, and what fits goes on.
#[tokio::test(flavor = "multi_thread")]
async fn no_caller_sees_a_full_memory() {
    let redis = Redis::start_with(&["--maxmemory-policy", "noeviction"]).await;
    let tidegate = on(&redis.address(), &[]).await;
    let users = users();
    calls_while(&tidegate, &users, async {
        let _: String = redis.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
        somebody_falls_back(&tidegate, &users).await;
        let oom = "reason=\"out_of_memory\"";
        assert!(tidegate.sum("tidegate_fallback_decisions_total", oom).await >= 1.0);
        let node = format!("node=\"{}\"", redis.address());
        assert!(tidegate.sum("tidegate_store_breaker_open", &node).await < 1.0, "it is not dead");
        assert!(tidegate.log().contains("maxmemory and maxmemory-policy"), "{}", tidegate.log());
        assert_eq!(tidegate.get("/readyz").await.status, 200);
        let _: String = redis.ask(&["CONFIG", "SET", "maxmemory", "0"]).await;
        decided_by_redis(&tidegate, &users).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_much_is_answered_by_policy_and_memory_stays_flat() {
    let redis = Redis::start().await;
    let proxy = Proxy::start(redis.port).await;
    let settings = [("MAX_IN_FLIGHT", "10"), ("REDIS_OP_TIMEOUT", "5s")];
    let tidegate = on(&proxy.address(), &settings).await;
    let asked = async |n_calls: usize| {
        let mut calls = tokio::task::JoinSet::new();
        for at in 0..20 {
            let mut client = tidegate.client().await;
            calls.spawn(async move {
                for n in 0..n_calls {
                    let user = format!("{at}-{}", n % 50);
                    client.decided_by("shop", &[("local", &user)]).await.unwrap();
                }
            });
        }
        calls.join_all().await;
    };
    proxy.delay(Duration::from_millis(100));
    asked(50).await;
    let before = tidegate.resident_kib();
    asked(200).await;
    let grown = tidegate.resident_kib().saturating_sub(before);
    assert!(grown < 10 * 1024, "{grown} KiB more");
    let overloaded = "reason=\"overloaded\"";
    assert!(tidegate.sum("tidegate_fallback_decisions_total", overloaded).await >= 100.0);
    proxy.delay(Duration::ZERO);
    decided_by_redis(&tidegate, &users()).await;
}

/// Three servers of a third each, ten seconds without Redis: what they let pass beyond the limit is
/// a burst each and their shares of what drips in meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_costs_bursts_and_refill_and_no_more() {
    const POLICY: &str = "\
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 3600, algorithm: token_bucket, burst: 50 }
";
    let mut redis = Redis::start().await;
    let url = redis.address();
    let settings = [("REDIS_URL", url.as_str()), ("LOCAL_FALLBACK_SHARE", "1/3")];
    let mut clients = Vec::new();
    let mut servers = Vec::new();
    for _ in 0..3 {
        let tidegate = Tidegate::start_with(POLICY, &settings).await;
        clients.push(tidegate.client().await);
        servers.push(tidegate);
    }
    let mut n_passed = 0_u32;
    let mut ask_all = async || {
        for client in &mut clients {
            let status = client.status("shop", descriptor(&[("user", "x")])).await;
            n_passed += u32::from(status.code() == Code::Ok);
        }
        n_passed
    };
    let began = Instant::now();
    while ask_all().await < 50 {}
    let before = began.elapsed().as_secs_f64();
    redis.process.kill();
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    let began = Instant::now();
    let mut passed = 0;
    while began.elapsed() < Duration::from_secs(10) {
        tick.tick().await;
        passed = ask_all().await;
    }
    let outage = began.elapsed().as_secs_f64();
    // A hit a second drips in; a third of a minute's hits is a server's burst.
    let most = 50.0 + before + 3.0 * 20.0 + outage + 1.0;
    assert!(f64::from(passed) <= most, "{passed} passed, at most {most} may");
    assert!(passed > 50 + 30, "{passed} passed: they go on without Redis");
}
