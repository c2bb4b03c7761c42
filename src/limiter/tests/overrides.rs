//! Limits that a request brings along.

use super::*;

fn house() -> House {
    House::new([domain([rule("k", [per(1, Unit::Minute)]).shadow()])])
}

#[test]
fn an_override_takes_the_place_of_the_policies() {
    let house = house();
    let status = house.ask([of("k=a").limited(10, Unit::Day)]).statuses[0].clone();
    let limit = StatusLimit { requests: 10, unit: Unit::Day, unit_multiplier: 1, name: None };
    assert_eq!((status.limit, status.remaining, status.rule), (Some(limit), 9, None), "vector 17");
    assert_eq!(house.passes(&of("unknown=a,deep=b").limited(2, Unit::Hour), 3), "++-");
    assert_eq!(house.passes(&of("k=b").limited(0, Unit::Hour), 1), "-", "no shadow rule applies");
}

#[test]
fn overrides_count_by_entry_keys_only() {
    let house = house();
    let ask = |entries: &'static str, requests, unit| {
        house.ask([of(entries).limited(requests, unit)]);
    };
    ask("x=1,y=1", 10, Unit::Day);
    ask("x=1,y=1", 42, Unit::Hour);
    ask("x=2,y=3", 42, Unit::Hour);
    ask("y=1", 42, Unit::Hour);
    assert_eq!(house.series(&["x", "y"]).total_hits.get(), 3, "vectors 17 and 18");
    assert_eq!(house.series(&["y"]).total_hits.get(), 1, "vector 19");
}

#[test]
fn a_higher_override_is_not_held_against_a_lower_one_br_065() {
    let house = house();
    let low = of("ip=198.51.100.1").limited(1, Unit::Minute);
    assert_eq!(house.passes(&low, 2), "+-");
    let high = of("ip=198.51.100.1").limited(100, Unit::Minute);
    let status = house.ask([high]).statuses[0].clone();
    assert_eq!((status.code, status.remaining), (Code::Ok, 97));
}

#[test]
fn another_unit_is_another_bucket_br_055() {
    let house = house();
    assert_eq!(house.passes(&of("x=a").limited(1, Unit::Minute), 2), "+-");
    assert_eq!(house.passes(&of("x=a").limited(1, Unit::Hour), 2), "+-");
}

#[test]
fn a_window_above_a_year_is_an_error() {
    let house = house();
    let with = |unit, unit_multiplier| {
        let own = Override { requests: 1, unit, unit_multiplier };
        let asked = Descriptor { limit_override: Some(own), ..of("k=a") };
        house.ask_domain("d", [of("k=b"), asked]).map(|response| response.code)
    };
    assert_eq!(with(Unit::Year, 1), Ok(Code::Ok));
    assert_eq!(with(Unit::Year, 2), Err(Error::OverrideTooLong));
    assert_eq!(with(Unit::Day, u32::MAX), Err(Error::OverrideTooLong));
}

#[test]
fn an_override_cannot_make_a_log_of_any_size() {
    let rules = domain([rule("k", [per(1, Unit::Minute)])]);
    let house = House::new([Policy { algorithm: Algorithm::SlidingWindowLog, ..rules }]);
    let most = of("k=a").limited(100_000, Unit::Minute);
    assert_eq!(house.ask([most]).statuses[0].remaining, 99_999);
    let more = of("k=a").limited(100_001, Unit::Minute);
    let refused = house.ask_domain("d", [more]).unwrap_err();
    assert_eq!(refused, Error::OverrideTooLarge(100_000));
}
