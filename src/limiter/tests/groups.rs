//! Descriptors that stand or fall together.

use super::*;

fn bucket(requests: u32) -> LimitDraft {
    per(requests, Unit::Day).by(Algorithm::TokenBucket)
}

/// `a` allows one hit and has had it, `b` allows nine. What both are answered, and what they hold
/// then.
fn check(
    why: &str,
    policy: impl Fn(RuleDraft, RuleDraft) -> Policy,
    (a, b): (RuleDraft, RuleDraft),
    asked: [Descriptor<'_>; 2],
    (signs_expected, used_expected): (&str, [u64; 2]),
) {
    check_with(OPTIONS, why, policy, (a, b), asked, (signs_expected, used_expected));
}

fn check_with(
    options: Options,
    why: &str,
    policy: impl Fn(RuleDraft, RuleDraft) -> Policy,
    (a, b): (RuleDraft, RuleDraft),
    asked: [Descriptor<'_>; 2],
    (signs_expected, used_expected): (&str, [u64; 2]),
) {
    let house = House::with(options, [policy(a, b)]);
    house.ask([of("tenant=1,a=x")]);
    house.ask([of("tenant=1,b=x").hits(5)]);
    let response = house.ask(asked);
    let used = [house.used("tenant=1,a=x"), house.used("tenant=1,b=x")].concat();
    assert_eq!((&*signs(&response), &*used), (signs_expected, &used_expected[..]), "{why}");
}

fn together(a: RuleDraft, b: RuleDraft) -> Policy {
    domain([a, b]).tagged(&["tenant"]).all_or_nothing()
}

fn a() -> RuleDraft {
    rule("tenant/a", [bucket(1)])
}

fn b() -> RuleDraft {
    rule("tenant/b", [bucket(9)])
}

fn both() -> [Descriptor<'static>; 2] {
    [of("tenant=1,a=x"), of("tenant=1,b=x")]
}

#[test]
fn one_refusal_keeps_the_whole_group_from_consuming() {
    check("enforced", together, (a(), b()), both(), ("-+", [1, 5]));
    let [x, y] = both();
    check("in any order", together, (a(), b()), [y, x], ("+-", [1, 5]));
    let shadow_b = b().shadow();
    check(
        "a shadow rule consumes nothing either",
        together,
        (a(), shadow_b),
        both(),
        ("-+", [1, 5]),
    );
}

#[test]
fn only_enforced_charges_vote() {
    check("shadow", together, (a().shadow(), b()), both(), ("++", [1, 6]));
    check("quota", together, (a().quota(), b()), both(), ("-+", [1, 6]));
    let overdrawn = rule("tenant/a", [bucket(0).count_denied(true)]);
    let peek = [of("tenant=1,a=x").peek(), of("tenant=1,b=x")];
    check("peek", together, (overdrawn, b()), peek, ("-+", [0, 6]));
    let quota_mode = Options { quota_mode: true, ..OPTIONS };
    check_with(quota_mode, "QUOTA_MODE", together, (a(), b()), both(), ("-+", [1, 6]));
    let shadow_mode = Options { shadow_mode: true, ..OPTIONS };
    check_with(shadow_mode, "SHADOW_MODE", together, (a(), b()), both(), ("-+", [1, 5]));
}

#[test]
fn a_refused_group_still_takes_refunds_and_what_is_counted_when_denied() {
    let refund = [of("tenant=1,a=x"), of("tenant=1,b=x").refund(2)];
    check("refund", together, (a(), b()), refund, ("-+", [1, 3]));
    let fixed = rule("tenant/a", [per(1, Unit::Day)]);
    check("its own refusal is recorded", together, (fixed, b()), both(), ("-+", [2, 5]));
    let fixed = rule("tenant/b", [per(9, Unit::Day)]);
    check("only its own refusal is", together, (a(), fixed), both(), ("-+", [1, 5]));
    let post_paid = rule("tenant/b", [bucket(9).count_denied(true)]);
    check("post-paid", together, (a(), post_paid), both(), ("-+", [1, 6]));
}

#[test]
fn by_default_each_descriptor_decides_for_itself() {
    let each = |a, b| domain([a, b]).tagged(&["tenant"]);
    check("each", each, (a(), b()), both(), ("-+", [1, 6]));
}

#[test]
fn another_tag_is_another_group() {
    let house = House::new([together(a(), b())]);
    house.ask([of("tenant=1,a=x")]);
    let asked = [of("tenant=2,b=x"), of("tenant=1,b=x"), of("tenant=2,a=x"), of("tenant=1,a=x")];
    let response = house.ask(asked);
    assert_eq!(signs(&response), "+++-");
    let remaining: Vec<_> = response.statuses.iter().map(|status| status.remaining).collect();
    assert_eq!(remaining, [8, 9, 0, 0]);
    assert_eq!(house.used("tenant=1,b=x"), [0]);
    assert_eq!(house.used("tenant=2,b=x"), [1]);
}

#[test]
fn in_stop_mode_the_whole_request_is_one_group() {
    let options = Options { stop_when_over_limit: true, ..OPTIONS };
    let untagged = |a, b| domain([a, b]);
    check_with(options, "several tags", untagged, (a(), b()), both(), ("-+", [1, 5]));
    let shadow = a().shadow();
    check_with(options, "shadow does not vote", untagged, (shadow, b()), both(), ("++", [1, 6]));
}

#[test]
fn one_bucket_twice_in_a_request_is_charged_in_order_br_007() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::SlidingWindowLog] {
        let five = || rule("k", [per(5, Unit::Minute).by(algorithm)]);
        for (policy, used) in
            [(domain([five()]), 5), (domain([five()]).tagged(&["k"]).all_or_nothing(), 4)]
        {
            let house = House::new([policy]);
            house.ask([of("k=a").hits(4)]);
            let response = house.ask([of("k=a"), of("k=a")]);
            assert_eq!((response.code, &*signs(&response)), (Code::OverLimit, "+-"));
            assert_eq!(house.used("k=a"), [used], "{algorithm:?}");
        }
    }
}

#[test]
fn a_list_in_a_group_fits_only_if_every_limit_does() {
    let list = rule("tenant/a", [bucket(1), per(7, Unit::Hour).by(Algorithm::TokenBucket)]);
    let house = House::new([together(list, b())]);
    assert_eq!(signs(&house.ask(both())), "++");
    assert_eq!(signs(&house.ask(both())), "-+");
    assert_eq!(house.used("tenant=1,a=x"), [1, 1]);
    assert_eq!(house.used("tenant=1,b=x"), [1]);
}
