use super::super::sample::{self, limit, passed, refused, unlimited, unmatched};
use super::*;

fn charge_of(own: Option<u64>, negative: bool, request_hits: u32) -> Charge {
    let mut message = sample::request(&[&[("k", "v")]]);
    message.hits_addend = request_hits;
    message.descriptors[0].hits_addend = own;
    message.descriptors[0].is_negative_hits = negative;
    request(&message).unwrap().descriptors[0].charge
}

#[test]
fn hits_come_from_the_descriptor_then_from_the_request_and_are_one_otherwise() {
    // BR-009, BR-093
    assert_eq!(charge_of(None, false, 0), Charge::Take(1));
    assert_eq!(charge_of(None, false, 7), Charge::Take(7));
    assert_eq!(charge_of(Some(2), false, 7), Charge::Take(2));
    assert_eq!(charge_of(Some(0), false, 7), Charge::Peek);
    assert_eq!(charge_of(Some(0), false, 0), Charge::Peek);
}

#[test]
fn hits_saturate_at_what_an_algorithm_can_count() {
    assert_eq!(charge_of(Some(u64::MAX), false, 0), Charge::Take(MAX_HITS));
    assert_eq!(charge_of(Some(MAX_HITS + 1), true, 0), Charge::Refund(MAX_HITS));
    assert_eq!(charge_of(Some(MAX_HITS), false, 0), Charge::Take(MAX_HITS));
    assert_eq!(charge_of(None, false, u32::MAX), Charge::Take(u32::MAX.into()));
}

#[test]
fn negative_hits_are_given_back_and_none_of_them_is_no_peek() {
    assert_eq!(charge_of(Some(3), true, 7), Charge::Refund(3));
    assert_eq!(charge_of(None, true, 7), Charge::Refund(7));
    assert_eq!(charge_of(None, true, 0), Charge::Refund(1));
    assert_eq!(charge_of(Some(0), true, 7), Charge::Refund(0));
}

#[test]
fn texts_are_borrowed_from_the_message() {
    let message = sample::request(&[&[("path", "/a"), ("tenant", "")]]);
    let request = request(&message).unwrap();
    assert_eq!(request.domain.as_ptr(), message.domain.as_ptr());
    let entries = &request.descriptors[0].entries;
    assert_eq!(entries[0], Entry { key: "path", value: "/a" });
    assert_eq!(entries[1], Entry { key: "tenant", value: "" });
    assert_eq!(entries[0].value.as_ptr(), message.descriptors[0].entries[0].value.as_ptr());
}

fn override_of(unit: i32, unit_multiplier: Option<u32>) -> Result<Option<Override>, Invalid> {
    let mut message = sample::request(&[&[], &[]]);
    message.descriptors[1].limit =
        Some(RateLimitOverride { requests_per_unit: 10, unit, unit_multiplier });
    Ok(request(&message)?.descriptors[1].limit_override)
}

#[test]
fn an_override_may_name_each_unit() {
    for (number, unit) in [
        (1, Unit::Second),
        (2, Unit::Minute),
        (3, Unit::Hour),
        (4, Unit::Day),
        (5, Unit::Month),
        (6, Unit::Year),
        (7, Unit::Week),
    ] {
        let expected = Override { requests: 10, unit, unit_multiplier: 0 };
        assert_eq!(override_of(number, None), Ok(Some(expected)));
    }
}

#[test]
fn an_override_of_an_unknown_unit_is_an_error_that_names_the_place() {
    // BR-065
    for found in [0, 8, -1, i32::MAX] {
        assert_eq!(override_of(found, None), Err(Invalid::Unit { place: 1, found }));
    }
    assert_eq!(
        override_of(0, None).unwrap_err().to_string(),
        "descriptors[1].limit.unit: found 0, expected 1 (SECOND), 2 (MINUTE), 3 (HOUR), 4 (DAY), \
         5 (MONTH), 6 (YEAR) or 7 (WEEK)"
    );
}

#[test]
fn an_overrides_window_is_at_most_a_year() {
    let multiplier = |n| Some(Override { requests: 10, unit: Unit::Month, unit_multiplier: n });
    assert_eq!(override_of(5, Some(12)), Ok(multiplier(12)));
    assert_eq!(override_of(5, Some(0)), Ok(multiplier(0)));
    assert_eq!(
        override_of(5, Some(13)).unwrap_err().to_string(),
        "descriptors[1].limit: found a window of 13 x month, expected at most a year"
    );
    assert!(override_of(6, Some(u32::MAX)).is_err());
}

#[test]
fn statuses_tell_what_the_limiter_said() {
    // Vector 107, and an OVER_LIMIT.
    let minute = || limit(10, Unit::Minute, "burst");
    let wire_limit = RateLimit {
        requests_per_unit: 10,
        unit: WireUnit::Minute.into(),
        name: "burst".into(),
        unit_multiplier: None,
    };
    let ok = WireCode::Ok.into();
    let plain = DescriptorStatus { code: ok, ..DescriptorStatus::default() };
    assert_eq!(status(&unmatched()), plain);
    let expected = DescriptorStatus { limit_remaining: u32::MAX, ..plain.clone() };
    assert_eq!(status(&unlimited()), expected);
    let expected = DescriptorStatus {
        current_limit: Some(wire_limit.clone()),
        limit_remaining: 9,
        duration_until_reset: Some(Duration { seconds: 58, nanos: 0 }),
        ..plain.clone()
    };
    assert_eq!(status(&passed(minute(), 9, 58)), expected);
    let expected = DescriptorStatus {
        code: WireCode::OverLimit.into(),
        current_limit: Some(wire_limit),
        limit_remaining: 0,
        duration_until_reset: Some(Duration { seconds: 3, nanos: 0 }),
        ..plain
    };
    assert_eq!(status(&refused(minute(), 3)), expected);
}

#[test]
fn a_multiplier_is_told_only_if_it_is_not_one() {
    let wire = |unit_multiplier| {
        current_limit(&StatusLimit { unit_multiplier, ..limit(1, Unit::Week, "") })
    };
    assert_eq!(wire(1).unit_multiplier, None);
    assert_eq!(wire(2).unit_multiplier, Some(2));
    assert_eq!(wire(2).unit, 7);
}

#[test]
fn odd_descriptors_are_converted_as_they_are() {
    let long = "x".repeat(10_000);
    let entries = vec![("\0", long.as_str()); 1_000];
    let descriptors = vec![entries.as_slice(), &[], &[("", "")]];
    let message = sample::request(&descriptors);
    let converted = request(&message).unwrap();
    assert_eq!(converted.descriptors[0].entries.len(), 1_000);
    assert_eq!(converted.descriptors[0].entries[999], Entry { key: "\0", value: &long });
    assert!(converted.descriptors[1].entries.is_empty());
    assert_eq!(converted.descriptors[2].entries[0], Entry { key: "", value: "" });

    let message = sample::request(&vec![&[("k", "v")] as &[_]; 1_000]);
    assert_eq!(request(&message).unwrap().descriptors.len(), 1_000);
}
