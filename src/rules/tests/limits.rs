//! What limits are made of.

use super::*;

fn with(algorithm: Algorithm) -> Defaults {
    Defaults { algorithm, ..defaults() }
}

#[track_caller]
fn check_kind(defaults: &Defaults, unit: Unit, multiplier: u32, kind: &str) {
    assert_eq!(&*defaults.limit(5, unit, multiplier).unwrap().kind, kind);
}

#[test]
fn a_kind_names_algorithm_window_and_version() {
    check_kind(&defaults(), Unit::Minute, 1, "fixed_window/epoch/60");
    let first_hit = with(Algorithm::FixedWindow(Anchor::FirstHit));
    check_kind(&first_hit, Unit::Hour, 2, "fixed_window/first_hit/7200");
    check_kind(&with(Algorithm::SlidingWindowLog), Unit::Second, 0, "sliding_window_log/1");
    check_kind(
        &with(Algorithm::SlidingWindowCounter),
        Unit::Day,
        1,
        "sliding_window_counter/86400",
    );
    check_kind(&with(Algorithm::LeakyBucket), Unit::Week, 1, "leaky_bucket/604800");
    let versioned = Defaults { version: Some("v 2:a".into()), ..with(Algorithm::TokenBucket) };
    check_kind(&versioned, Unit::Year, 1, "token_bucket/31536000/v%202%3Aa");
}

#[test]
fn equal_windows_are_of_one_kind_whatever_their_unit() {
    let minute = defaults().limit(5, Unit::Minute, 1).unwrap();
    let seconds = defaults().limit(9, Unit::Second, 60).unwrap();
    assert_eq!(minute.kind, seconds.kind);
}

#[test]
fn the_window_is_at_most_a_year() {
    assert!(defaults().limit(1, Unit::Year, 1).is_some());
    assert!(defaults().limit(1, Unit::Year, 2).is_none());
    assert!(defaults().limit(1, Unit::Day, 365).is_some());
    assert!(defaults().limit(1, Unit::Day, 366).is_none());
    assert!(defaults().limit(1, Unit::Second, u32::MAX).is_none());
}

#[test]
fn bursts_default_by_algorithm() {
    let burst = |defaults: Defaults| defaults.limit(5, Unit::Minute, 1).unwrap().limit.burst;
    assert_eq!(burst(with(Algorithm::TokenBucket)), 5);
    assert_eq!(burst(with(Algorithm::LeakyBucket)), 1);
    assert_eq!(burst(Defaults { burst: Some(9), ..with(Algorithm::TokenBucket) }), 9);
}

#[test]
fn only_fixed_windows_count_refusals_by_default() {
    for algorithm in Algorithm::ALL {
        let limit = with(algorithm).limit(5, Unit::Minute, 1).unwrap();
        let is_fixed = matches!(algorithm, Algorithm::FixedWindow(_));
        assert_eq!(limit.limit.count_denied, is_fixed);
        assert!(!limit.post_paid);
    }
}

#[test]
fn only_a_written_count_denied_is_post_paid() {
    let written =
        |yes| Defaults { count_denied: Some(yes), ..with(Algorithm::FixedWindow(Anchor::Epoch)) };
    assert!(written(true).limit(5, Unit::Minute, 1).unwrap().post_paid);
    let limit = written(false).limit(5, Unit::Minute, 1).unwrap();
    assert!(!limit.post_paid && !limit.limit.count_denied);
}

#[test]
fn units_grow() {
    assert!(Unit::ALL.is_sorted_by_key(|unit| unit.seconds()));
}
