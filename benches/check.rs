//! What reading and compiling policies takes: 1,000 and 100,000 rules in one file.

#![allow(missing_docs, clippy::unwrap_used, reason = "a bench stops where it fails")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::fmt::Write;
use tidegate::config::{Options, load};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn rules(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("check");
    group.sample_size(10);
    for n in [1_000_u64, 100_000] {
        let folder = tempfile::tempdir().unwrap();
        let mut policies = String::from("domain: bench\ndescriptors:\n");
        for i in 0..n {
            let limit = "rate_limit: {unit: minute, requests_per_unit: 10}";
            writeln!(policies, "  - key: user\n    value: u{i}\n    {limit}").unwrap();
        }
        std::fs::write(folder.path().join("policies.yaml"), policies).unwrap();
        let options = Options { paths: vec![folder.path().to_owned()], ..Options::default() };
        group.throughput(Throughput::Elements(n));
        group.bench_function(BenchmarkId::from_parameter(n), |bencher| {
            bencher.iter(|| load(&options).unwrap().rules.rules.len());
        });
    }
    group.finish();
}

criterion_group!(benches, rules);
criterion_main!(benches);
