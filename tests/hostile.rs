//! Bad input, bad settings and bad moments: the server says what is wrong and goes on.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed test should panic"
)]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use support::grpc::{
    Code, Entry, RateLimitDescriptor, RateLimitOverride, channel, descriptor, peek, request,
};
use support::http;
use support::tidegate::{Tidegate, refuses_to_start};
use support::{PATIENCE, eventually};
use tonic::Code as Grpc;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

/// Any user may pass three times.
const POLICY: &str = "
domain: open
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 3 }
";

/// The server answers as if nothing had happened.
async fn still_answers(tidegate: &Tidegate, user: &str) {
    let status = tidegate.client().await.status("open", descriptor(&[("user", user)])).await;
    assert_eq!((status.code(), status.limit_remaining), (Code::Ok, 2));
}

async fn serving_status(tidegate: &Tidegate, service: &str) -> ServingStatus {
    let mut client = HealthClient::new(channel(tidegate.grpc).await);
    let answer = client.check(HealthCheckRequest { service: service.to_owned() }).await;
    answer.unwrap().into_inner().status()
}

#[tokio::test]
async fn a_message_of_5_mb_is_refused_and_the_next_one_answered() {
    let tidegate = Tidegate::start(POLICY).await;
    let huge = "x".repeat(5_000_000);

    let mut client = tidegate.client().await;
    let refusal = client.ask(request("open", vec![descriptor(&[("user", &huge)])])).await;
    let code = refusal.unwrap_err().code();
    assert!(matches!(code, Grpc::OutOfRange | Grpc::ResourceExhausted), "{code:?}");
    let status = client.status("open", descriptor(&[("user", "same connection")])).await;
    assert_eq!(status.code(), Code::Ok);

    // Sends no more than is read before the refusal: bytes left unread would reset the connection.
    let mut stream = TcpStream::connect(tidegate.http).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = "POST /json HTTP/1.1\r\nhost: x\r\ncontent-length: 5000000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&huge.as_bytes()[..=256 << 10]).unwrap();
    let mut status_line = [0; 12];
    stream.read_exact(&mut status_line).unwrap();
    assert_eq!(&status_line, b"HTTP/1.1 413");
    still_answers(&tidegate, "ann").await;
}

#[tokio::test]
async fn a_call_carries_as_many_headers_as_envoy_takes_of_a_client() {
    let tidegate = Tidegate::start(POLICY).await;
    let mut client = HealthClient::new(channel(tidegate.grpc).await);
    let mut call = tonic::Request::new(HealthCheckRequest::default());
    call.metadata_mut()
        .insert("tracestate", format!("a={}", "x".repeat(60 << 10)).parse().unwrap());
    let answer = client.check(call).await.unwrap();
    assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
}

#[tokio::test]
async fn garbage_on_any_port_harms_nobody() {
    let tidegate = Tidegate::start(POLICY).await;
    let noise: Vec<u8> =
        (0..4096_u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
    let http2_then_noise = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &noise].concat();
    let endless_header =
        [b"GET / HTTP/1.1\r\nx: ".as_slice(), "a".repeat(200_000).as_bytes()].concat();

    for port in [tidegate.grpc, tidegate.http, tidegate.admin] {
        for bytes in [&noise, &http2_then_noise, &endless_header, &b"\0\0\0\0".to_vec()] {
            throw(port, bytes);
        }
    }
    still_answers(&tidegate, "ann").await;
    assert_eq!(tidegate.get("/healthcheck").await.status, 200);
    assert_eq!(http::get(tidegate.admin, "/rlconfig", &[]).await.status, 200);
}

/// Sends bytes and hangs up; that the server may hang up first is its right.
fn throw(server: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.read(&mut [0; 64]);
}

#[tokio::test]
async fn many_descriptors_and_many_entries_are_answered_one_by_one() {
    let tidegate = Tidegate::start(POLICY).await;
    let mut client = tidegate.client().await;

    let users: Vec<String> = (0..1000).map(|i| format!("u{}", i % 500)).collect();
    let descriptors = users.iter().map(|user| descriptor(&[("user", user)])).collect();
    let answer = client.ask(request("open", descriptors)).await.unwrap();
    let remaining: Vec<u32> = answer.statuses.iter().map(|status| status.limit_remaining).collect();
    assert_eq!(remaining, [vec![2; 500], vec![1; 500]].concat(), "each user stood there twice");

    let long = RateLimitDescriptor {
        entries: vec![Entry { key: "user".into(), value: "ann".into() }; 1000],
        ..Default::default()
    };
    let status = client.status("open", long).await;
    assert_eq!((status.code(), status.current_limit), (Code::Ok, None), "no rule is that deep");
}

#[tokio::test]
async fn strange_values_are_values_like_any_other() {
    let tidegate = Tidegate::start(POLICY).await;
    let mut client = tidegate.client().await;
    let (long_a, long_b) = ("a".repeat(10_000), "a".repeat(9_999) + "b");
    let values = [
        "", " ", "{", "}", "{}", "{user}", "}{", "\0", "a\0b", "a", "a_b", "a:b", "a\nb", "a\r\nb",
        "%", "%00", "%zz", "*", "a*", "user_", "🌊", "\u{feff}", &long_a, &long_b,
    ];
    for value in values {
        let status = client.status("open", descriptor(&[("user", value)])).await;
        assert_eq!((status.code(), status.limit_remaining), (Code::Ok, 2), "{value:.20?} is new");
    }
    for value in values {
        let status = client.status("open", peek(&[("user", value)])).await;
        assert_eq!(status.limit_remaining, 2, "{value:.20?} came once");
    }
    for key in ["", "{user}", "user\0", "USER"] {
        let status = client.status("open", descriptor(&[(key, "ann")])).await;
        assert_eq!((status.code(), status.current_limit), (Code::Ok, None), "{key:?} has no rule");
    }
    for domain in ["{open}", "open\0", "OPEN", " open"] {
        let status = client.status(domain, descriptor(&[("user", "ann")])).await;
        assert_eq!(
            (status.code(), status.current_limit),
            (Code::Ok, None),
            "{domain:?} has no policy"
        );
    }
}

#[tokio::test]
async fn percent_signs_that_escape_nothing_are_kept_or_refused() {
    let tidegate = Tidegate::start(POLICY).await;
    let json = r#"{"domain":"open","descriptors":[{"entries":[{"key":"user","value":"%zz%"}]}]}"#;
    let answer = http::post(tidegate.http, "/json?%zz=%", json).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(answer["statuses"][0]["limitRemaining"], 2);

    assert_eq!(tidegate.get("/%zz").await.status, 404);
    let bucket = http::get(tidegate.admin, "/bucket?domain=open&entries=%zz", &[]).await;
    assert!((400..500).contains(&bucket.status), "{bucket:?}");
    still_answers(&tidegate, "ann").await;
}

#[tokio::test]
async fn json_that_is_no_request_is_a_bad_request() {
    let tidegate = Tidegate::start(POLICY).await;
    let nested = "[".repeat(100_000);
    for body in
        ["", "{", "null", "[]", "\u{0}", r#"{"domian":"open"}"#, r#"{"domain":1}"#, "{}", &nested]
    {
        let answer = http::post(tidegate.http, "/json", body).await;
        assert_eq!(answer.status, 400, "{body:.20}: {answer:?}");
    }
    still_answers(&tidegate, "ann").await;
}

#[tokio::test]
async fn an_empty_request_is_an_invalid_argument() {
    let tidegate = Tidegate::start(POLICY).await;
    let mut client = tidegate.client().await;

    let refusal = client.ask(request("", vec![descriptor(&[("user", "ann")])])).await.unwrap_err();
    assert_eq!(refusal.code(), Grpc::InvalidArgument);
    assert_eq!(refusal.message(), "rate limit domain must not be empty");
    let refusal = client.ask(request("open", vec![])).await.unwrap_err();
    assert_eq!(refusal.code(), Grpc::InvalidArgument);
    assert_eq!(refusal.message(), "rate limit descriptor list must not be empty");

    let empty = client.status("open", descriptor(&[])).await;
    assert_eq!((empty.code(), empty.current_limit), (Code::Ok, None));
}

#[tokio::test]
async fn an_override_of_an_unknown_unit_is_an_invalid_argument() {
    let tidegate = Tidegate::start(POLICY).await;
    let mut client = tidegate.client().await;
    for unit in [0, 99, -1] {
        let limit = Some(RateLimitOverride { requests_per_unit: 1, unit });
        let odd = RateLimitDescriptor { limit, ..descriptor(&[("user", "ann")]) };
        let refusal = client.ask(request("open", vec![odd])).await.unwrap_err();
        assert_eq!(refusal.code(), Grpc::InvalidArgument, "unit {unit}: {refusal:?}");
    }
    still_answers(&tidegate, "ann").await;
}

#[tokio::test]
async fn a_faulty_setting_ends_the_start_and_is_named() {
    for (variable, value) in [
        ("LOG_LEVEL", "nonsense"),
        ("GRPC_PORT", "eighty"),
        ("PORT", "65536"),
        ("NEAR_LIMIT_RATIO", "much"),
        ("MEMORY_MAX_BUCKETS", "0"),
        ("BACKEND_TYPE", "memcache"),
    ] {
        let (code, printed) = refuses_to_start(&[(variable, value)]).await;
        assert_eq!(code, Some(1), "{variable}={value}: {printed}");
        assert!(printed.contains(variable), "{variable}={value}: {printed}");
        assert!(!printed.contains("panicked"), "{variable}={value}: {printed}");
    }
}

#[tokio::test]
async fn a_port_in_use_ends_the_start_and_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for variable in ["GRPC_PORT", "PORT", "DEBUG_PORT"] {
        let (code, printed) = refuses_to_start(&[(variable, &port)]).await;
        assert_eq!(code, Some(1), "{variable}: {printed}");
        let flag = variable.to_lowercase().replace('_', "-");
        let expected = format!("{variable}/--{flag} {port} on 127.0.0.1: address in use");
        assert!(printed.contains(&expected), "{variable}: {printed}");
    }
}

#[tokio::test]
async fn faulty_policies_at_the_start_heal_when_the_folder_does() {
    let faulty = POLICY.replace("unit: year", "unit: yaer");
    let tidegate = Tidegate::start_unready(&faulty, &[]).await;
    let report = eventually("the report", async || {
        tidegate.log().contains("policy.yaml:5:").then(|| tidegate.log())
    })
    .await;
    assert!(report.contains("yaer") && report.contains("year"), "{report}");

    assert_eq!(tidegate.get("/healthcheck").await.status, 500);
    assert_eq!(serving_status(&tidegate, "ratelimit").await, ServingStatus::NotServing);
    let mut client = tidegate.client().await;
    let refusal =
        client.ask(request("open", vec![descriptor(&[("user", "ann")])])).await.unwrap_err();
    assert_eq!(refusal.code(), Grpc::Unavailable);

    tidegate.replace_policy(POLICY);
    tidegate.ready().await;
    assert_eq!(serving_status(&tidegate, "ratelimit").await, ServingStatus::Serving);
    still_answers(&tidegate, "ann").await;
}

#[tokio::test]
async fn a_broken_reload_keeps_the_last_good_rules() {
    let tidegate = Tidegate::start(POLICY).await;
    tidegate.replace_policy("domain: [");
    eventually("the failed reload", async || {
        (tidegate.metric("ratelimit_service_config_load_error").await > 0.0).then_some(())
    })
    .await;
    still_answers(&tidegate, "ann").await;
    assert_eq!(tidegate.get("/healthcheck").await.status, 200);
}

#[tokio::test]
async fn a_folder_that_vanishes_keeps_the_last_good_rules_and_heals() {
    let tidegate = Tidegate::start(POLICY).await;
    let (folder, aside) = (tidegate.policies(), tidegate.policies().with_extension("aside"));
    fs::rename(&folder, &aside).unwrap();
    eventually("the failed reload", async || {
        (tidegate.metric("ratelimit_service_config_load_error").await > 0.0).then_some(())
    })
    .await;
    still_answers(&tidegate, "ann").await;

    fs::rename(&aside, &folder).unwrap();
    tidegate.replace_policy(&POLICY.replace("requests_per_unit: 3", "requests_per_unit: 9"));
    let mut client = tidegate.client().await;
    eventually("the new limit", async || {
        let status = client.status("open", peek(&[("user", "bob")])).await;
        (status.limit_remaining == 9).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_hangup_signal_reloads() {
    let tidegate = Tidegate::start_with(POLICY, &[("LOG_LEVEL", "debug")]).await;
    tidegate.signal("HUP");
    eventually("the reload", async || {
        let log = tidegate.log();
        let (_, after) = log.split_once("asked to reload policies")?;
        after.contains("policies have not changed").then_some(())
    })
    .await;
    still_answers(&tidegate, "ann").await;
}

#[tokio::test]
async fn a_terminated_server_says_so_serves_on_for_a_while_and_exits_0() {
    let mut tidegate = Tidegate::start_with(POLICY, &[("DRAIN_DELAY", "2s")]).await;
    let mut client = tidegate.client().await;
    let mut health = HealthClient::new(channel(tidegate.grpc).await);
    let watch = health.watch(HealthCheckRequest { service: "ratelimit".to_owned() }).await;
    let mut watch = watch.unwrap().into_inner();
    let first = watch.message().await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::Serving);

    tidegate.signal("TERM");
    let second = watch.message().await.unwrap().unwrap();
    assert_eq!(second.status(), ServingStatus::NotServing);
    let status = client.status("open", descriptor(&[("user", "ann")])).await;
    assert_eq!((status.code(), status.limit_remaining), (Code::Ok, 2), "late callers are answered");
    assert_eq!(tidegate.end().await.code(), Some(0), "an open stream must not hold the stop");
}

#[tokio::test]
async fn health_and_reflection_answer() {
    let tidegate = Tidegate::start(POLICY).await;
    for service in ["", "ratelimit"] {
        assert_eq!(serving_status(&tidegate, service).await, ServingStatus::Serving, "{service:?}");
    }

    let mut client = ServerReflectionClient::new(channel(tidegate.grpc).await);
    let question = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answers = client.server_reflection_info(tokio_stream::once(question)).await;
    let answer = answers.unwrap().into_inner().message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}");
    };
    let names: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
    for expected in ["envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health"] {
        assert!(names.iter().any(|name| name == expected), "{expected} is not among {names:?}");
    }
}
