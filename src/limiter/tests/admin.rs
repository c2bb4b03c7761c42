//! What the admin port shows.

use super::*;

#[test]
fn the_dump_has_a_line_per_limit() {
    let rules = [
        rule("k1=v1", [per(3, Unit::Minute)]),
        rule(
            "k2/k3",
            [
                per(10, Unit::Second).by(Algorithm::TokenBucket).burst(20).named("fast"),
                per(1000, Unit::Day).times(2).by(Algorithm::SlidingWindowLog),
            ],
        )
        .shadow(),
        unlimited("free", "", &[]).quota(),
    ];
    let house = House::new([domain(rules).named("foo")]);
    let text = dump(&house.limiter.policies().unwrap().rules);
    let expected = "\
foo.k1_v1: unit=MINUTE requests_per_unit=3, shadow_mode: false, quota_mode: false, \
algorithm: fixed_window, window: epoch, unit_multiplier: 1, count_denied: true, failure_mode: local
foo.k2.k3: unit=SECOND requests_per_unit=10, shadow_mode: true, quota_mode: false, \
algorithm: token_bucket, burst: 20, unit_multiplier: 1, count_denied: false, failure_mode: local, \
name: fast
foo.k2.k3: unit=DAY requests_per_unit=1000, shadow_mode: true, quota_mode: false, \
algorithm: sliding_window_log, unit_multiplier: 2, count_denied: false, failure_mode: local
foo.free: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: true, unlimited: true
";
    assert_eq!(text, expected);
}

fn views(house: &House, entries: &str) -> Vec<BucketView> {
    at_once(house.limiter.inspect("d", &of(entries).entries)).unwrap()
}

#[test]
fn every_bucket_of_a_descriptor_can_be_looked_at_and_reset() {
    let list = [per(10, Unit::Minute), per(9, Unit::Hour).by(Algorithm::TokenBucket)];
    let house = House::new([domain([rule("k", list)])]);
    house.at(20).ask([of("k=a").hits(4)]);
    let before = views(&house, "k=a");
    let shown: Vec<_> =
        before.iter().map(|view| (view.exists, view.used, view.remaining)).collect();
    assert_eq!(shown, [(true, 4, 6), (true, 4, 5)]);
    assert_eq!(
        (before[0].reset, before[1].reset),
        (Micros::from_secs(40), Micros::from_secs(1600))
    );
    assert!(before[1].key.contains("token_bucket"), "{}", before[1].key);
    assert_eq!(at_once(house.limiter.reset("d", &of("k=a").entries)).unwrap(), before);
    let shown: Vec<_> = views(&house, "k=a")
        .iter()
        .map(|view| (view.exists, view.used, view.remaining, view.reset))
        .collect();
    assert_eq!(shown, [(false, 0, 10, Micros(0)), (false, 0, 9, Micros(0))]);
    assert_eq!(house.ask([of("k=a")]).statuses[0].remaining, 8);
}

#[test]
fn looking_changes_nothing() {
    let house = House::new([domain([rule("k", [per(1, Unit::Minute)])])]);
    assert_eq!(views(&house, "k=a").len(), 1);
    assert_eq!(house.passes(&of("k=a"), 1), "+");
    assert_eq!(house.used("k=a"), [1]);
    assert_eq!(house.passes(&of("k=a").peek(), 1), "+");
}

#[test]
fn there_is_nothing_to_see_where_nothing_limits() {
    let house = House::new([domain([unlimited("free", "", &[])])]);
    assert_eq!(views(&house, "free=a"), []);
    assert_eq!(views(&house, "k=a"), []);
    assert_eq!(at_once(house.limiter.inspect("other", &of("k=a").entries)).unwrap(), []);
}
