//! What one bucket's decision takes, by algorithm: a hit within its limit, and one over it.

#![allow(missing_docs, reason = "criterion's macros")]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use tidegate::algorithm::{Algorithm, Charge, Limit, State, decide};
use tidegate::clock::Micros;

const MINUTE: Micros = Micros::from_secs(60);

fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decide");
    for algorithm in Algorithm::ALL {
        for (case, requests) in [("admitted", 1_000_000), ("refused", 10)] {
            let limit =
                Limit { algorithm, requests, window: MINUTE, burst: requests, count_denied: false };
            let mut now = MINUTE;
            let mut state: Option<State> = None;
            for _ in 0..100 {
                state = decide(state, &limit, Charge::Take(1), now).0;
            }
            group.bench_function(BenchmarkId::new(algorithm.name(), case), |bencher| {
                bencher.iter(|| {
                    // A log of a minute stays at 60 entries.
                    now = now.saturating_add(Micros::from_secs(u64::from(requests > 10)));
                    let (next, decision) =
                        decide(state.take(), black_box(&limit), Charge::Take(1), now);
                    state = next;
                    decision.allowed
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
