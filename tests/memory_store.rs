//! The memory store from outside: many threads, many made-up values.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a failed test should panic"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use tidegate::algorithm::{Algorithm, Charge, Limit};
use tidegate::clock::{ManualClock, Micros};
use tidegate::rules::KeyRange;
use tidegate::store::{Batch, BatchItem, BatchMember, MemoryConfig, MemoryStore};

const DAY: Micros = Micros::from_secs(86_400);

fn store(max_buckets: usize) -> MemoryStore {
    let clock = Arc::new(ManualClock::at(Micros::from_secs(1_700_000_000)));
    MemoryStore::new(MemoryConfig { max_buckets }, clock)
}

fn limit(algorithm: Algorithm, requests: u32, window: Micros) -> Limit {
    Limit { algorithm, requests, window, burst: requests, count_denied: false }
}

/// One group with a bucket of its own tag per key.
fn group(keys: &[&str], limit: Limit) -> Batch {
    let mut batch = Batch::default();
    for (at, key) in keys.iter().enumerate() {
        let start = batch.keys.len();
        batch.keys.push_str(key);
        let key = KeyRange { key: start..batch.keys.len(), tag: start..batch.keys.len() };
        batch.items.push(BatchItem { key, limit, post_paid: false });
        let charge = Charge::Take(1);
        batch.members.push(BatchMember { charge, votes: true, items: at..at + 1 });
    }
    batch.groups.push(0..keys.len());
    batch
}

fn allowed(store: &MemoryStore, batch: &Batch) -> bool {
    store.decide(batch).iter().all(|decision| decision.allowed)
}

#[test]
fn eight_threads_get_exactly_what_the_limit_allows() {
    for algorithm in Algorithm::ALL {
        let store = store(1000);
        let batch = group(&["key"], limit(algorithm, 1000, DAY));
        let n_allowed = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let n = (0..500).filter(|_| allowed(&store, &batch)).count();
                    n_allowed.fetch_add(n, Ordering::Relaxed);
                });
            }
        });
        assert_eq!(n_allowed.into_inner(), 1000, "{algorithm:?}");
    }
}

#[test]
fn groups_that_span_tags_in_any_order_neither_lock_up_nor_split() {
    let store = store(100_000);
    let limit = limit(Algorithm::TokenBucket, 1000, DAY);
    let orders = [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"], ["c", "a", "b"]];
    let n_allowed = AtomicUsize::new(0);
    thread::scope(|scope| {
        for order in orders {
            let (store, n_allowed) = (&store, &n_allowed);
            scope.spawn(move || {
                let batch = group(&order, limit);
                let n = (0..500).filter(|_| allowed(store, &batch)).count();
                n_allowed.fetch_add(n, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(n_allowed.into_inner(), 1000);
    for key in ["a", "b", "c"] {
        let batch = group(&[key], limit);
        assert_eq!(store.inspect(&batch, &batch.items[0]).unwrap().after, 1000);
    }
}

#[test]
fn threads_that_make_up_values_never_exceed_the_bound() {
    let store = store(1000);
    let limit = limit(Algorithm::TokenBucket, 10, DAY);
    thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for n in 0..5000 {
                    let keys = [format!("{thread}/{n}"), format!("{n}/{thread}"), format!("{n}")];
                    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
                    store.decide(&group(&keys, limit));
                    assert!(store.live_buckets() <= 1000);
                }
            });
        }
    });
    assert_eq!(store.live_buckets(), 1000);
}

#[test]
fn a_normal_client_is_served_when_the_store_is_full_br_079() {
    let store = store(10_000);
    for (algorithm, window) in
        [(Algorithm::TokenBucket, DAY), (Algorithm::FixedWindow(Default::default()), DAY)]
    {
        let ten = limit(algorithm, 10, window);
        for n in 0..10_000 {
            assert!(allowed(&store, &group(&[&format!("{algorithm:?}{n}")], ten)));
        }
        let normal = group(&[&format!("{algorithm:?} normal")], ten);
        let n_allowed = (0..20).filter(|_| allowed(&store, &normal)).count();
        assert_eq!(n_allowed, 10, "{algorithm:?}");
    }
}

#[test]
fn a_client_over_its_limit_cannot_free_itself_by_a_flood_br_079() {
    let store = store(10_000);
    let ten = limit(Algorithm::TokenBucket, 10, DAY);
    let victim = group(&["victim"], ten);
    assert_eq!((0..20).filter(|_| allowed(&store, &victim)).count(), 10);
    for n in 0..200_000 {
        store.decide(&group(&[&format!("made up {n}")], ten));
    }
    assert!(!allowed(&store, &victim));
    assert_eq!(store.live_buckets(), 10_000);
}
