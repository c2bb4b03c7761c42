//! Metrics, by the figures of the server that this one replaces.

use super::*;

/// Total, over, near, within, shadow.
type Counts = [u64; 5];

fn counts(series: &RuleSeries) -> Counts {
    let RuleSeries { total_hits, over_limit, near_limit, within_limit, shadow_mode, .. } = series;
    [total_hits, over_limit, near_limit, within_limit, shadow_mode].map(|counter| counter.get())
}

fn minus(after: Counts, before: Counts) -> Counts {
    std::array::from_fn(|i| after[i] - before[i])
}

/// What `hits` on a bucket that holds `used` add.
fn added(draft: RuleDraft, used: u64, hits: u64) -> Counts {
    let house = House::new([domain([draft])]);
    if used > 0 {
        house.ask([of("key=a").hits(used)]);
    }
    let before = counts(&house.series(&["key"]));
    house.ask([of("key=a").hits(hits)]);
    minus(counts(&house.series(&["key"])), before)
}

#[test]
fn hits_split_into_within_near_and_over_as_they_always_did() {
    for (vector, limit, used, hits, expected) in [
        (70, 10, 4, 1, [1, 0, 0, 1]),
        (71, 10, 10, 1, [1, 1, 0, 0]),
        (74, 15, 10, 1, [1, 0, 0, 1]),
        (75, 15, 12, 1, [1, 0, 1, 1]),
        (76, 15, 15, 1, [1, 1, 0, 0]),
        (78, 20, 2, 3, [3, 0, 0, 3]),
        (79, 8, 5, 2, [2, 0, 1, 2]),
        (80, 20, 16, 3, [3, 0, 3, 3]),
        (81, 20, 19, 3, [3, 2, 1, 0]),
        (82, 20, 15, 7, [7, 2, 4, 0]),
        (83, 10, 27, 3, [3, 3, 0, 0]),
        (93, 5, 2, 5, [5, 2, 1, 0]),
    ] {
        let [total, over, near, within, shadow] =
            added(rule("key", [per(limit, Unit::Hour)]), used, hits);
        assert_eq!(([total, over, near, within], shadow), (expected, 0), "vector {vector}");
    }
}

#[test]
fn a_shadow_rule_counts_what_it_would_have_refused() {
    let shadow = || rule("key", [per(15, Unit::Hour)]).shadow();
    assert_eq!(added(shadow(), 15, 1), [1, 1, 0, 0, 1], "vector 85");
    assert_eq!(added(shadow(), 14, 3), [3, 2, 1, 0, 2]);
    assert_eq!(added(shadow(), 3, 1), [1, 0, 0, 1, 0]);
}

#[test]
fn hits_above_one_are_counted_once_each_br_081() {
    for (draft, shadow, codes) in [
        (rule("key", [per(10, Unit::Minute)]), 0, "+++--"),
        (rule("key", [per(10, Unit::Minute)]).shadow(), 5, "+++++"),
    ] {
        let house = House::new([domain([draft])]);
        assert_eq!(house.passes(&of("key=a").hits(3), 5), codes);
        assert_eq!(counts(&house.series(&["key"])), [15, 5, 2, 9, shadow]);
    }
}

#[test]
fn stop_mode_counts_as_it_always_did() {
    let options = Options { stop_when_over_limit: true, ..OPTIONS };
    let rules = [rule("a", [per(15, Unit::Hour)]), rule("b", [per(14, Unit::Hour)])];
    let house = House::with(options, [domain(rules)]);
    let ask = |hits| {
        let response = house.ask([of("a=x").hits(hits), of("b=x").hits(hits)]);
        (signs(&response), response.statuses[0].remaining, response.statuses[1].remaining)
    };
    ask(10);
    let base = ["a", "b"].map(|key| counts(&house.series(&[key])));
    let since = |i: usize| minus(counts(&house.series(&[["a", "b"][i]])), base[i]);
    assert_eq!(ask(1), ("++".to_owned(), 4, 3), "vector 90");
    assert_eq!(ask(2), ("++".to_owned(), 2, 1), "vector 91");
    assert_eq!((since(0)[2], since(1)[2]), (1, 2), "vector 91");
    assert_eq!(ask(2), ("+-".to_owned(), 2, 0), "vector 92");
    assert_eq!(since(0), [5, 0, 2, 5, 0], "vector 92");
    assert_eq!(since(1), [5, 1, 3, 3, 0], "vector 92");
}

#[test]
fn an_unrecorded_refusal_is_over_the_limit_as_a_whole() {
    let token = per(10, Unit::Minute).by(Algorithm::TokenBucket);
    assert_eq!(added(rule("key", [token.clone()]), 8, 5), [5, 5, 0, 0, 0]);
    assert_eq!(added(rule("key", [token.count_denied(true)]), 8, 5), [5, 3, 2, 0, 0]);
    let fixed = per(10, Unit::Minute).count_denied(false);
    assert_eq!(added(rule("key", [fixed]), 8, 5), [5, 5, 0, 0, 0]);
}

#[test]
fn use_is_measured_against_the_burst() {
    let token = per(10, Unit::Minute).by(Algorithm::TokenBucket).burst(20);
    assert_eq!(added(rule("key", [token.clone()]), 12, 1), [1, 0, 0, 1, 0]);
    assert_eq!(added(rule("key", [token]), 16, 1), [1, 0, 1, 1, 0]);
}

#[test]
fn a_limit_of_one_is_near_from_the_first_hit() {
    assert_eq!(added(rule("key", [per(1, Unit::Hour)]), 0, 1), [1, 0, 1, 1, 0]);
}

#[test]
fn peeks_add_nothing_and_refunds_only_to_their_own_counter() {
    let house = House::new([domain([rule("key", [per(1, Unit::Hour)])])]);
    let series = house.series(&["key"]);
    house.ask([of("key=a").peek()]);
    assert_eq!(counts(&series), [0; 5]);
    house.ask([of("key=a").hits(2)]);
    let before = counts(&series);
    house.ask([of("key=a").peek()]);
    house.ask([of("key=a").refund(7)]);
    assert_eq!(counts(&series), before);
    assert_eq!(series.total_negative_hits.get(), 7);
}

#[test]
fn a_list_is_counted_once_by_the_limit_that_is_reported() {
    let list = [per(100, Unit::Second), per(2, Unit::Day)];
    let house = House::new([domain([rule("key", list)])]);
    assert_eq!(house.passes(&of("key=a"), 3), "++-");
    assert_eq!(counts(&house.series(&["key"])), [3, 1, 1, 2, 0]);
}

#[test]
fn a_detailed_rule_has_series_by_value() {
    let house = House::new([domain([rule("key", [per(1, Unit::Hour)]).detailed()])]);
    house.ask([of("key=a"), of("key=b").hits(3)]);
    assert_eq!(house.series(&["key_a"]).total_hits.get(), 1);
    assert_eq!(house.series(&["key_b"]).total_hits.get(), 3);
}

#[test]
fn descriptors_that_nothing_limits_are_counted_by_domain() {
    let rules = [rule("key", [per(1, Unit::Hour)]), unlimited("free", "", &[])];
    let house = House::new([domain(rules)]);
    house.ask([of("key=a"), of("other=a"), of("free=a"), of("")]);
    assert_eq!(house.metrics.unmatched_descriptors("d").get(), 2);
    assert_eq!(house.metrics.unknown_domain_requests.get(), 0);
}
