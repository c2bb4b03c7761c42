//! Limits that take the place of others in the same request.

use super::*;

fn banned() -> RuleDraft {
    rule("bar=banned", [per(0, Unit::Minute).named("banned_limit")])
}

#[test]
fn a_limit_replaces_another_by_name() {
    let second = rule("foo", [per(2, Unit::Minute).replaces(&["banned_limit"])]);
    let house = House::new([domain([banned(), second])]);
    assert_eq!(house.passes(&of("bar=banned"), 1), "-", "vector 137");
    let both = || house.ask([of("bar=banned"), of("foo=x")]).code;
    assert_eq!([both(), both(), both()], [Code::Ok, Code::Ok, Code::OverLimit], "vector 137");
}

#[test]
fn what_is_replaced_is_not_consumed() {
    let first = rule("a", [per(1, Unit::Minute).named("one")]);
    let second = rule("b", [per(4, Unit::Minute).named("two")]);
    let third = rule("c", [per(4, Unit::Minute).replaces(&["one", "two"])]);
    let house = House::new([domain([first, second, third])]);
    let all = || house.ask([of("a=x"), of("b=x"), of("c=x")]);
    let signs: Vec<_> = (0..5).map(|_| all().code).collect();
    assert_eq!(signs, [Code::Ok, Code::Ok, Code::Ok, Code::Ok, Code::OverLimit], "vector 139");
    let status = all().statuses[0].clone();
    assert_eq!((status.decided_by, status.limit), (DecidedBy::NoLimit, None));
    assert_eq!(house.passes(&of("a=x"), 2), "+-", "vector 138");
    assert_eq!(house.used("b=x"), [0]);
}

#[test]
fn two_that_replace_each_other_both_go() {
    let first = rule("a", [per(0, Unit::Minute).named("a").replaces(&["b"])]);
    let second = rule("b", [per(0, Unit::Minute).named("b").replaces(&["a"])]);
    let house = House::new([domain([first, second])]);
    assert_eq!(signs(&house.ask([of("a=x"), of("b=x")])), "++");
    assert_eq!(signs(&house.ask([of("a=x")])), "-");
}

#[test]
fn an_unlimited_rule_replaces_and_stays_when_it_is_replaced() {
    let free = unlimited("vip", "vip", &["banned_limit"]);
    let second = rule("foo", [per(9, Unit::Minute).replaces(&["vip"])]);
    let house = House::new([domain([banned(), free, second])]);
    assert_eq!(signs(&house.ask([of("bar=banned"), of("vip=x")])), "++");
    let response = house.ask([of("vip=x"), of("foo=x")]);
    assert_eq!(response.statuses[0].decided_by, DecidedBy::Unlimited);
    assert_eq!(response.statuses[0].remaining, u32::MAX);
}

#[test]
fn single_limits_of_a_list_are_replaced_but_never_by_a_sibling() {
    let list = rule(
        "k",
        [
            per(1, Unit::Second).named("burst"),
            per(3, Unit::Day).named("daily").replaces(&["burst"]),
        ],
    );
    let other = rule("o", [per(9, Unit::Day).replaces(&["burst"])]);
    let house = House::new([domain([list, other])]);
    assert_eq!(house.passes(&of("k=a"), 2), "+-");
    assert_eq!(signs(&house.ask([of("k=a"), of("k=a")])), "--", "nor by the same rule elsewhere");
    assert_eq!(house.used("k=a"), [2, 1]);
    let both = || signs(&house.ask([of("k=a"), of("o=a")]));
    assert_eq!([both(), both(), both()], ["++", "++", "-+"]);
    assert_eq!(house.used("k=a"), [2, 4]);
}

#[test]
fn an_override_has_no_name_and_stays() {
    let second = rule("foo", [per(9, Unit::Minute).replaces(&["", "banned_limit"])]);
    let house = House::new([domain([banned(), second])]);
    let asked = [of("bar=banned").limited(0, Unit::Day), of("foo=x")];
    assert_eq!(signs(&house.ask(asked)), "-+");
}
