//! The limiter with what stands in for the store, in front of a real Redis whose answers get lost:
//! whatever happens, nothing is admitted beyond the limit and a local hit, and nothing is refused
//! that would have fitted.

use crate::house::{at, config};
use crate::support::eventually;
use crate::support::proxy::Proxy;
use crate::support::redis::Redis;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tidegate::algorithm::Charge;
use tidegate::clock::SystemClock;
use tidegate::limiter::{
    Code, DecidedBy, Descriptor, Limiter, Options, Request, StandIn, StandInOptions, Status,
};
use tidegate::rules::{Entry, FailureMode, RuleSet};
use tidegate::store::{OpTimeout, RedisServers, RedisStore, Store};
use tidegate::telemetry::Metrics;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// L and B of every limit; nothing drips in within a test.
const LIMIT: u64 = 6;

const RULES: [&str; 5] =
    ["first_hit", "sliding_window_log", "sliding_window_counter", "token_bucket", "leaky_bucket"];

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    /// These hits to a rule's bucket, through one of the servers.
    Charge { server: usize, rule: usize, hits: u64 },
    /// Replies to a server get lost from now on.
    Lose { server: usize },
    /// All of a server's connections break.
    Cut { server: usize },
    /// All is well again, as every server has noticed.
    Heal,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let charge = (0..2_usize, 0..RULES.len(), prop_oneof![6 => 1_u64..4, 1 => 4_u64..9])
        .prop_map(|(server, rule, hits)| Step::Charge { server, rule, hits });
    let step = prop_oneof![
        40 => charge,
        2 => (0..2_usize).prop_map(|server| Step::Lose { server }),
        1 => (0..2_usize).prop_map(|server| Step::Cut { server }),
        2 => Just(Step::Heal),
    ];
    prop::collection::vec(step, 20..80)
}

/// A limiter that reaches Redis through a proxy.
struct Server {
    limiter: Limiter,
    proxy: Proxy,
    _stop: tokio_util::sync::DropGuard,
}

/// What is known of a bucket.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Hits that Redis was heard to admit.
    sure: u64,
    /// Hits that it may have counted.
    maybe: u64,
    /// By server: what was admitted without Redis, and the fewest hits that Redis refused since it
    /// last admitted as many.
    local: [u64; 2],
    refused: [Option<u64>; 2],
}

fn rules() -> RuleSet {
    let folder = TempDir::new().unwrap();
    let mut policy = String::from("domain: d\ndescriptors:\n");
    for rule in RULES {
        let kind = match rule {
            "first_hit" => "window: first_hit, count_denied: false".to_owned(),
            "token_bucket" | "leaky_bucket" => format!("algorithm: {rule}, burst: {LIMIT}"),
            _ => format!("algorithm: {rule}"),
        };
        let limit = format!("unit: year, requests_per_unit: {LIMIT}, {kind}");
        writeln!(policy, "  - key: {rule}\n    rate_limit: {{ {limit} }}").unwrap();
    }
    std::fs::write(folder.path().join("d.yaml"), policy).unwrap();
    let options = tidegate::config::Options {
        paths: vec![folder.path().to_path_buf()],
        ..tidegate::config::Options::default()
    };
    tidegate::config::load(&options).unwrap().rules
}

impl Server {
    async fn start(redis: &Redis) -> Self {
        let proxy = Proxy::start(redis.port).await;
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let metrics = Metrics::new(10);
        let servers = RedisServers { pool_size: 2, ..at(&proxy.address()) };
        let op_timeout = OpTimeout::Fixed(Duration::from_millis(40));
        let config = config(RedisServers { op_timeout, ..servers });
        let store = RedisStore::start(config, metrics.store_series(), &tasks, &stop).unwrap();
        let options = Options::default();
        let stand_in = StandIn::new(StandInOptions::default(), Arc::new(SystemClock::new()));
        let limiter = Limiter::new(Store::Redis(store), metrics, options).with_stand_in(stand_in);
        limiter.install(rules());
        Self { limiter, proxy, _stop: stop.drop_guard() }
    }

    async fn ask(&self, rule: &str, value: &str, hits: u64) -> (Code, Status) {
        let entries = std::iter::once(Entry { key: rule, value }).collect();
        let descriptor = Descriptor { entries, charge: Charge::Take(hits), limit_override: None };
        let descriptors = std::iter::once(descriptor).collect();
        let answer = self.limiter.decide(&Request { domain: "d", descriptors }, None).await;
        let answer = answer.unwrap();
        (answer.code, answer.statuses[0].clone())
    }

    async fn heal(&self) {
        self.proxy.swallow(false);
        self.proxy.cut();
        eventually("Redis to decide", async || {
            let value = fastrand::u64(..).to_string();
            let (_, status) = self.ask("token_bucket", &value, 1).await;
            (status.decided_by == DecidedBy::Store).then_some(())
        })
        .await;
    }
}

impl Bucket {
    /// Whether hits fit if that many are counted.
    fn fits(rule: &str, counted: u64, hits: u64) -> bool {
        match rule {
            "leaky_bucket" => hits <= LIMIT && counted < LIMIT,
            _ => counted + hits <= LIMIT,
        }
    }

    /// Checks an answer against what is known, and learns from it.
    fn check(
        &mut self,
        server: usize,
        rule: &str,
        hits: u64,
        status: &Status,
    ) -> Result<(), TestCaseError> {
        let admitted = status.code == Code::Ok;
        if !admitted {
            prop_assert_eq!(status.never_fits, hits > LIMIT, "{:?}", status);
        }
        match status.decided_by {
            DecidedBy::Store if admitted => {
                prop_assert!(Self::fits(rule, self.sure, hits), "too many: {:?}", self);
                self.sure += hits;
                self.refused[server] = self.refused[server].filter(|least| *least > hits);
            }
            DecidedBy::Store | DecidedBy::DenyCache => {
                prop_assert!(!admitted);
                let counted = self.sure + self.maybe;
                prop_assert!(!Self::fits(rule, counted, hits), "it would fit: {:?}", self);
                if hits <= LIMIT {
                    let least = self.refused[server].unwrap_or(hits).min(hits);
                    self.refused[server] = Some(least);
                }
            }
            DecidedBy::Fallback { mode, .. } => {
                prop_assert_eq!(mode, FailureMode::Local);
                self.maybe += hits;
                let known = self.refused[server].is_some_and(|least| least <= hits);
                prop_assert!(!(admitted && known), "Redis has refused it: {:?}", self);
                self.local[server] += u64::from(admitted);
                // A bucket holds one hit; a heavier charge owes the rest.
                prop_assert!(self.local[server] <= 1, "too many without Redis: {:?}", self);
            }
            DecidedBy::NoLimit | DecidedBy::Unlimited => prop_assert!(false, "{:?}", status),
        }
        Ok(())
    }
}

async fn run(servers: &[Server; 2], case: u64, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut buckets: HashMap<usize, Bucket> = HashMap::new();
    let value = case.to_string();
    for step in steps {
        match step {
            Step::Charge { server, rule, hits } => {
                let (_, status) = servers[server].ask(RULES[rule], &value, hits).await;
                let bucket = buckets.entry(rule).or_default();
                bucket.check(server, RULES[rule], hits, &status)?;
            }
            Step::Lose { server } => servers[server].proxy.swallow(true),
            Step::Cut { server } => servers[server].proxy.cut(),
            Step::Heal => {
                for server in servers {
                    server.heal().await;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn nothing_is_admitted_beyond_the_limit_and_nothing_refused_that_fits() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (_redis, servers) = runtime.block_on(async {
        let redis = Redis::start().await;
        let servers = [Server::start(&redis).await, Server::start(&redis).await];
        (redis, servers)
    });
    let case = std::cell::Cell::new(0_u64);
    let config = ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() };
    proptest!(config, |(steps in steps())| {
        case.set(case.get() + 1);
        runtime.block_on(async {
            for server in &servers {
                server.heal().await;
            }
            run(&servers, case.get(), steps).await
        })?;
    });
}
