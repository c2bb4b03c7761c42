//! Refusals that the store need not be asked for again.

use super::*;
use crate::store::DenyConfig;
use proptest::prelude::*;

fn house(policy: Policy) -> House {
    House::failing(StandInOptions::default(), [policy])
}

fn with_max(max: Micros, policy: Policy) -> House {
    let deny = DenyConfig { max, ..DenyConfig::default() };
    House::failing(StandInOptions { deny, ..StandInOptions::default() }, [policy])
}

/// How often the store is asked for this.
fn calls(house: &House, ask: impl FnOnce()) -> usize {
    let before = house.failing_store().calls();
    ask();
    house.failing_store().calls() - before
}

#[test]
fn a_refusal_is_not_asked_for_twice() {
    // Vectors 77 and 86.
    for shadow in [false, true] {
        let limited = rule("a", [per(2, Unit::Minute)]);
        let limited = if shadow { limited.shadow() } else { limited };
        let house = house(domain([limited]));
        let expected = if shadow { "+++" } else { "++-" };
        assert_eq!(house.passes(&of("a=x"), 3), expected);
        let asked = calls(&house, || {
            let status = house.ask([of("a=x")]).statuses[0].clone();
            assert_eq!((status.refused, status.remaining), (true, 0));
            assert_eq!(status.decided_by, DecidedBy::DenyCache);
        });
        assert_eq!(asked, 0);
        let series = house.series(&["a"]);
        assert_eq!((series.total_hits.get(), series.over_limit.get()), (4, 2));
        assert_eq!(series.over_limit_with_local_cache.get(), 1);
        assert_eq!(series.shadow_mode.get(), if shadow { 2 } else { 0 });
    }
}

#[test]
fn all_hits_of_a_remembered_refusal_are_over() {
    // Vector 94, BR-080.
    let house = house(domain([rule("a", [per(10, Unit::Minute)])]));
    house.passes(&of("a=x").hits(3), 5);
    let series = house.series(&["a"]);
    assert_eq!((series.over_limit.get(), series.near_limit.get()), (5, 2));
    assert_eq!(series.over_limit_with_local_cache.get(), 3);
    assert_eq!((series.total_hits.get(), series.within_limit.get()), (15, 9));
}

fn bucket(requests: u32) -> LimitDraft {
    per(requests, Unit::Minute).by(Algorithm::TokenBucket)
}

#[test]
fn lighter_charges_and_peeks_go_to_the_store() {
    let house = house(domain([rule("a", [bucket(5)])]));
    assert_eq!(house.passes(&of("a=x").hits(3), 2), "+-");
    for (asked, expected) in [
        (of("a=x").hits(3), 0),
        (of("a=x").hits(4), 0),
        (of("a=x").peek(), 1),
        (of("a=x").hits(2), 1),
        (of("a=y").hits(3), 1),
    ] {
        assert_eq!(calls(&house, || _ = house.ask([asked.clone()])), expected, "{asked:?}");
    }
}

#[test]
fn the_duration_counts_down_until_the_store_is_asked_again() {
    let house = with_max(Micros::from_secs(5), domain([rule("a", [bucket(2)])]));
    assert_eq!(house.passes(&of("a=x"), 3), "++-");
    for (second, left, expected) in [(0, 30, 0), (4, 26, 0), (5, 25, 1), (9, 21, 0)] {
        house.at(second);
        let asked = calls(&house, || {
            let status = house.ask([of("a=x")]).statuses[0].clone();
            assert_eq!(status.reset_seconds, Some(left));
        });
        assert_eq!(asked, expected, "at {second}");
    }
}

#[test]
fn what_never_fits_says_so_whoever_refuses_it() {
    let house = house(domain([
        rule("a", [bucket(3)]),
        rule("f", [per(3, Unit::Hour)]),
        rule("p", [bucket(3).by(Algorithm::LeakyBucket).burst(2)]),
    ]));
    for key in ["a=x", "f=x", "p=x"] {
        house.passes(&of(key), 4);
        let heavy = house.ask([of(key).hits(4)]).statuses[0].clone();
        assert_eq!((heavy.decided_by, heavy.never_fits), (DecidedBy::DenyCache, true), "{key}");
        let fits = house.ask([of(key).hits(3)]).statuses[0].clone();
        assert_eq!((fits.decided_by, fits.never_fits), (DecidedBy::DenyCache, false), "{key}");
        house.fail(&["{"]);
        let heavy = house.ask([of(key).hits(4)]).statuses[0].clone();
        assert_eq!((heavy.code, heavy.never_fits), (Code::OverLimit, true), "{key}");
        house.fail(&[]);
    }
}

#[test]
fn switched_off_the_store_is_always_asked() {
    let house = with_max(Micros(0), domain([rule("a", [bucket(2)])]));
    assert_eq!(calls(&house, || _ = house.passes(&of("a=x"), 5)), 5);
}

#[test]
fn a_refund_or_reset_here_is_noticed_at_once() {
    let house = house(domain([rule("a", [bucket(2)])]));
    assert_eq!(house.passes(&of("a=x"), 3), "++-");
    house.ask([of("a=x").refund(1)]);
    house.clock.advance(Micros(1));
    assert_eq!(house.passes(&of("a=x"), 2), "+-");
    at_once(house.limiter.reset("d", &of("a=x").entries)).unwrap();
    assert_eq!(house.passes(&of("a=x"), 1), "+");
}

#[test]
fn a_limit_that_records_refusals_is_asked_every_time() {
    let house = house(domain([rule("a", [bucket(2).count_denied(true)])]));
    assert_eq!(calls(&house, || _ = house.passes(&of("a=x"), 5)), 5);
}

#[test]
fn a_list_is_answered_by_its_item_unless_another_is_post_paid() {
    let second = || per(9, Unit::Hour).by(Algorithm::TokenBucket).named("second");
    let plain = house(domain([rule("a", [bucket(1), second()])]));
    assert_eq!(plain.passes(&of("a=x"), 2), "+-");
    let asked = calls(&plain, || {
        let status = plain.ask([of("a=x")]).statuses[0].clone();
        assert_eq!((status.code, status.reset_seconds), (Code::OverLimit, Some(60)));
        assert_eq!(status.limit.map(|limit| limit.requests), Some(1));
    });
    assert_eq!(asked, 0);
    let paid = house(domain([rule("a", [bucket(1), second().count_denied(true)])]));
    assert_eq!(calls(&paid, || _ = paid.passes(&of("a=x"), 4)), 4);
    assert_eq!(paid.used("a=x"), [1, 4]);
}

#[test]
fn the_other_descriptors_go_to_the_store() {
    let house = house(domain([rule("a", [bucket(1)]), rule("b", [bucket(9)])]));
    house.passes(&of("a=x"), 2);
    let response = house.ask([of("b=x"), of("a=x"), of("b=x")]);
    assert_eq!(signs(&response), "+-+");
    let decided: Vec<_> = response.statuses.iter().map(|status| status.decided_by).collect();
    assert_eq!(decided, [DecidedBy::Store, DecidedBy::DenyCache, DecidedBy::Store]);
    assert_eq!(house.used("b=x"), [2]);
    house.fail(&["b="]);
    let decided = house.ask([of("b=x"), of("a=x")]).statuses;
    assert!(matches!(decided[0].decided_by, DecidedBy::Fallback { .. }));
    assert_eq!(decided[1].decided_by, DecidedBy::DenyCache);
}

#[test]
fn groups_of_several_always_go_to_the_store() {
    let mut house = house(domain([rule("a", [bucket(1)]), rule("b", [bucket(9)])]));
    house.limiter.options.stop_when_over_limit = true;
    house.passes(&of("a=x"), 2);
    assert_eq!(calls(&house, || _ = house.ask([of("a=x"), of("b=x")])), 1);
    house.passes(&of("a=y"), 1);
    house.ask([of("a=y"), of("b=x")]);
    assert_eq!(calls(&house, || _ = house.ask([of("a=y")])), 1, "a group's refusal fills nothing");
}

/// What is asked: milliseconds later, of which rule, and what.
type Step = (u64, usize, Charge);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let charge = prop_oneof![
        8 => (1_u64..5).prop_map(Charge::Take),
        1 => Just(Charge::Peek),
        1 => (1_u64..3).prop_map(Charge::Refund),
    ];
    prop::collection::vec((0_u64..900, 0_usize..7, charge), 1..80)
}

fn rules() -> Policy {
    let few = |algorithm| per(4, Unit::Second).times(3).by(algorithm);
    let list = [few(Algorithm::TokenBucket).burst(3), few(Algorithm::SlidingWindowLog).named("l")];
    domain([
        rule("r0", [few(Algorithm::FixedWindow(Anchor::Epoch))]),
        rule("r1", [few(Algorithm::FixedWindow(Anchor::FirstHit)).count_denied(false)]),
        rule("r2", [few(Algorithm::SlidingWindowLog)]),
        rule("r3", [few(Algorithm::SlidingWindowCounter)]),
        rule("r4", [few(Algorithm::TokenBucket).burst(3)]),
        rule("r5", [few(Algorithm::LeakyBucket).burst(2)]),
        rule("r6", list),
    ])
}

proptest! {
    #[test]
    fn the_cache_changes_no_decision(steps in steps()) {
        let (with, without) = (house(rules()), with_max(Micros(0), rules()));
        let entries = ["r0=x", "r1=x", "r2=x", "r3=x", "r4=x", "r5=x", "r6=x"];
        for (later, rule, charge) in steps {
            let asked = Descriptor { charge, ..of(entries[rule]) };
            let answers = [&with, &without].map(|house| {
                house.clock.advance(Micros(later * 1000));
                house.ask([asked.clone()]).code
            });
            prop_assert_eq!(answers[0], answers[1], "{:?}", asked);
        }
        for entries in entries {
            prop_assert_eq!(with.used(entries), without.used(entries));
        }
    }
}
