//! What a decision takes from request to statuses, over a memory store.

#![allow(missing_docs, clippy::unwrap_used, reason = "a bench stops where it fails")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tidegate::algorithm::{Algorithm, Charge};
use tidegate::clock::SystemClock;
use tidegate::limiter::{Descriptor, Limiter, Options, Request};
use tidegate::rules::{
    Allows, Consume, Defaults, Domain, Entry, FailureMode, Labels, Level, LimitParts, Node, Rule,
    RuleId, RuleLimit, RuleSet, Source, Unit,
};
use tidegate::store::{MemoryConfig, MemoryStore, Store};
use tidegate::telemetry::Metrics;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn decide(criterion: &mut Criterion) {
    let limiter = limiter();
    let mut group = criterion.benchmark_group("decide");
    group.throughput(Throughput::Elements(1));
    for (name, key, n) in [
        ("one descriptor", "one", 1),
        ("a list of two limits", "list", 1),
        ("four descriptors", "one", 4),
        ("nothing that limits", "unknown", 1),
    ] {
        let asked = Descriptor {
            entries: [Entry { key, value: "203.0.113.77" }].into_iter().collect(),
            charge: Charge::Take(1),
            limit_override: None,
        };
        let request = Request { domain: "edge", descriptors: vec![asked; n].into() };
        group.bench_function(name, |bencher| {
            bencher.iter(|| at_once(limiter.decide(black_box(&request), None)).unwrap().code);
        });
    }
    group.finish();
}

fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("nothing in memory waits"),
    }
}

fn limiter() -> Limiter {
    let config = MemoryConfig { max_buckets: 1_000_000 };
    let store = MemoryStore::new(config, Arc::new(SystemClock::new()));
    let options = Options::default();
    let limiter = Limiter::new(Store::Memory(store), Metrics::new(1000), options);
    limiter.install(rules());
    limiter
}

fn rules() -> RuleSet {
    let mut rules = RuleSet::default();
    let lists = [
        ("one", vec![limit(Unit::Second)]),
        ("list", vec![limit(Unit::Second), limit(Unit::Hour)]),
    ];
    let nodes = lists.map(|(key, limits)| {
        let id = RuleId(u32::try_from(rules.rules.len()).unwrap());
        rules.rules.push(rule(key, limits));
        Node { key: key.into(), rule: Some(id), ..Node::default() }
    });
    let domain = Domain {
        name: "edge".into(),
        root: Level::new(nodes.into()),
        hash_tag: Box::default(),
        consume: Consume::Each,
        defaults: defaults(),
        denied: None,
    };
    rules.domains.insert("edge".into(), domain);
    rules
}

fn rule(key: &str, limits: Vec<RuleLimit>) -> Rule {
    Rule {
        source: Source { file: "bench.yaml".into(), line: 1 },
        path: format!("edge.{key}").into(),
        allows: Allows::Limits(limits.into()),
        shadow_mode: false,
        quota_mode: false,
        detailed_metric: false,
        metadata: None,
        labels: Labels::new("edge", [key].into_iter()),
        labels_vary: false,
    }
}

fn limit(unit: Unit) -> RuleLimit {
    let parts = LimitParts {
        requests: 1_000_000_000,
        unit,
        unit_multiplier: 1,
        defaults: defaults(),
        name: "".into(),
        replaces: Box::default(),
    };
    parts.build().unwrap()
}

fn defaults() -> Defaults {
    Defaults {
        algorithm: Algorithm::TokenBucket,
        failure_mode: FailureMode::Local,
        burst: None,
        count_denied: None,
        version: None,
    }
}

criterion_group!(benches, decide);
criterion_main!(benches);
