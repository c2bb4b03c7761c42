//! What each descriptor is answered.

use super::*;

const WINDOWS: [Algorithm; 5] = Algorithm::ALL;

#[test]
fn a_request_without_domain_descriptors_or_policies_has_no_answer() {
    let house = House::new([]);
    assert_eq!(house.ask_domain("", [of("k=a")]).unwrap_err(), Error::EmptyDomain);
    assert_eq!(house.ask_domain("d", []).unwrap_err(), Error::NoDescriptors);
    let store = MemoryStore::new(MemoryConfig { max_buckets: 1 }, Arc::new(ManualClock::default()));
    let limiter = Limiter::new(Store::Memory(store), Metrics::new(1), OPTIONS);
    let request = Request { domain: "d", descriptors: [of("k=a")].into_iter().collect() };
    assert_eq!(at_once(limiter.decide(&request, None)).unwrap_err(), Error::NoPolicies);
}

#[test]
fn an_unknown_domain_passes_and_is_counted() {
    let house = House::new([domain([rule("k", [per(0, Unit::Second)])])]);
    let response = house.ask_domain("other", [of("k=a"), of("k=a").limited(0, Unit::Day)]).unwrap();
    assert_eq!((response.code, signs(&response)), (Code::Ok, "++".to_owned()));
    assert!(response.statuses.iter().all(|status| status.limit.is_none()));
    assert_eq!(house.metrics.unknown_domain_requests.get(), 1);
}

#[test]
fn statuses_stand_in_the_order_of_the_descriptors() {
    let house = House::new([domain([rule("k", [per(0, Unit::Second)])])]);
    for (descriptors, expected) in [([of("k=a"), of("x=a")], "-+"), ([of("x=a"), of("k=a")], "+-")]
    {
        let response = house.ask(descriptors);
        assert_eq!((response.code, &*signs(&response)), (Code::OverLimit, expected));
    }
}

#[test]
fn unlimited_limited_and_unmatched_stand_side_by_side() {
    let rules = [unlimited("free", "", &[]), rule("k", [per(10, Unit::Minute)])];
    let house = House::new([domain(rules)]);
    let response = house.ask([of("k=a"), of("x=a"), of("free=a")]);
    let shown = response.statuses.iter().map(|status| (status.remaining, status.decided_by));
    let expected =
        [(9, DecidedBy::Store), (0, DecidedBy::NoLimit), (u32::MAX, DecidedBy::Unlimited)];
    assert!(shown.eq(expected), "vector 107");
    assert_eq!(response.statuses[2].reset_seconds, None);
    assert_eq!(response.statuses[2].limit, None);
}

#[test]
fn a_status_names_its_limit_and_its_rule() {
    let rules = [rule("k", [per(10, Unit::Minute).times(5).named("five")])];
    let house = House::new([domain(rules)]);
    let response = house.ask([of("k=a")]);
    let status = &response.statuses[0];
    let limit = StatusLimit {
        requests: 10,
        unit: Unit::Minute,
        unit_multiplier: 5,
        name: Some("five".into()),
    };
    assert_eq!(status.limit, Some(limit));
    assert_eq!(response.rule(status).map(|rule| &*rule.path), Some("d.k"));
    assert_eq!(status.reset_seconds, Some(300));
}

#[test]
fn durations_are_whole_seconds_rounded_up() {
    let fixed = || per(10, Unit::Minute);
    let house = House::new([domain([rule("k", [fixed()])])]);
    for (micros, expected) in [(0, 60), (34_000_000, 26), (34_000_001, 26), (59_999_999, 1)] {
        house.clock.set(START.saturating_add(Micros(micros)));
        assert_eq!(house.ask([of("k=a")]).statuses[0].reset_seconds, Some(expected), "{micros}");
    }
}

#[test]
fn fixed_windows_end_where_they_always_did() {
    let rules = [rule("h", [per(10, Unit::Hour)]), rule("d", [per(10, Unit::Day)])];
    let house = House::new([domain(rules)]);
    house.clock.set(Micros::from_secs(1_000_000));
    house.ask([of("h=a").hits(11), of("d=a").hits(12)]);
    let response = house.ask([of("h=a").peek(), of("d=a")]);
    assert_eq!(signs(&response), "--", "vector 72");
    let resets: Vec<_> = response.statuses.iter().map(|status| status.reset_seconds).collect();
    assert_eq!(resets, [Some(800), Some(36_800)], "vector 72");
}

#[test]
fn a_refusal_says_when_the_charge_would_be_admitted() {
    let token = per(6, Unit::Minute).by(Algorithm::TokenBucket);
    let house = House::new([domain([rule("k", [token])])]);
    house.ask([of("k=a").hits(6)]);
    let status = house.ask([of("k=a")]).statuses[0].clone();
    assert_eq!((status.remaining, status.reset_seconds), (0, Some(10)));
    assert_eq!(house.at(9).passes(&of("k=a"), 1), "-");
    assert_eq!(house.at(10).passes(&of("k=a"), 1), "+");
}

#[test]
fn a_charge_that_never_fits_is_told_the_window() {
    for (algorithm, expected) in [
        (Algorithm::FixedWindow(Anchor::Epoch), 45),
        (Algorithm::FixedWindow(Anchor::FirstHit), 60),
        (Algorithm::SlidingWindowLog, 60),
        (Algorithm::SlidingWindowCounter, 60),
        (Algorithm::TokenBucket, 60),
        (Algorithm::LeakyBucket, 60),
    ] {
        let limit = per(5, Unit::Minute).by(algorithm).count_denied(false);
        let house = House::new([domain([rule("k", [limit])])]);
        let status = house.at(15).ask([of("k=a").hits(6)]).statuses[0].clone();
        assert_eq!((status.code, status.never_fits), (Code::OverLimit, true), "{algorithm:?}");
        assert_eq!(status.reset_seconds, Some(expected), "{algorithm:?}");
    }
}

#[test]
fn a_limit_of_zero_refuses_every_hit_but_not_a_peek_br_015() {
    for algorithm in WINDOWS {
        let limit = per(0, Unit::Second).by(algorithm).count_denied(false);
        let house = House::new([domain([rule("k", [limit])])]);
        assert_eq!(house.passes(&of("k=a").peek(), 1), "+", "{algorithm:?}");
        for second in 0..2 {
            assert_eq!(house.at(second).passes(&of("k=a"), 3), "---", "{algorithm:?}");
        }
        let status = house.ask([of("k=a")]).statuses[0].clone();
        assert_eq!((status.remaining, status.reset_seconds), (0, Some(1)), "{algorithm:?}");
        assert_eq!(house.series(&["k"]).within_limit.get(), 0, "{algorithm:?}");
    }
}

#[test]
fn a_charge_above_what_remains_is_refused_as_a_whole_br_011() {
    for (algorithm, expected) in [
        (Algorithm::FixedWindow(Anchor::Epoch), "---"),
        (Algorithm::SlidingWindowLog, "-+-"),
        (Algorithm::SlidingWindowCounter, "-+-"),
        (Algorithm::TokenBucket, "-+-"),
    ] {
        let house = House::new([domain([rule("k", [per(10, Unit::Minute).by(algorithm)])])]);
        house.ask([of("k=a").hits(8)]);
        let signs: String = [5, 1, 2].map(|hits| house.passes(&of("k=a").hits(hits), 1)).concat();
        assert_eq!(signs, expected, "{algorithm:?}");
    }
}

#[test]
fn a_peek_passes_until_the_limit_is_exceeded_br_009() {
    let house = House::new([domain([rule("k", [per(2, Unit::Minute)])])]);
    let (a, b) = (of("k=a"), of("k=a").peek());
    let signs: String = [&a, &a, &b, &a, &b].map(|ask| house.passes(ask, 1)).concat();
    assert_eq!(signs, "+++--");
}

#[test]
fn each_descriptor_has_its_own_hits_br_093() {
    let rules = ["a", "b", "c"].map(|key| rule(key, [per(10, Unit::Minute)]));
    let house = House::new([domain(rules)]);
    let ask = || house.ask([of("a=x").hits(2), of("b=x").hits(7), of("c=x").peek()]);
    assert_eq!(signs(&ask()), "+++");
    let second = ask();
    assert_eq!((second.code, signs(&second)), (Code::OverLimit, "+-+".to_owned()));
    assert_eq!((house.used("a=x"), house.used("c=x")), (vec![4], vec![0]));
}

#[test]
fn huge_hits_neither_wrap_nor_open_the_limit_br_013() {
    let house = House::new([domain([rule("k", [per(u32::MAX, Unit::Day)])])]);
    let huge = of("k=a").hits(u32::MAX.into());
    assert_eq!(house.ask([huge.clone()]).statuses[0].remaining, 0);
    assert_eq!(house.passes(&of("k=a"), 1), "-");
    assert_eq!(house.passes(&huge, 1), "-");
}

#[test]
fn a_refund_makes_room_again_and_answers_ok() {
    for algorithm in WINDOWS {
        let limit = per(3, Unit::Minute).by(algorithm).burst(3);
        let house = House::new([domain([rule("k", [limit])])]);
        assert_eq!(house.passes(&of("k=a"), 3), "+++", "{algorithm:?}");
        let status = house.ask([of("k=a").refund(2)]).statuses[0].clone();
        assert_eq!((status.code, status.remaining), (Code::Ok, 2), "{algorithm:?}");
        assert_eq!(house.passes(&of("k=a"), 3), "++-", "{algorithm:?}");
    }
}
