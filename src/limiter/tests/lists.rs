//! Several limits on one descriptor.

use super::*;

fn bucket(requests: u32, unit: Unit) -> LimitDraft {
    per(requests, unit).by(Algorithm::TokenBucket)
}

fn house(limits: impl IntoIterator<Item = LimitDraft>) -> House {
    House::new([domain([rule("k", limits)])])
}

/// Requests per unit of the reported limit.
fn reported(response: &Response) -> u32 {
    response.statuses[0].limit.as_ref().unwrap().requests
}

#[test]
fn a_list_consumes_all_or_nothing() {
    let house = house([bucket(2, Unit::Second), bucket(3, Unit::Day)]);
    assert_eq!(house.passes(&of("k=a"), 3), "++-");
    assert_eq!(house.used("k=a"), [2, 2]);
    assert_eq!(house.at(1).passes(&of("k=a"), 2), "+-");
    assert_eq!(house.used("k=a"), [1, 3]);
}

#[test]
fn a_fixed_window_in_a_list_records_its_own_refusal_only() {
    let house = house([per(2, Unit::Minute), per(9, Unit::Day)]);
    assert_eq!(house.passes(&of("k=a"), 4), "++--");
    assert_eq!(house.used("k=a"), [3, 2]);
}

#[test]
fn the_refused_limit_with_the_longest_wait_is_reported() {
    let house = house([bucket(10, Unit::Second), bucket(10, Unit::Hour), bucket(10, Unit::Minute)]);
    house.ask([of("k=a").hits(10)]);
    let response = house.ask([of("k=a")]);
    assert_eq!(response.statuses[0].limit.as_ref().unwrap().unit, Unit::Hour);
    assert_eq!(response.statuses[0].reset_seconds, Some(360));
}

#[test]
fn a_limit_that_never_fits_waits_longest() {
    let house = house([bucket(10, Unit::Day), bucket(3, Unit::Second)]);
    house.ask([of("k=a").hits(3)]);
    let response = house.ask([of("k=a").hits(9)]);
    assert_eq!(reported(&response), 3);
    assert!(response.statuses[0].never_fits);
}

#[test]
fn the_smallest_remaining_is_reported_and_the_first_of_equals() {
    let house = house([bucket(5, Unit::Second), bucket(4, Unit::Hour), bucket(4, Unit::Day)]);
    let response = house.ask([of("k=a")]);
    let limit = response.statuses[0].limit.clone().unwrap();
    assert_eq!((limit.requests, limit.unit), (4, Unit::Hour));
    assert_eq!(response.statuses[0].remaining, 3);
}

#[test]
fn a_peek_is_refused_if_any_limit_is_overdrawn() {
    let house = house([bucket(9, Unit::Second), bucket(1, Unit::Day).count_denied(true)]);
    assert_eq!(house.passes(&of("k=a"), 2), "+-");
    assert_eq!(house.at(5).passes(&of("k=a").peek(), 1), "-");
}

#[test]
fn a_refund_goes_to_every_limit() {
    let house = house([bucket(9, Unit::Hour), per(9, Unit::Day)]);
    house.ask([of("k=a").hits(5)]);
    assert_eq!(house.passes(&of("k=a").refund(3), 1), "+");
    assert_eq!(house.used("k=a"), [2, 2]);
}

#[test]
fn a_list_in_shadow_is_decided_as_if_enforced() {
    let rules = [rule("k", [bucket(1, Unit::Second), bucket(9, Unit::Day)]).shadow()];
    let house = House::new([domain(rules)]);
    assert_eq!(house.passes(&of("k=a"), 3), "+++");
    assert_eq!(house.used("k=a"), [1, 1]);
    let status = house.ask([of("k=a")]).statuses[0].clone();
    assert_eq!((status.refused, status.remaining, status.reset_seconds), (true, 0, Some(1)));
}
