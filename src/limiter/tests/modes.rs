//! Shadow and quota, of rules and of the process.

use super::*;

const SHADOW: Options = Options { shadow_mode: true, ..OPTIONS };
const QUOTA: Options = Options { quota_mode: true, ..OPTIONS };

fn over(path: &'static str) -> RuleDraft {
    rule(path, [per(0, Unit::Minute)])
}

fn under(path: &'static str) -> RuleDraft {
    rule(path, [per(9, Unit::Minute)])
}

/// Overall code and statuses of a request to all of `a`, `b` and `c` that `rules` limit or not.
fn check(
    vector: u32,
    options: Options,
    rules: impl IntoIterator<Item = RuleDraft>,
    n_descriptors: usize,
    expected: (char, &str),
    shadowed: u64,
) {
    let house = House::with(options, [domain(rules)]);
    let asked = ["a=x", "b=x", "c=x"].into_iter().take(n_descriptors).map(of);
    let response = house.ask(asked);
    assert_eq!((sign(response.code), &*signs(&response)), expected, "vector {vector}");
    assert_eq!(house.metrics.global_shadow_mode.get(), shadowed, "vector {vector}");
}

#[test]
fn global_shadow_mode_changes_the_overall_code_only() {
    check(104, SHADOW, [over("a"), under("b")], 2, ('+', "-+"), 1);
    check(104, SHADOW, [under("a"), under("b")], 2, ('+', "++"), 0);
    check(112, SHADOW, [over("a").quota(), over("b").quota()], 2, ('+', "--"), 1);
}

#[test]
fn a_shadow_rule_never_refuses() {
    check(105, OPTIONS, [over("a").shadow(), over("b")], 2, ('-', "+-"), 0);
    let house = House::new([domain([rule("a", [per(3, Unit::Minute)]).shadow()])]);
    assert_eq!(house.passes(&of("a=x"), 6), "++++++", "vector 140");
}

#[test]
fn quota_refuses_only_together() {
    check(109, OPTIONS, [over("a"), under("b").quota()], 2, ('-', "-+"), 0);
    check(110, OPTIONS, [under("a"), over("b").quota()], 2, ('-', "+-"), 0);
    check(111, OPTIONS, [over("a").quota(), under("b").quota()], 2, ('+', "-+"), 0);
    check(111, OPTIONS, [over("a").quota(), over("b").quota()], 2, ('-', "--"), 0);
}

#[test]
fn in_global_quota_mode_every_limit_is_quota_and_nothing_else() {
    check(108, QUOTA, [over("a"), over("b")], 2, ('-', "--"), 0);
    check(113, QUOTA, [under("a"), over("b")], 2, ('+', "+-"), 0);
    let free = || unlimited("b", "", &[]);
    check(108, QUOTA, [over("a"), free()], 2, ('-', "-+"), 0);
    check(108, QUOTA, [over("a")], 3, ('-', "-++"), 0);
}

#[test]
fn services_share_their_quota_until_both_are_used_up() {
    let one = rule("a", [per(1, Unit::Minute)]).quota();
    let two = rule("b", [per(2, Unit::Minute)]).quota();
    let house = House::new([domain([one, two])]);
    let codes: String = (0..3).map(|_| sign(house.ask([of("a=x"), of("b=x")]).code)).collect();
    assert_eq!(codes, "++-", "vector 141");
}

fn metadata(response: &Response) -> Map {
    passed_metadata(&response.statuses, &response.policies.rules)
}

#[test]
fn services_debited_on_response_are_chosen_by_what_they_have_left() {
    let one = rule("a", [per(1, Unit::Minute)]).quota().metadata("name", "a");
    let two = rule("b", [per(2, Unit::Minute)]).quota().metadata("name", "b");
    let house = House::new([domain([one, two])]);
    let mut sent = String::new();
    loop {
        let response = house.ask([of("a=x").peek(), of("b=x").peek()]);
        if response.code == Code::OverLimit {
            break;
        }
        let Some(Value::Text(service)) = metadata(&response).remove("name") else { break };
        sent.push_str(&service);
        house.ask([of(if service == "a" { "a=x" } else { "b=x" })]);
    }
    assert_eq!(sent, "aabbb", "vector 143: the check passes while the count is at the limit");
}

#[test]
fn metadata_is_that_of_the_rules_that_passed() {
    let first = under("a").metadata("name", "first");
    let second = under("b").metadata("name", "second");
    let third = over("c").metadata("other", "third");
    let free = unlimited("d", "", &[]).metadata("other", "free");
    let house = House::new([domain([first, second, third, free])]);
    let text =
        |response: Response| -> Vec<(String, Value)> { metadata(&response).into_iter().collect() };
    let value = |text: &str| Value::Text(text.to_owned());
    let all = house.ask([of("d=x"), of("a=x"), of("b=x"), of("c=x")]);
    assert_eq!(text(all), [("name".to_owned(), value("first"))], "vector 114");
    let refused = house.ask([of("c=x"), of("b=x")]);
    assert_eq!(text(refused), [("name".to_owned(), value("second"))], "vector 113");
}

#[test]
fn the_shadow_switch_lets_pass_what_is_decided_and_counted_all_the_same() {
    let house = House::new([domain([rule("k", [per(1, Unit::Minute)])])]);
    house.limiter.shadow().turn_on(std::time::Duration::from_secs(600));
    assert!(house.limiter.is_in_shadow());
    assert_eq!(house.passes(&of("k=a"), 3), "+++");
    assert_eq!(house.series(&["k"]).over_limit.get(), 2);
    assert_eq!(house.metrics.global_shadow_mode.get(), 2);
    house.limiter.shadow().turn_off();
    assert_eq!(house.passes(&of("k=a"), 1), "-");
}
