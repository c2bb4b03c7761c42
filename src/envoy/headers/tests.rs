use super::super::sample::*;
use super::*;
use crate::rules::Unit;

fn options() -> Options {
    let limit_headers = Some(LimitHeaders::new("L", "M", "R").unwrap());
    Options { limit_headers, ..Options::default() }
}

/// Checks the headers, written as `name: value`.
fn check(code: Code, statuses: &[Status], options: &Options, expected: &[&str]) {
    let headers = of(decided(code, statuses), options);
    assert!(headers.iter().all(|header| header.raw_value.is_empty()));
    let lines: Vec<_> = headers.iter().map(|h| format!("{}: {}", h.key, h.value)).collect();
    assert_eq!(lines, expected);
}

fn per_minute(requests: u32) -> crate::limiter::StatusLimit {
    limit(requests, Unit::Minute, "")
}

#[test]
fn a_refusal_beside_an_unmatched_descriptor_gives_its_own_numbers() {
    // Vector 106.
    let statuses = [refused(per_minute(10), 58), unmatched()];
    let own = ["L: 10", "M: 0", "R: 58", "retry-after: 58"];
    check(Code::OverLimit, &statuses, &options(), &own);
    let default = Options { limit_headers: Some(LimitHeaders::default()), ..Options::default() };
    let names =
        ["RateLimit-Limit: 10", "RateLimit-Remaining: 0", "RateLimit-Reset: 58", "retry-after: 58"];
    check(Code::OverLimit, &statuses, &default, &names);
}

#[test]
fn the_smallest_remaining_gives_the_numbers_when_all_pass() {
    let statuses = [
        unlimited(),
        passed(per_minute(10), 5, 1),
        passed(per_minute(20), 2, 2),
        passed(per_minute(30), 2, 3),
    ];
    check(Code::Ok, &statuses, &options(), &["L: 20", "M: 2", "R: 2"]);
}

#[test]
fn the_longest_wait_gives_the_numbers_when_several_refuse() {
    let statuses = [
        refused(per_minute(1), 5),
        refused(per_minute(2), 9),
        refused(per_minute(3), 9),
        refused(per_minute(4), 2),
        passed(per_minute(5), 0, 50),
    ];
    let expected = ["L: 2", "M: 0", "R: 9", "retry-after: 9"];
    check(Code::OverLimit, &statuses, &options(), &expected);
}

#[test]
fn a_shadow_refusal_is_not_waited_for() {
    let statuses = [in_shadow(refused(per_minute(1), 50)), refused(per_minute(2), 9)];
    let expected = ["L: 2", "M: 0", "R: 9", "retry-after: 9"];
    check(Code::OverLimit, &statuses, &options(), &expected);
    check(Code::Ok, &statuses[..1], &options(), &["L: 1", "M: 0", "R: 50"]);
}

#[test]
fn quota_limits_refuse_together_until_the_first_gives_way() {
    let statuses = [as_quota(refused(per_minute(1), 50)), as_quota(refused(per_minute(2), 9))];
    let expected = ["L: 2", "M: 0", "R: 9", "retry-after: 9"];
    check(Code::OverLimit, &statuses, &options(), &expected);
}

#[test]
fn a_quota_refusal_that_does_not_refuse_is_not_waited_for() {
    let statuses = [
        as_quota(refused(per_minute(1), 50)),
        as_quota(passed(per_minute(2), 1, 1)),
        refused(per_minute(3), 9),
    ];
    let expected = ["L: 3", "M: 0", "R: 9", "retry-after: 9"];
    check(Code::OverLimit, &statuses, &options(), &expected);
    check(Code::Ok, &statuses[..2], &options(), &["L: 1", "M: 0", "R: 50"]);
}

#[test]
fn a_quota_that_gives_way_later_than_a_limit_is_waited_for() {
    let statuses = [as_quota(refused(per_minute(1), 50)), refused(per_minute(3), 9)];
    let expected = ["L: 1", "M: 0", "R: 50", "retry-after: 50"];
    check(Code::OverLimit, &statuses, &options(), &expected);
}

#[test]
fn in_global_shadow_mode_the_refusal_is_told_but_nobody_shall_wait() {
    let statuses = [refused(per_minute(10), 58)];
    check(Code::Ok, &statuses, &options(), &["L: 10", "M: 0", "R: 58"]);
}

#[test]
fn without_a_limit_there_are_no_headers() {
    check(Code::Ok, &[unmatched(), unlimited()], &options(), &[]);
    check(Code::Ok, &[], &options(), &[]);
}

#[test]
fn a_limit_without_a_duration_resets_in_no_time() {
    let status = Status { reset_seconds: None, ..passed(per_minute(10), 10, 0) };
    check(Code::Ok, &[status], &options(), &["L: 10", "M: 10", "R: 0"]);
}

#[test]
fn each_kind_of_header_can_be_switched_off() {
    let statuses = [refused(per_minute(10), 58)];
    check(Code::OverLimit, &statuses, &Options::default(), &["retry-after: 58"]);
    let off = Options { retry_after_header: false, ..Options::default() };
    check(Code::OverLimit, &statuses, &off, &[]);
}

#[test]
fn a_name_that_no_header_can_have_is_an_error_that_names_the_setting() {
    for name in ["", "bad name", ":path", "a\r\nb", "x:y", "ü"] {
        let error = LimitHeaders::new("ok", name, "ok").unwrap_err();
        assert_eq!(error.setting, "LIMIT_REMAINING_HEADER");
        assert_eq!(error.name, name);
    }
    assert_eq!(
        LimitHeaders::new("bad name", "ok", "ok").unwrap_err().to_string(),
        "LIMIT_LIMIT_HEADER: found `bad name`, expected a header name (letters, digits and \
         !#$%&'*+-.^_`|~)"
    );
    assert!(LimitHeaders::new("X-RateLimit-Limit", "x_remaining", "r").is_ok());
}
