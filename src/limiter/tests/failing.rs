//! What is answered when the store cannot decide.

use super::*;

const EVERYTHING: &[&str] = &["{"];

fn by(mode: FailureMode) -> DecidedBy {
    DecidedBy::Fallback { mode, reason: StoreError::Timeout }
}

fn share(parts: u32, of: u32) -> StandInOptions {
    StandInOptions { local_share: Share::new(parts, of).unwrap(), ..StandInOptions::default() }
}

/// A house of these rules in which everything fails.
fn dead(rules: impl IntoIterator<Item = RuleDraft>) -> House {
    let house = House::failing(StandInOptions::default(), [domain(rules)]);
    house.fail(EVERYTHING);
    house
}

fn check_metric(house: &House, line: &str) {
    let text = house.metrics.render();
    assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
}

#[test]
fn an_open_limit_lets_pass_and_says_nothing_of_time() {
    let house = dead([rule("a", [per(1, Unit::Minute).failing(FailureMode::Open)])]);
    assert_eq!(house.passes(&of("a=x"), 3), "+++");
    let response = house.ask([of("a=x").hits(9)]);
    let status = &response.statuses[0];
    assert_eq!((response.code, status.remaining, status.reset_seconds), (Code::Ok, 1, None));
    assert_eq!(status.decided_by, by(FailureMode::Open));
    assert_eq!(status.limit.as_ref().map(|limit| limit.requests), Some(1));
    let counted = r#"tidegate_fallback_decisions_total{mode="open",reason="timeout"} 4"#;
    check_metric(&house, counted);
    let series = house.series(&["a"]);
    assert_eq!((series.within_limit.get(), series.near_limit.get()), (12, 0));
}

#[test]
fn a_closed_limit_refuses_for_a_second() {
    let house = dead([rule("a", [per(9, Unit::Minute).failing(FailureMode::Closed)])]);
    for asked in [of("a=x"), of("a=x").peek()] {
        let response = house.ask([asked]);
        let status = &response.statuses[0];
        assert_eq!((response.code, status.reset_seconds), (Code::OverLimit, Some(1)));
        assert_eq!((status.remaining, status.never_fits), (0, false));
        assert_eq!(status.decided_by, by(FailureMode::Closed));
    }
    assert_eq!(house.series(&["a"]).over_limit.get(), 1);
}

#[test]
fn an_error_limit_fails_its_request() {
    let house = dead([
        rule("a", [per(9, Unit::Minute).failing(FailureMode::Error)]),
        rule("b", [per(9, Unit::Minute).failing(FailureMode::Closed)]),
    ]);
    let error = house.ask_domain("d", [of("b=x"), of("a=x")]).unwrap_err();
    assert_eq!(error, Error::Store(StoreError::Timeout));
    check_metric(&house, r#"tidegate_fallback_decisions_total{mode="error",reason="timeout"} 1"#);
}

#[test]
fn without_a_stand_in_a_failure_is_the_request_s() {
    let mut house = House::failing(StandInOptions::default(), []);
    house.limiter.stand_in = None;
    house.install([domain([rule("a", [per(9, Unit::Minute).failing(FailureMode::Open)])])]);
    house.fail(EVERYTHING);
    assert!(house.ask_domain("d", [of("a=x")]).is_err());
}

#[test]
fn a_local_bucket_paces() {
    let house = dead([rule("a", [per(3600, Unit::Hour)])]);
    assert_eq!(house.passes(&of("a=x"), 62), format!("{}--", "+".repeat(60)));
    assert_eq!(house.passes(&of("a=y"), 1), "+", "each key has its own");
    assert_eq!(house.at(3).passes(&of("a=x"), 4), "+++-");
    let status = house.ask([of("a=x")]).statuses[0].clone();
    assert_eq!((status.reset_seconds, status.decided_by), (Some(1), by(FailureMode::Local)));
    assert_eq!((status.remaining, status.refused), (0, true));
}

#[test]
fn a_server_gives_out_its_share_only() {
    let house = House::failing(share(1, 3), [domain([rule("a", [per(30, Unit::Minute)])])]);
    house.fail(EVERYTHING);
    assert_eq!(house.passes(&of("a=x"), 12), "++++++++++--");
    assert_eq!(house.at(6).passes(&of("a=x"), 2), "+-");
}

#[test]
fn a_limit_of_nothing_stays_refused() {
    let house = dead([rule("a", [per(0, Unit::Minute)])]);
    assert_eq!(house.passes(&of("a=x"), 2), "--");
}

#[test]
fn a_heavy_charge_waits_for_a_full_bucket_and_owes_the_rest() {
    let house = dead([rule("a", [per(3600, Unit::Hour)])]);
    let heavy = of("a=x").hits(100);
    assert_eq!(house.passes(&heavy, 2), "+-");
    assert_eq!(house.ask([of("a=x")]).statuses[0].reset_seconds, Some(41));
    assert_eq!(house.ask([heavy.clone()]).statuses[0].reset_seconds, Some(100));
    assert_eq!(house.at(40).passes(&of("a=x"), 1), "-");
    assert_eq!(house.at(41).passes(&of("a=x").peek(), 1), "+");
    assert_eq!(house.at(99).passes(&heavy, 1), "-");
    assert_eq!(house.at(100).passes(&heavy, 1), "+");
    let never = house.ask([of("a=y").hits(3601)]);
    assert_eq!((never.code, never.statuses[0].never_fits), (Code::OverLimit, true));
}

#[test]
fn a_heavy_charge_of_a_list_or_group_is_all_or_nothing() {
    let lists = [per(3600, Unit::Hour), per(50, Unit::Minute).named("m")];
    let house = dead([rule("a", lists)]);
    assert_eq!(house.passes(&of("a=x").hits(100), 1), "-", "above the second limit");
    assert_eq!(house.passes(&of("a=x").hits(50), 2), "+-");
    let rules = [rule("a", [per(3600, Unit::Hour)]), rule("b", [per(1, Unit::Minute)])];
    let mut house = House::failing(StandInOptions::default(), [domain(rules)]);
    house.limiter.options.stop_when_over_limit = true;
    house.fail(EVERYTHING);
    let ask = |hits| signs(&house.ask([of("a=x").hits(hits), of("b=x").hits(2)]));
    assert_eq!(ask(100), "+-", "b refuses, a alone would fit");
    assert_eq!(house.passes(&of("a=x").hits(100), 1), "+");
}

#[test]
fn what_the_policy_makes_post_paid_stays_so() {
    let house = dead([rule("a", [per(10, Unit::Minute).count_denied(true)])]);
    assert_eq!(house.passes(&of("a=x").hits(8), 2), "+-");
    assert_eq!(house.passes(&of("a=x").peek(), 1), "-");
    assert_eq!(house.at(36).passes(&of("a=x").peek(), 1), "+");
    let house = dead([rule("a", [per(10, Unit::Minute)])]);
    assert_eq!(house.passes(&of("a=x").hits(8), 2), "+-");
    assert_eq!(house.passes(&of("a=x").hits(2), 1), "+", "a fixed window by itself is not");
}

#[test]
fn a_peek_takes_nothing_and_a_refund_needs_a_bucket() {
    let house = dead([
        rule("a", [per(2, Unit::Minute)]),
        rule("c", [per(2, Unit::Minute).failing(FailureMode::Closed)]),
    ]);
    assert_eq!(house.passes(&of("a=x").peek(), 3), "+++");
    assert_eq!(house.passes(&of("a=x").refund(1), 1), "+");
    assert_eq!(house.passes(&of("c=x").refund(1), 1), "+");
    assert_eq!(house.metrics.lost_refunds.get(), 2);
    assert_eq!(house.passes(&of("a=x"), 3), "++-");
    assert_eq!(house.passes(&of("a=x").refund(1), 1), "+");
    assert_eq!(house.passes(&of("a=x"), 2), "+-");
    assert_eq!(house.metrics.lost_refunds.get(), 2);
}

#[test]
fn what_another_shard_decided_stands() {
    let limit = || [per(1, Unit::Minute).failing(FailureMode::Open)];
    let house = House::failing(
        StandInOptions::default(),
        [domain([rule("a", limit()), rule("b", limit())])],
    );
    house.ask([of("b=x")]);
    house.fail(&["a=x"]);
    let response = house.ask([of("a=x"), of("b=x")]);
    assert_eq!((response.code, signs(&response).as_str()), (Code::OverLimit, "+-"));
    let decided: Vec<_> = response.statuses.iter().map(|status| status.decided_by).collect();
    assert_eq!(decided, [by(FailureMode::Open), DecidedBy::Store]);
    assert_eq!(house.ask([of("a=x"), of("b=y")]).code, Code::Ok);
}

#[test]
fn shadow_and_quota_apply_to_what_the_mode_says() {
    let closed = || [per(9, Unit::Minute).failing(FailureMode::Closed)];
    let house = dead([rule("s", closed()).shadow(), rule("q", closed()).quota()]);
    let response = house.ask([of("s=x")]);
    assert_eq!((response.code, response.statuses[0].refused), (Code::Ok, true));
    assert_eq!(house.series(&["s"]).shadow_mode.get(), 1);
    assert_eq!(house.ask([of("q=x"), of("s=x")]).code, Code::OverLimit);
}

#[test]
fn of_a_list_each_limit_answers_by_its_own_mode() {
    let list = |second| {
        let named = per(5, Unit::Hour).named("second").failing(second);
        rule("a", [per(2, Unit::Minute), named])
    };
    let open = dead([list(FailureMode::Open)]);
    assert_eq!(open.passes(&of("a=x"), 3), "++-");
    let closed = dead([list(FailureMode::Closed)]);
    assert_eq!(closed.passes(&of("a=x"), 3), "---");
    let status = closed.ask([of("a=x")]).statuses[0].clone();
    assert_eq!(status.decided_by, by(FailureMode::Closed));
    closed.install([domain([list(FailureMode::Open)])]);
    assert_eq!(closed.passes(&of("a=x"), 3), "++-", "the local bucket was not charged");
    let error = dead([list(FailureMode::Error)]);
    assert!(error.ask_domain("d", [of("a=x")]).is_err());
}

#[test]
fn a_group_stands_or_falls_by_all_modes() {
    let rules = |b| {
        domain([
            rule("a", [per(2, Unit::Minute)]),
            rule("b", [per(1, Unit::Minute).failing(b)]),
            rule("s", [per(9, Unit::Minute).failing(FailureMode::Closed)]).shadow(),
        ])
    };
    let ask = |house: &House| signs(&house.ask([of("a=x"), of("b=x"), of("s=x")]));
    let options = Options { stop_when_over_limit: true, ..OPTIONS };
    let mut house = House::failing(StandInOptions::default(), [rules(FailureMode::Local)]);
    house.limiter.options = options;
    house.fail(EVERYTHING);
    assert_eq!(ask(&house), "+++", "shadow does not vote");
    assert_eq!((ask(&house).as_str(), ask(&house).as_str()), ("+-+", "+-+"));
    assert_eq!(house.passes(&of("a=x"), 2), "+-", "refused groups charged nothing");
    house.install([rules(FailureMode::Closed)]);
    assert_eq!(house.at(60).ask([of("a=y"), of("b=y")]).code, Code::OverLimit);
    assert_eq!(house.passes(&of("a=y"), 3), "++-");
}

/// A refusal that the store gave holds while it is away, be the cache on or off.
#[test]
fn the_last_refusal_of_the_store_holds() {
    for max in [Micros(0), Micros::SECOND] {
        let deny = crate::store::DenyConfig { max, ..Default::default() };
        let options = StandInOptions { deny, ..StandInOptions::default() };
        let house = House::failing(options, [domain([rule("a", [per(3, Unit::Hour)])])]);
        assert_eq!(house.passes(&of("a=x"), 4), "+++-");
        house.at(10).fail(EVERYTHING);
        let status = house.ask([of("a=x")]).statuses[0].clone();
        assert_eq!((status.code, status.reset_seconds), (Code::OverLimit, Some(3590)));
        assert_eq!(status.decided_by, by(FailureMode::Local));
        assert_eq!(house.passes(&of("a=y"), 1), "+", "another key was not refused");
        assert_eq!(house.at(3599).passes(&of("a=x"), 1), "-");
        assert_eq!(house.at(3600).passes(&of("a=x"), 1), "+");
    }
}

#[test]
fn a_raised_limit_is_not_held_to_an_old_refusal() {
    let house =
        House::failing(StandInOptions::default(), [domain([rule("a", [per(2, Unit::Hour)])])]);
    assert_eq!(house.passes(&of("a=x"), 3), "++-");
    house.install([domain([rule("a", [per(10, Unit::Hour)])])]);
    house.fail(EVERYTHING);
    assert_eq!(house.passes(&of("a=x"), 1), "+");
}

#[test]
fn a_store_that_is_back_decides_again() {
    let house =
        House::failing(StandInOptions::default(), [domain([rule("a", [per(2, Unit::Hour)])])]);
    assert_eq!(house.passes(&of("a=x"), 1), "+");
    house.fail(EVERYTHING).passes(&of("a=x"), 5);
    house.fail(&[]);
    assert_eq!(house.passes(&of("a=x"), 2), "+-");
}

/// What three servers of a third each admit, one charge of each in turn every 10 ms.
fn admitted_by_three(limit: &LimitDraft, seconds: u64) -> usize {
    let rules = || [domain([rule("a", [limit.clone()])])];
    let houses = [0, 1, 2].map(|_| House::failing(share(1, 3), rules()));
    let mut admitted = 0;
    for house in &houses {
        house.fail(EVERYTHING);
        for _ in 0..seconds * 100 {
            admitted += house.passes(&of("a=x"), 2).matches('+').count();
            house.clock.advance(Micros(10_000));
        }
    }
    admitted
}

#[test]
fn a_blip_costs_a_monthly_budget_at_most_a_thousandth() {
    for limit in [10_000, 12_345, 250_000, 3_000_000] {
        let extra = admitted_by_three(&per(limit, Unit::Month), 30);
        assert!(extra * 1000 <= limit as usize, "{extra} of {limit}");
        assert!(extra >= 3, "each server admits something");
    }
}

#[test]
fn an_outage_adds_bursts_and_its_share_of_refill_only() {
    // A third of 60: a burst of 20 each, and a third of a hit each second.
    let extra = admitted_by_three(&per(60, Unit::Minute), 10);
    assert!((60..=70).contains(&extra), "{extra}");
}
