//! The memory store with a clock that the tests hold.

use super::*;
use crate::algorithm::{Algorithm, Anchor};
use crate::clock::ManualClock;
use crate::rules::KeyRange;
use crate::store::BatchMember;
use proptest::prelude::*;

struct House {
    store: MemoryStore,
    clock: Arc<ManualClock>,
}

const DAY: u64 = 86_400;

impl House {
    fn new(max_buckets: usize) -> Self {
        let clock = Arc::new(ManualClock::at(Micros::from_secs(DAY * 20_000)));
        let store =
            MemoryStore::new(MemoryConfig { max_buckets }, Arc::<ManualClock>::clone(&clock));
        Self { store, clock }
    }

    fn hit(&self, key: &str, limit: Limit) -> Decision {
        self.ask(key, key, limit, Charge::Take(1))
    }

    fn ask(&self, tag: &str, key: &str, limit: Limit, charge: Charge) -> Decision {
        self.store.decide(&group([(tag, key, limit)], charge))[0]
    }

    fn used(&self, key: &str, limit: Limit) -> Option<u64> {
        let batch = group([(key, key, limit)], Charge::Peek);
        self.store.inspect(&batch, &batch.items[0]).map(|decision| decision.after)
    }

    fn later(&self, seconds: u64) {
        self.clock.advance(Micros::from_secs(seconds));
    }

    /// What the shards really hold.
    fn recount(&self) -> usize {
        (0..self.store.shards.len()).map(|shard| self.store.lock(shard).recount()).sum()
    }
}

fn limit(algorithm: Algorithm, requests: u32, seconds: u64) -> Limit {
    let burst = if algorithm == Algorithm::LeakyBucket { 1 } else { requests };
    let count_denied = matches!(algorithm, Algorithm::FixedWindow(_));
    Limit { algorithm, requests, window: Micros::from_secs(seconds), burst, count_denied }
}

fn token(requests: u32) -> Limit {
    limit(Algorithm::TokenBucket, requests, DAY)
}

/// A group of members with one item each: tag, key, limit.
fn group<'a>(items: impl IntoIterator<Item = (&'a str, &'a str, Limit)>, charge: Charge) -> Batch {
    let mut batch = Batch::default();
    for (at, (tag, key, limit)) in items.into_iter().enumerate() {
        let start = batch.keys.len();
        batch.keys.push_str(tag);
        let tag = start..batch.keys.len();
        batch.keys.push_str(key);
        let key = KeyRange { key: start..batch.keys.len(), tag };
        batch.items.push(BatchItem { key, limit, post_paid: false });
        batch.members.push(BatchMember { charge, votes: true, items: at..at + 1 });
    }
    batch.groups.push(0..batch.members.len());
    batch
}

#[test]
fn buckets_of_a_rule_that_allows_nothing_do_not_evict_counters() {
    let house = House::new(4);
    house.hit("counted", token(10));
    for n in 0..20 {
        house.later(1);
        house.hit(&format!("k{n}"), limit(Algorithm::FixedWindow(Anchor::Epoch), 0, DAY));
    }
    assert_eq!(house.used("counted", token(10)), Some(1));
}

#[test]
fn small_bounds_hold_as_many_as_they_say() {
    for bound in [1, 2, 10, 63, 64, 129, 1000] {
        let house = House::new(bound);
        for n in 0..3 * bound {
            house.hit(&format!("k{n}"), token(10));
            assert!(house.store.live_buckets() <= bound, "{bound}");
        }
        assert_eq!((house.store.live_buckets(), house.recount()), (bound, bound));
        assert_eq!(house.store.evictions(), 2 * u64::try_from(bound).unwrap());
    }
}

#[test]
fn an_expired_bucket_gives_way_first_and_is_not_counted() {
    let house = House::new(8);
    house.hit("short", limit(Algorithm::TokenBucket, 1, 1));
    for n in 0..7 {
        house.hit(&format!("k{n}"), token(10));
    }
    house.later(3);
    house.hit("new", token(10));
    assert_eq!((house.store.live_buckets(), house.store.evictions()), (8, 0));
    assert_eq!(house.used("short", token(1)), None);
}

#[test]
fn the_least_used_share_gives_way_before_the_idlest() {
    let house = House::new(8);
    house.ask("half", "half", token(10), Charge::Take(5));
    house.later(1);
    for n in 0..6 {
        house.ask("", &format!("k{n}"), token(10), Charge::Take(4));
    }
    house.hit("least", token(10));
    house.hit("new", token(10));
    assert_eq!(house.used("leastleast", token(10)), None);
    assert_eq!(house.used("least", token(10)), None);
    assert!(house.used("half", token(10)).is_some());
    assert_eq!(house.store.evictions(), 1);
}

#[test]
fn the_idlest_of_equals_gives_way_and_a_refused_call_is_use() {
    let house = House::new(3);
    for key in ["a", "b", "c"] {
        house.ask(key, key, token(1), Charge::Take(1));
        house.later(1);
    }
    assert!(!house.hit("a", token(1)).allowed);
    house.later(1);
    house.hit("new", token(1));
    assert_eq!(house.used("b", token(1)), None);
    assert_eq!(house.used("a", token(1)), Some(1));
}

#[test]
fn neither_a_peek_nor_an_unrecorded_refusal_prolongs_a_life() {
    let ten = limit(Algorithm::TokenBucket, 1, 10);
    let house = House::new(2);
    house.hit("a", ten);
    house.later(9);
    assert!(!house.hit("a", ten).allowed);
    house.ask("a", "a", ten, Charge::Peek);
    house.hit("b", token(1));
    house.later(2);
    house.hit("c", token(1));
    assert_eq!((house.used("a", ten), house.store.evictions()), (None, 0));
}

#[test]
fn a_write_prolongs_a_life() {
    let ten = limit(Algorithm::TokenBucket, 2, 10);
    let house = House::new(2);
    house.hit("a", ten);
    house.later(5);
    house.hit("a", ten);
    house.hit("b", token(10));
    house.later(5);
    house.hit("c", token(10));
    assert_eq!((house.used("b", token(10)), house.store.evictions()), (None, 1));
}

#[test]
fn expiry_never_decides() {
    let ten = limit(Algorithm::FixedWindow(Anchor::Epoch), 1, 10);
    let house = House::new(10);
    let start = house.clock.now();
    assert!(house.hit("a", ten).allowed);
    house.later(1000);
    assert!(house.used("a", ten).is_some());
    house.clock.set(start);
    assert!(!house.hit("a", ten).allowed);
}

#[test]
fn expired_buckets_are_collected_by_insertions() {
    let house = House::new(100_000);
    for n in 0..1000 {
        house.hit(&format!("old{n}"), limit(Algorithm::TokenBucket, 1, 1));
    }
    house.later(10);
    for n in 0..3000 {
        house.hit(&format!("new{n}"), token(10));
    }
    assert!(house.store.live_buckets() < 3200, "{}", house.store.live_buckets());
    assert_eq!((house.recount(), house.store.evictions()), (house.store.live_buckets(), 0));
}

#[test]
fn every_entry_of_a_log_counts() {
    let log = limit(Algorithm::SlidingWindowLog, 5, 10);
    let house = House::new(100);
    for second in 0..5 {
        assert!(house.hit("a", log).allowed);
        assert_eq!(house.store.live_buckets(), second + 1);
        house.later(1);
    }
    house.later(6);
    house.hit("a", log);
    assert_eq!((house.store.live_buckets(), house.recount()), (4, 4));
}

#[test]
fn a_log_may_be_far_heavier_than_a_fair_share() {
    let log = limit(Algorithm::SlidingWindowLog, 1000, DAY);
    let house = House::new(2000);
    for n in 0..1500 {
        assert_eq!(house.hit("log", log).allowed, n < 1000);
        house.hit(&format!("k{n}"), token(10));
        house.clock.advance(Micros(1));
        assert!(house.store.live_buckets() <= 2000);
    }
    assert_eq!(house.used("log", log), Some(1000));
}

#[test]
fn a_log_heavier_than_the_store_goes_and_nothing_else_does() {
    let log = limit(Algorithm::SlidingWindowLog, 100, DAY);
    let house = House::new(10);
    house.hit("other", token(2));
    for _ in 0..50 {
        house.hit("log", log);
        house.clock.advance(Micros(1));
        assert!(house.store.live_buckets() <= 10);
    }
    assert_eq!(house.recount(), house.store.live_buckets());
    assert!(house.store.evictions() > 0);
}

#[test]
fn a_flood_in_one_tag_does_not_drive_out_the_few_of_others() {
    let house = House::new(12_800);
    for n in 0..500 {
        house.hit(&format!("few{n}"), token(1000));
    }
    for n in 0..40_000 {
        house.ask("flood", &format!("k{n}"), token(10), Charge::Take(5));
        assert!(house.store.live_buckets() <= 12_800);
    }
    for n in 500..1000 {
        house.hit(&format!("few{n}"), token(1000));
    }
    let kept = (0..1000).filter(|n| house.used(&format!("few{n}"), token(1000)).is_some());
    let kept = kept.count();
    assert!(kept > 950, "{kept}");
}

#[test]
fn a_shard_that_empties_returns_its_memory() {
    let house = House::new(100_000);
    let keys: Vec<String> = (0..10_000).map(|n| format!("k{n}")).collect();
    for key in &keys {
        house.ask("tag", key, token(10), Charge::Take(1));
    }
    for key in &keys {
        let batch = group([("tag", key.as_str(), token(10))], Charge::Peek);
        assert!(house.store.reset(&batch, &batch.items[0]));
        assert!(!house.store.reset(&batch, &batch.items[0]));
    }
    let capacity: usize =
        (0..house.store.shards.len()).map(|shard| house.store.lock(shard).capacity()).sum();
    assert_eq!((house.store.live_buckets(), house.store.evictions()), (0, 0));
    assert!(capacity <= 64, "{capacity}");
}

#[test]
fn a_group_that_spans_tags_is_decided_as_one() {
    let house = House::new(1000);
    house.hit("a", token(1));
    let batch =
        group([("b", "b", token(9)), ("a", "a", token(1)), ("c", "c", token(9))], Charge::Take(1));
    let decisions = house.store.decide(&batch);
    let allowed: Vec<_> = decisions.iter().map(|decision| decision.allowed).collect();
    assert_eq!(allowed, [true, false, true]);
    assert_eq!([house.used("b", token(9)), house.used("c", token(9))], [None, None]);
}

#[test]
fn a_bucket_named_twice_in_a_group_is_one_bucket() {
    let house = House::new(1000);
    let both = [("a", "a", token(3)), ("b", "b", token(3)), ("a", "a", token(3))];
    let decisions = house.store.decide(&group(both, Charge::Take(1)));
    let after: Vec<_> = decisions.iter().map(|decision| decision.after).collect();
    assert_eq!(after, [1, 1, 2]);
    assert_eq!((house.used("a", token(3)), house.recount()), (Some(2), 2));
}

#[derive(Clone, Debug)]
struct Step {
    keys: Vec<u8>,
    one_tag: bool,
    algorithm: usize,
    charge: Charge,
    advance: u64,
    reset: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let charge = prop_oneof![
        (1..4_u64).prop_map(Charge::Take),
        Just(Charge::Peek),
        (1..3_u64).prop_map(Charge::Refund)
    ];
    let step = (
        prop::collection::vec(any::<u8>(), 1..4),
        any::<bool>(),
        0..5_usize,
        charge,
        prop_oneof![Just(0), Just(1), 0..4_000_000_u64],
        prop::bool::weighted(0.05),
    );
    let step = step.prop_map(|(keys, one_tag, algorithm, charge, advance, reset)| Step {
        keys,
        one_tag,
        algorithm,
        charge,
        advance,
        reset,
    });
    prop::collection::vec(step, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_workload_exceeds_the_bound(bound in 1..200_usize, steps in steps()) {
        let house = House::new(bound);
        for step in steps {
            house.clock.advance(Micros(step.advance));
            let limit = limit(Algorithm::ALL[step.algorithm], 5, 10);
            let names: Vec<_> = step.keys.iter().map(|key| format!("{}/{key}", step.algorithm)).collect();
            let items = names.iter().map(|name| {
                (if step.one_tag { "tag" } else { name.as_str() }, name.as_str(), limit)
            });
            let batch = group(items, step.charge);
            if step.reset {
                house.store.reset(&batch, &batch.items[0]);
            } else {
                house.store.decide(&batch);
            }
            prop_assert!(house.store.live_buckets() <= bound);
            prop_assert_eq!(house.store.live_buckets(), house.recount());
        }
    }
}
