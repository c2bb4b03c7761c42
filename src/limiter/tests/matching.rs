//! Which rule answers, and which bucket it counts in.

use super::*;

#[test]
fn the_rule_stands_exactly_where_the_descriptor_ends_br_061() {
    let rules = [
        rule("foo", [per(2, Unit::Minute)]),
        rule("foo/bar", [per(3, Unit::Minute)]),
        rule("source_cluster=proxy/destination", [per(1, Unit::Minute)]),
    ];
    let house = House::new([domain(rules)]);
    for (entries, expected) in [
        ("foo=x,bar=z", Some(3)),
        ("bar=z,foo=x", None),
        ("foo=x,bar=z,extra=1", None),
        ("source_cluster=proxy", None),
        ("foo=x", Some(2)),
        ("", None),
    ] {
        let status = house.ask([of(entries)]).statuses[0].clone();
        assert_eq!(status.limit.map(|limit| limit.requests), expected, "{entries}");
    }
}

#[test]
fn an_empty_value_counts_by_itself_br_059() {
    let rules = [
        rule("k", [per(2, Unit::Minute)]),
        rule("k=x", [per(1, Unit::Minute)]),
        rule("k_", [per(9, Unit::Minute)]),
    ];
    let house = House::new([domain(rules)]);
    assert_eq!(house.passes(&of("k="), 3), "++-");
    assert_eq!(house.passes(&of("k=y"), 1), "+");
    assert_eq!(house.passes(&of("=y"), 1), "+");
}

#[test]
fn entry_lists_never_share_a_bucket_br_053() {
    let one = || per(1, Unit::Minute);
    let a = domain([rule("b", [one()]), rule("k", [one()]), rule("k/x", [one()])]).named("a");
    let a_b = domain([rule("c", [one()])]).named("a_b");
    let house = House::new([a, a_b]);
    let passes = |domain, entries| house.ask_domain(domain, [of(entries)]).unwrap().code;
    for (domain, entries) in [
        ("a", "b=c_d"),
        ("a_b", "c=d"),
        ("a", "k=v_x_y"),
        ("a", "k=v,x=y"),
        ("a", "k={}"),
        ("a", "k={a}"),
        ("a", "k=}{"),
    ] {
        assert_eq!(passes(domain, entries), Code::Ok, "{domain} {entries}");
        assert_eq!(passes(domain, entries), Code::OverLimit, "{domain} {entries}");
    }
}

#[test]
fn a_reload_to_another_unit_or_algorithm_starts_afresh_br_055() {
    let five = |unit, algorithm| domain([rule("k", [per(5, unit).by(algorithm)])]);
    let house = House::new([five(Unit::Minute, Algorithm::ALL[0])]);
    assert_eq!(house.at(7200).passes(&of("k=v"), 6), "+++++-");
    for algorithm in Algorithm::ALL {
        house.install([five(Unit::Hour, algorithm)]);
        assert_eq!(house.at(7201).passes(&of("k=v"), 1), "+", "{algorithm:?}");
    }
}

#[test]
fn a_changed_limit_takes_effect_at_once_and_keeps_the_count_br_067() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let with = |requests| {
            let limit = per(requests, Unit::Second).times(20).by(algorithm).burst(requests);
            domain([rule("k", [limit])])
        };
        let house = House::new([with(10)]);
        house.ask([of("k=a").hits(3)]);
        house.install([with(1000)]);
        assert_eq!(house.passes(&of("k=a"), 1), "+", "{algorithm:?}");
        house.install([with(2)]);
        let entries = of("k=a").entries;
        let view = at_once(house.limiter.inspect("d", &entries)).unwrap().remove(0);
        assert!(view.used <= 2 && view.remaining <= 2, "{view:?}");
        assert_eq!(view.limit.requests, 2, "{algorithm:?}");
    }
}

#[test]
fn buckets_expire_each_in_its_own_time_br_077() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::SlidingWindowLog] {
        let limit = per(5, Unit::Second).times(180).by(algorithm);
        let house = House::new([domain([rule("k", [limit])])]);
        house.at(0).ask([of("k=a").hits(5)]);
        house.at(179).ask([of("k=b").hits(5)]);
        assert_eq!(house.at(181).passes(&of("k=b"), 1), "-", "{algorithm:?}");
        assert_eq!(house.passes(&of("k=a"), 1), "+", "{algorithm:?}");
    }
}

#[test]
fn a_response_keeps_the_policies_that_decided_it() {
    let house = House::new([domain([rule("k", [per(5, Unit::Minute)])])]);
    let response = house.ask([of("k=a")]);
    house.install([domain([])]);
    let status = &response.statuses[0];
    assert_eq!(response.rule(status).map(|rule| &*rule.path), Some("d.k"));
    assert_eq!(house.ask([of("k=a")]).statuses[0].rule, None);
}

#[test]
fn the_future_of_a_request_is_small_because_it_is_copied_on_its_way() {
    let house = House::new([]);
    let request = Request { domain: "d", descriptors: std::iter::once(of("k=x")).collect() };
    assert!(size_of_val(&house.limiter.decide(&request, None)) <= 1024);
}
