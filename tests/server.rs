//! The server as an operator meets it: started, asked, told to reload and to stop.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::float_cmp,
    reason = "a failed test should panic, and counts are whole numbers"
)]

mod support;

use hyper_util::rt::TokioIo;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use support::grpc::{Code, channel, descriptor};
use support::http;
use support::process::Process;
use support::tidegate::{Tidegate, refuses_to_start};
use support::{PATIENCE, eventually};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{TcpListener, UnixStream};
use tokio::time::timeout;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

fn policy(limit: u32) -> String {
    format!(
        "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: {{ unit: day, requests_per_unit: {limit} }}\n"
    )
}

async fn remaining(tidegate: &Tidegate, user: &str) -> u32 {
    tidegate.client().await.status("shop", descriptor(&[("user", user)])).await.limit_remaining
}

/// Waits until new users have that much left: the policy with that limit is in force.
async fn in_force(tidegate: &Tidegate, limit: u32) {
    let mut n_users = 0;
    eventually("the new policy to be in force", async || {
        n_users += 1;
        let user = format!("{limit}-{n_users}");
        (remaining(tidegate, &user).await == limit - 1).then_some(())
    })
    .await;
}

async fn logged(tidegate: &Tidegate, text: &str) {
    eventually(text, async || tidegate.log().contains(text).then_some(())).await;
}

#[tokio::test]
async fn the_lines_to_try_work() {
    let tidegate = Tidegate::start(&policy(5)).await;
    logged(&tidegate, "try: curl").await;
    let log = tidegate.log();
    let line = log.lines().find_map(|line| line.split_once("try: ")).unwrap().1;
    let body = line.split('\'').nth(1).unwrap();
    assert_eq!(line, format!("curl -d '{body}' http://{}/json", tidegate.http));
    let answer = http::post(tidegate.http, "/json", body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.body.contains("\"limitRemaining\":4"), "{answer:?}");
    assert!(log.contains("or:  grpcurl -plaintext"), "{log}");
}

#[tokio::test]
async fn settings_that_are_faulty_are_all_named_and_nothing_starts() {
    let (code, log) = refuses_to_start(&[
        ("PORT", "http"),
        ("SHADOW_MODE", ""),
        ("MEMORY_MAX_BUCKETS", "0"),
        ("REDIS_AUTH", "secret"),
    ])
    .await;
    assert_eq!(code, Some(1), "{log}");
    for variable in ["PORT/--port: found `http`", "SHADOW_MODE", "MEMORY_MAX_BUCKETS", "REDIS_URL"]
    {
        assert!(log.contains(variable), "{variable} in {log}");
    }
}

#[tokio::test]
async fn a_faulty_policy_at_the_start_leaves_it_unready_until_it_is_mended() {
    let tidegate = Tidegate::start_unready("domain: [\n", &[]).await;
    logged(&tidegate, "policies are faulty").await;
    assert_eq!(tidegate.get("/healthcheck").await.status, 500);
    assert_eq!(tidegate.get("/readyz").await.status, 500);
    assert_eq!(tidegate.get("/livez").await.status, 200);
    let asked = support::grpc::request("shop", vec![descriptor(&[("user", "ann")])]);
    let error = tidegate.client().await.ask(asked).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::Unavailable);
    assert!(tidegate.log().contains("policy.yaml:"), "{}", tidegate.log());

    tidegate.replace_policy(&policy(7));
    tidegate.ready().await;
    in_force(&tidegate, 7).await;
}

#[tokio::test]
async fn a_faulty_reload_is_counted_and_logged_once_and_changes_nothing() {
    let tidegate = Tidegate::start(&policy(5)).await;
    assert_eq!(tidegate.metric("ratelimit_service_config_load_success").await, 1.0);
    assert_eq!(tidegate.metric("ratelimit_service_config_load_error").await, 0.0);

    tidegate.replace_policy("domain: shop\ndescriptors: 3\n");
    eventually("the fault to be counted", async || {
        (tidegate.metric("ratelimit_service_config_load_error").await == 1.0).then_some(())
    })
    .await;
    assert_eq!(remaining(&tidegate, "ann").await, 4);
    assert_eq!(tidegate.get("/healthcheck").await.status, 200);

    tidegate.replace_policy(&policy(9));
    in_force(&tidegate, 9).await;
    assert_eq!(tidegate.metric("ratelimit_service_config_load_error").await, 1.0);
    assert_eq!(tidegate.metric("ratelimit_service_config_load_success").await, 2.0);
    assert_eq!(tidegate.log().matches("policies are faulty").count(), 1);
}

#[tokio::test]
async fn a_fault_is_logged_again_for_whoever_asks() {
    let tidegate = Tidegate::start(&policy(5)).await;
    tidegate.replace_policy("domain: shop\ndescriptors: 3\n");
    logged(&tidegate, "policies are faulty").await;
    tidegate.signal("HUP");
    eventually("the fault to be logged again", async || {
        (tidegate.log().matches("policies are faulty").count() == 2).then_some(())
    })
    .await;
    assert_eq!(tidegate.metric("ratelimit_service_config_load_error").await, 1.0);
}

#[tokio::test]
async fn counters_survive_a_reload_and_the_same_content_is_no_reload() {
    let tidegate = Tidegate::start(&policy(5)).await;
    assert_eq!(remaining(&tidegate, "ann").await, 4);
    tidegate.replace_policy(&policy(5));
    tidegate.signal("HUP");
    logged(&tidegate, "asked to reload policies").await;
    tidegate.replace_policy(&policy(8));
    in_force(&tidegate, 8).await;
    assert_eq!(remaining(&tidegate, "ann").await, 6);
    assert_eq!(tidegate.metric("ratelimit_service_config_load_success").await, 2.0);
}

#[tokio::test]
async fn a_folder_that_becomes_empty_keeps_the_last_rules() {
    let tidegate = Tidegate::start(&policy(5)).await;
    fs::remove_file(tidegate.policies().join("policy.yaml")).unwrap();
    logged(&tidegate, "no policies are found; those in force stay").await;
    assert_eq!(remaining(&tidegate, "ann").await, 4);
    assert_eq!(tidegate.get("/healthcheck").await.status, 200);
}

#[tokio::test]
async fn a_half_written_file_is_refused_and_the_whole_one_taken() {
    let tidegate = Tidegate::start(&policy(5)).await;
    let whole = policy(6);
    let (first, rest) = whole.split_at(whole.find("unit:").unwrap());
    let mut file = fs::File::create(tidegate.policies().join("policy.yaml")).unwrap();
    file.write_all(first.as_bytes()).unwrap();
    logged(&tidegate, "policies are faulty").await;
    assert_eq!(remaining(&tidegate, "ann").await, 4);
    file.write_all(rest.as_bytes()).unwrap();
    drop(file);
    in_force(&tidegate, 6).await;
}

async fn serving(tidegate: &Tidegate, service: &str) -> Option<ServingStatus> {
    let mut health = HealthClient::new(channel(tidegate.grpc).await);
    let asked = HealthCheckRequest { service: service.to_owned() };
    health.check(asked).await.ok().map(|answer| answer.into_inner().status())
}

#[tokio::test]
async fn a_drain_says_no_to_health_and_still_answers_then_ends_with_success() {
    let mut tidegate = Tidegate::start_with(&policy(5), &[("DRAIN_DELAY", "2s")]).await;
    for service in ["", "ratelimit"] {
        assert_eq!(serving(&tidegate, service).await, Some(ServingStatus::Serving));
    }
    let mut client = tidegate.client().await;
    tidegate.signal("TERM");
    eventually("health to say no", async || {
        (tidegate.get("/healthcheck").await.status == 500).then_some(())
    })
    .await;
    for service in ["", "ratelimit"] {
        assert_eq!(serving(&tidegate, service).await, Some(ServingStatus::NotServing));
    }
    let status = client.status("shop", descriptor(&[("user", "ann")])).await;
    assert_eq!(status.code(), Code::Ok);
    assert_eq!(tidegate.end().await.code(), Some(0));
}

#[tokio::test]
async fn those_who_watch_health_do_not_delay_the_end() {
    let mut tidegate = Tidegate::start_with(&policy(5), &[("STOP_TIMEOUT", "1h")]).await;
    let mut health = HealthClient::new(channel(tidegate.grpc).await);
    let asked = HealthCheckRequest { service: "ratelimit".to_owned() };
    let mut watched = health.watch(asked).await.unwrap().into_inner();
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    tidegate.signal("INT");
    assert_eq!(tidegate.end().await.code(), Some(0));
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let mut tidegate = Tidegate::start_with(&policy(5), &[("DRAIN_DELAY", "1h")]).await;
    tidegate.signal("TERM");
    logged(&tidegate, "stopping").await;
    // Those that come within the same second are the same signal.
    tidegate.signal("TERM");
    assert_eq!(tidegate.get("/livez").await.status, 200);
    eventually("its end", async || {
        tidegate.signal("TERM");
        tidegate.log().contains("stopped at once").then_some(())
    })
    .await;
    assert_eq!(tidegate.end().await.code(), Some(1));
}

#[tokio::test]
async fn a_connection_that_stays_open_is_cut_off_after_the_stop_timeout() {
    let mut tidegate = Tidegate::start_with(&policy(5), &[("STOP_TIMEOUT", "100ms")]).await;
    let mut slow = TcpStream::connect(tidegate.http).unwrap();
    slow.write_all(b"POST /json HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{").unwrap();
    assert_eq!(tidegate.get("/livez").await.status, 200);
    tidegate.signal("INT");
    assert_eq!(tidegate.end().await.code(), Some(0));
}

#[tokio::test]
async fn the_admin_port_shows_rules_and_buckets_and_resets_them() {
    let tidegate = Tidegate::start(&policy(5)).await;
    assert_eq!(remaining(&tidegate, "ann").await, 4);
    let rules = http::get(tidegate.admin, "/rlconfig", &[]).await.body;
    assert!(
        rules.starts_with("shop.user: unit=DAY requests_per_unit=5, shadow_mode: false"),
        "{rules}"
    );
    let endpoints = http::get(tidegate.admin, "/", &[]).await.body;
    assert!(endpoints.contains("/rlconfig"), "{endpoints}");

    let path = "/bucket?domain=shop&entries=user=ann";
    let bucket = http::get(tidegate.admin, path, &[]).await.body;
    assert!(bucket.contains("\"used\":1,\"remaining\":4"), "{bucket}");
    let reset = http::ask(tidegate.admin, "DELETE", path, &[], "").await;
    assert_eq!(reset.status, 200, "{reset:?}");
    assert_eq!(remaining(&tidegate, "ann").await, 4);
    for (path, status) in [
        ("/bucket?domain=shop&entries=nobody", 404),
        ("/bucket?domain=elsewhere&entries=user=ann", 404),
        ("/bucket?domain=shop&entries==x", 400),
        ("/bucket?domain=shop", 400),
    ] {
        assert_eq!(http::get(tidegate.admin, path, &[]).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn the_log_level_can_be_changed_while_it_runs() {
    let tidegate = Tidegate::start_with(&policy(5), &[("LOG_FORMAT", "json")]).await;
    assert_eq!(http::get(tidegate.admin, "/log-level", &[]).await.body, "info\n");
    let set = http::ask(tidegate.admin, "POST", "/log-level?level=debug", &[], "").await;
    assert_eq!((set.status, set.body.as_str()), (200, "debug\n"));
    let set = http::ask(tidegate.admin, "POST", "/log-level?level=loud", &[], "").await;
    assert_eq!(set.status, 400);
    let line = tidegate.log().lines().next().unwrap().to_owned();
    assert!(line.contains("\"@message\":") && line.contains("\"level\":\"info\""), "{line}");
}

#[tokio::test]
async fn limiting_can_be_switched_off_for_a_while_and_ends_by_itself() {
    let tidegate = Tidegate::start(&policy(1)).await;
    let ask = async |method, path| http::ask(tidegate.admin, method, path, &[], "").await;
    let passes = async || {
        let asked = support::grpc::request("shop", vec![descriptor(&[("user", "ann")])]);
        tidegate.client().await.ask(asked).await.unwrap().overall_code() == Code::Ok
    };
    assert!(passes().await);
    assert!(!passes().await);
    assert_eq!(ask("GET", "/shadow").await.body, "off\n");
    for wrong in ["/shadow", "/shadow?for=10", "/shadow?for=0s", "/shadow?for=25h"] {
        assert_eq!(ask("POST", wrong).await.status, 400, "{wrong}");
    }
    assert!(ask("POST", "/shadow?for=1h").await.body.starts_with("on for 35"));
    assert!(passes().await);
    assert_eq!(tidegate.metric("tidegate_shadow_mode").await, 1.0);
    assert_eq!(tidegate.metric("ratelimit_service_global_shadow_mode").await, 1.0);
    assert_eq!(ask("DELETE", "/shadow").await.body, "off\n");
    assert!(!passes().await);
    logged(&tidegate, "shadow: ended by request").await;

    ask("POST", "/shadow?for=100ms").await;
    logged(&tidegate, "shadow: ended by itself").await;
    assert!(!passes().await);
    assert_eq!(tidegate.metric("tidegate_shadow_mode").await, 0.0);
}

#[tokio::test]
async fn a_web_page_cannot_switch_limiting_off() {
    let tidegate = Tidegate::start(&policy(1)).await;
    let page = [("origin", "http://page.example")];
    let answer = http::ask(tidegate.admin, "POST", "/shadow?for=1h", &page, "").await;
    assert_eq!((answer.status, answer.body.as_str()), (403, "not for web pages\n"));
    assert_eq!(http::get(tidegate.admin, "/shadow", &[]).await.body, "off\n");
}

#[tokio::test]
async fn a_hot_bucket_is_named_on_the_admin_port_and_nowhere_else() {
    let tidegate = Tidegate::start(&policy(100)).await;
    for user in ["ann", "bob", "ann", "ann"] {
        remaining(&tidegate, user).await;
    }
    let hot = http::get(tidegate.admin, "/hot-keys", &[]).await.body;
    let hot: serde_json::Value = serde_json::from_str(&hot).unwrap();
    assert!(hot["buckets"][0]["key"].as_str().unwrap().contains("ann"), "{hot}");
    assert_eq!(hot["buckets"][0]["share"], 0.75);
    assert_eq!(hot["slots"], serde_json::json!([]));
    let metrics = tidegate.get("/metrics").await.body;
    assert!(metrics.contains("tidegate_hottest_bucket_share 0.75\n"), "{metrics}");
    assert!(!metrics.contains("ann"), "{metrics}");
}

#[tokio::test]
async fn refusals_are_logged_with_their_rule_and_nothing_of_the_request() {
    let settings = [("LOG_DENIED_PER_SECOND", "1000"), ("LOG_FORMAT", "json")];
    let tidegate = Tidegate::start_with(&policy(1), &settings).await;
    for _ in 0..3 {
        remaining(&tidegate, "secret-ann").await;
    }
    logged(&tidegate, "request denied").await;
    let log = tidegate.log();
    let lines = log.lines().filter(|line| line.contains("request denied"));
    let lines: Vec<serde_json::Value> =
        lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert_eq!((&lines[0]["domain"], &lines[0]["rule"]), (&"shop".into(), &"shop.user".into()));
    assert!(lines[0]["at"].as_str().unwrap().ends_with("policy.yaml:3"), "{log}");
    assert_eq!((&lines[0]["requests"], &lines[0]["unit"]), (&1.into(), &"day".into()));
    assert!(!log.contains("secret-ann"), "{log}");
}

#[tokio::test]
async fn modes_that_change_every_answer_are_said_at_the_start() {
    let modes = [("SHADOW_MODE", "true"), ("QUOTA_MODE", "true")];
    let tidegate = Tidegate::start_with(&policy(1), &modes).await;
    for mode in ["SHADOW_MODE: ", "QUOTA_MODE: "] {
        assert!(tidegate.log().contains(mode), "{}", tidegate.log());
    }
    assert_eq!(tidegate.metric("tidegate_shadow_mode").await, 1.0);
}

#[tokio::test]
async fn metrics_are_on_their_own_port_too_if_asked_for() {
    let settings = [("PROMETHEUS_ADDR", "127.0.0.1:0"), ("PROMETHEUS_PATH", "/m")];
    let tidegate = Tidegate::start_with(&policy(5), &settings).await;
    let log = tidegate.log();
    let line = log.lines().find(|line| line.contains("prometheus")).unwrap();
    let address = line.split("address=").nth(1).unwrap().split_whitespace().next().unwrap();
    let scraped = http::get(address.parse().unwrap(), "/m", &[]).await;
    assert!(scraped.body.contains("tidegate_store_info{backend=\"memory\"} 1"), "{scraped:?}");
    assert!(scraped.body.contains("tidegate_build_info{version="), "{scraped:?}");
}

#[tokio::test]
async fn a_unix_socket_takes_the_place_of_the_grpc_port() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grpc.sock");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.env_clear().envs([("PORT", "0"), ("DEBUG_PORT", "0")]);
    command.env("POLICIES", "config/policies").env("GRPC_UDS", &path);
    let mut tidegate = Process::start("tidegate", &mut command);

    let mut health = eventually("an answer over the socket", async || {
        let path = path.clone();
        let connect = tower::service_fn(move |_| {
            let path = path.clone();
            async { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from_static("http://localhost");
        endpoint.connect_with_connector(connect).await.ok().map(HealthClient::new)
    })
    .await;
    let asked = HealthCheckRequest { service: "ratelimit".to_owned() };
    let answer = health.check(asked).await.unwrap().into_inner();
    assert_eq!(answer.status(), ServingStatus::Serving);

    tidegate.signal("INT");
    assert_eq!(tidegate.end().await.code(), Some(0));
    assert!(!path.exists());
}

fn tidegate(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_tidegate")).args(arguments).env_clear().output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn output_that_nobody_reads_on_is_no_error_to_speak_of() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = command.arg("settings").env_clear().stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(1), Vec::new()));
}

#[test]
fn check_says_what_is_wrong_and_exits_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let good = folder.path().join("good.yaml");
    fs::write(&good, policy(5)).unwrap();
    let (code, out, err) = tidegate(&["check", good.to_str().unwrap()]);
    assert_eq!(
        (code, out.as_str(), err.as_str()),
        (Some(0), "ok: 1 rule in 1 domain from 1 file\n", "")
    );

    let bad = folder.path().join("bad.yaml");
    fs::write(&bad, policy(5).replace("day", "fortnight")).unwrap();
    let (code, out, err) = tidegate(&["check", bad.to_str().unwrap()]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.contains("bad.yaml:4:") && err.contains("fortnight"), "{err}");
}

#[test]
fn checking_a_folder_without_policies_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let (code, out, err) = tidegate(&["check", folder.path().to_str().unwrap()]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("no policy files"), "{err}");
}

#[test]
fn explain_names_the_rule_that_answers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    fs::write(&file, policy(5)).unwrap();
    let file = file.to_str().unwrap();
    let (code, out, err) = tidegate(&["explain", file, "shop", "user=ann"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("policy.yaml:3"), "{out}");
    let (code, _, err) = tidegate(&["explain", file, "shoe", "user=ann"]);
    assert_eq!(code, Some(1));
    assert!(err.contains("`shoe`") && err.contains("shop"), "{err}");
}

#[test]
fn help_is_for_newcomers() {
    let (code, out, _) = tidegate(&["--help"]);
    assert_eq!(code, Some(0));
    for text in ["check", "explain", "Policies:", "Listeners:", "--grpc-port", "[env: GRPC_PORT="] {
        assert!(out.contains(text), "{text} in {out}");
    }
}

#[tokio::test]
async fn metrics_are_pushed_if_that_is_asked_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let settings = [
        ("USE_STATSD", "true"),
        ("STATSD_HOST", "127.0.0.1"),
        ("STATSD_PORT", &port),
        ("STATS_FLUSH_INTERVAL", "50ms"),
        ("EXTRA_TAGS", "zone:a"),
    ];
    let tidegate = Tidegate::start_with(&policy(5), &settings).await;
    remaining(&tidegate, "ann").await;
    let (stream, _) = listener.accept().await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    let expected = "ratelimit.service.rate_limit.shop.user.total_hits.__zone=a:1|c";
    let pushed = async { while lines.next_line().await.unwrap().unwrap() != expected {} };
    timeout(PATIENCE, pushed).await.expect(expected);
}
