use super::*;
use crate::rules::idempotency::{ServerError, StatusSet};

fn rule() -> ResponseRule {
    ResponseRule {
        stored: StatusSet::default(),
        server_error: ServerError::Release,
        max_body: 100,
        headers: [].into(),
    }
}

/// An answer of the upstream.
fn upstream(status: u16, headers: &[(&str, &str)]) -> ResponseHead {
    let status = status.to_string();
    let all = [(":status", status.as_str())];
    let all = all.iter().chain(headers);
    ResponseHead {
        headers: all.map(|(name, value)| ((*name).into(), value.as_bytes().to_vec())).collect(),
        details: Some("via_upstream".to_owned()),
        n_attempts: Some(1),
        ..ResponseHead::default()
    }
}

/// An answer of Envoy.
fn local(status: u16, details: &str, flags: u64, n_attempts: u64) -> ResponseHead {
    ResponseHead {
        details: Some(details.to_owned()),
        flags,
        n_attempts: Some(n_attempts),
        ..upstream(status, &[])
    }
}

const NOT_SENT: Verdict = Verdict::Release(Released::NotSent);
const IN_DOUBT: Verdict = Verdict::Unknown(Unknown::LocalReply);

#[test]
fn every_status_means_what_the_table_says_unless_the_upstream_says_otherwise() {
    for status in 200..600 {
        let by_table = match rule().meaning(status) {
            Storing::Store => Verdict::Keep,
            Storing::Release => Verdict::Release(Released::Status),
            Storing::Hold => panic!("the rule holds nothing"),
        };
        for (said, expected) in [
            ("store", Verdict::Keep),
            ("release", Verdict::Release(Released::Override)),
            ("hold", Verdict::Unknown(Unknown::Held)),
            ("STORE", by_table),
            ("", by_table),
        ] {
            let head = upstream(status, &[(RESULT, said)]);
            assert_eq!(Verdict::of(&head, &rule()), expected, "{status} {said}");
        }
        assert_eq!(Verdict::of(&upstream(status, &[]), &rule()), by_table, "{status}");
    }
}

#[test]
fn server_errors_mean_what_the_policy_says() {
    let holding = ResponseRule { server_error: ServerError::Hold, ..rule() };
    let storing = ResponseRule { server_error: ServerError::Store, ..rule() };
    assert_eq!(Verdict::of(&upstream(500, &[]), &holding), Verdict::Unknown(Unknown::Held));
    assert_eq!(Verdict::of(&upstream(500, &[]), &storing), Verdict::Keep);
}

#[test]
fn what_was_never_sent_is_given_back() {
    let failed = "upstream_reset_before_response_started{remote_connection_failure}";
    for (head, expected) in [
        (local(503, failed, flag::CONNECTION_FAILURE, 1), NOT_SENT),
        (local(503, failed, flag::CONNECTION_FAILURE, 0), NOT_SENT),
        (local(503, failed, flag::CONNECTION_FAILURE, 2), IN_DOUBT),
        (local(503, failed, flag::CONNECTION_FAILURE | flag::RETRY_LIMIT, 2), IN_DOUBT),
        (local(503, failed, flag::CONNECTION_FAILURE | 1 << 2, 1), IN_DOUBT),
        (local(503, "overflow", flag::OVERFLOW, 1), NOT_SENT),
        (local(503, "overflow", flag::OVERFLOW, 3), IN_DOUBT),
        (local(404, "route_not_found", flag::NO_ROUTE, 0), NOT_SENT),
        (local(503, "no_healthy_upstream", flag::NO_HEALTHY_UPSTREAM, 0), NOT_SENT),
        (local(503, "no_healthy_upstream", flag::NO_HEALTHY_UPSTREAM, 1), NOT_SENT),
        (local(503, "no_healthy_upstream", flag::NO_HEALTHY_UPSTREAM, 2), IN_DOUBT),
        (local(404, "route_not_found", flag::NO_ROUTE, 1), IN_DOUBT),
        (local(429, "request_rate_limited", flag::RATE_LIMITED, 0), NOT_SENT),
        (local(429, "request_rate_limited", flag::RATE_LIMITED, 1), IN_DOUBT),
        (local(413, REQUEST_TOO_LARGE, 0, 0), NOT_SENT),
        (local(413, REQUEST_TOO_LARGE, 0, 1), IN_DOUBT),
        (local(504, "response_timeout", 1 << 2, 1), IN_DOUBT),
        (
            local(503, "upstream_reset_before_response_started{connection_termination}", 1 << 6, 1),
            IN_DOUBT,
        ),
        (local(403, "rbac_access_denied", 0, 0), IN_DOUBT),
        (local(200, "direct_response", 0, 0), IN_DOUBT),
    ] {
        assert_eq!(Verdict::of(&head, &rule()), expected, "{head:?}");
    }
    let unsaid =
        ResponseHead { n_attempts: None, ..local(503, failed, flag::CONNECTION_FAILURE, 0) };
    assert_eq!(Verdict::of(&unsaid, &rule()), IN_DOUBT);
}

#[test]
fn an_override_in_a_local_reply_is_nothing() {
    let mut head = local(504, "response_timeout", 1 << 2, 1);
    head.headers.push((RESULT.to_owned(), b"release".to_vec()));
    assert_eq!(Verdict::of(&head, &rule()), IN_DOUBT);
}

#[test]
fn an_envoy_that_does_not_say_who_answered_frees_nothing() {
    let unsaid = |status| ResponseHead { details: None, ..upstream(status, &[]) };
    assert_eq!(Verdict::of(&unsaid(201), &rule()), Verdict::Keep);
    assert_eq!(Verdict::of(&unsaid(503), &rule()), IN_DOUBT);
    assert_eq!(Verdict::of(&unsaid(429), &rule()), IN_DOUBT);
}

#[test]
fn what_is_too_large_or_has_no_end_is_only_noted() {
    let of = |headers: &[(&str, &str)]| Verdict::of(&upstream(200, headers), &rule());
    assert_eq!(of(&[("content-length", "100")]), Verdict::Keep);
    assert_eq!(of(&[("content-length", "101")]), Verdict::Note(NotKept::Size));
    assert_eq!(
        of(&[("content-type", "text/event-stream; charset=utf-8")]),
        Verdict::Note(NotKept::Stream)
    );
    let head = ResponseHead { ends: true, ..upstream(200, &[("content-length", "101")]) };
    assert_eq!(Verdict::of(&head, &rule()), Verdict::Keep, "an answer to HEAD has no body");
}

#[test]
fn an_upstream_may_say_for_how_long_within_bounds() {
    let of = |value| {
        retention(&upstream(200, &[(RETENTION, value)]), Duration::from_secs(100)).as_secs()
    };
    assert_eq!([of("3600"), of("1"), of("99999999")], [3600, 60, 2_592_000]);
    assert_eq!([of("-1"), of("1h"), of(""), of("999999999999999999999")], [100; 4]);
}

#[test]
fn grpc_says_what_it_means_in_its_status() {
    let grpc = [("content-type", "application/grpc")];
    let with = |code| upstream(200, &[grpc[0], ("grpc-status", code)]);
    let only_trailers = |code| ResponseHead { ends: true, ..with(code) };
    for (code, expected) in [
        ("0", Verdict::Keep),
        ("5", Verdict::Keep),
        ("6", Verdict::Keep),
        ("7", Verdict::Release(Released::Status)),
        ("10", Verdict::Release(Released::Status)),
        ("14", Verdict::Release(Released::Status)),
    ] {
        assert_eq!(Verdict::of(&only_trailers(code), &rule()), expected, "{code}");
    }
    assert_eq!(Verdict::of(&upstream(200, &grpc), &rule()), Verdict::Later);
    assert_eq!(
        Verdict::of(&upstream(503, &grpc), &rule()),
        Verdict::Unknown(Unknown::Held),
        "no status of gRPC is none at all"
    );
    let trailers = |code: &str| vec![("grpc-status".to_owned(), code.as_bytes().to_vec())];
    let of = |code| Verdict::of_trailers(&trailers(code), &rule());
    assert_eq!(of("0"), Verdict::Note(NotKept::Grpc));
    assert_eq!(of("14"), Verdict::Release(Released::Status));
    let none = Verdict::of_trailers(&Headers::new(), &rule());
    assert_eq!(none, Verdict::Unknown(Unknown::UpstreamReset));
}
