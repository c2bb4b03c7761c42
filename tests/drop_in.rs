//! In the place of envoyproxy/ratelimit: its command, its environment, its checker.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed test should panic"
)]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::authority::Authority;
use support::eventually;
use support::grpc::{self, descriptor};
use support::http;
use support::redis::Redis;
use support::tidegate::{PROGRAM, Tidegate};
use support::xds::{self, Unit, XdsServer};
use tempfile::TempDir;

const POLICY: &str = "\
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 5 }
";

/// The program under another name.
fn link(folder: &Path, name: &str) -> PathBuf {
    let link = folder.join(name);
    symlink(PROGRAM, &link).unwrap();
    link
}

fn run(program: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(variables.iter().copied()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Where metrics are served on their own.
async fn metrics_port(tidegate: &Tidegate) -> u16 {
    eventually("the metrics' address", async || {
        let log = tidegate.log();
        let line = log.lines().find(|line| line.contains("prometheus: metrics"))?.to_owned();
        let address = line.split("address=").nth(1)?.split_whitespace().next()?;
        address.rsplit_once(':')?.1.parse().ok()
    })
    .await
}

/// All that Envoy Gateway sets when metrics and a Redis are configured. Ports are free ones.
#[tokio::test]
async fn the_command_and_environment_of_envoy_gateway_serve() {
    let authority = Authority::new();
    let gateway = authority.acceptor(&authority.issue("envoy-gateway", "localhost"));
    let gateway = XdsServer::start_on(([127, 0, 0, 1], 0).into(), Some(gateway)).await;
    gateway.publish("1", &[xds::policy("shop", vec![xds::limit("user", "", Unit::Day, 5)])]);
    let (cert, key) = authority.issue("tls", "localhost");
    let (ca, redis) = (authority.ca(), Redis::start().await);
    let bin = TempDir::new().unwrap();
    let program = link(bin.path(), "ratelimit");
    let (url, xds) = (redis.address(), format!("localhost:{}", gateway.address.port()));
    let settings = [
        ("RUNTIME_ROOT", "/data"),
        ("RUNTIME_SUBDIRECTORY", "ratelimit"),
        ("RUNTIME_IGNOREDOTFILES", "true"),
        ("RUNTIME_WATCH_ROOT", "false"),
        ("LOG_LEVEL", "info"),
        ("USE_STATSD", "false"),
        ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
        ("CONFIG_GRPC_XDS_SERVER_URL", xds.as_str()),
        ("CONFIG_GRPC_XDS_NODE_ID", "envoy-ratelimit"),
        ("GRPC_SERVER_USE_TLS", "true"),
        ("GRPC_SERVER_TLS_CERT", cert.as_str()),
        ("GRPC_SERVER_TLS_KEY", key.as_str()),
        ("GRPC_SERVER_TLS_CA_CERT", ca.as_str()),
        ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", cert.as_str()),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", key.as_str()),
        ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", ca.as_str()),
        ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true"),
        ("REDIS_SOCKET_TYPE", "tcp"),
        ("REDIS_URL", url.as_str()),
        ("USE_PROMETHEUS", "true"),
        ("PROMETHEUS_ADDR", ":0"),
        ("PROMETHEUS_MAPPER_YAML", "/etc/statsd-exporter/conf.yaml"),
        // Ours: on a busy machine no failure mode shall answer instead of Redis.
        ("REDIS_OP_TIMEOUT", "5s"),
    ];
    let folder = TempDir::new().unwrap();
    let tidegate = Tidegate::run(&program, folder, &settings).await;
    tidegate.ready().await;
    gateway.accepted("1").await;
    assert_eq!(gateway.said()[0].node.as_ref().unwrap().id, "envoy-ratelimit");

    let shown = authority.issue("envoy", "envoy");
    let config = authority.client(Some(&shown));
    let mut client = grpc::connect_over_tls(tidegate.grpc, config).await.unwrap();
    let status = client.status("shop", descriptor(&[("user", "ann")])).await;
    assert_eq!(status.limit_remaining, 4);

    let metrics = ([127, 0, 0, 1], metrics_port(&tidegate).await).into();
    let scraped = http::get(metrics, "/metrics", &[]).await.body;
    let hits = "ratelimit_service_rate_limit_total_hits{domain=\"shop\",key1=\"user\",key2=\"\",key3=\"\"} 1";
    assert!(scraped.contains(hits), "{scraped}");
    let log = tidegate.log();
    assert!(log.contains("PROMETHEUS_MAPPER_YAML has no effect"), "{log}");
    let n_warnings = log.lines().filter(|line| line.contains("settings: ")).count();
    assert_eq!(n_warnings, 1, "{log}");
}

#[test]
fn the_checker_is_there_by_its_name_and_flags() {
    let folder = TempDir::new().unwrap();
    let program = link(folder.path(), "ratelimit_config_check");
    let policies = folder.path().join("policies");
    fs::create_dir(&policies).unwrap();
    for name in ["a.yaml", "b.yaml"] {
        fs::write(policies.join(name), POLICY.replace("user", name)).unwrap();
    }
    let folder = policies.to_str().unwrap();
    let refused = run(&program, &["-config_dir", folder], &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("duplicate domain 'shop'"), "{refused:?}");
    let merged = run(&program, &["-config_dir", folder, "-merge_domain_configs"], &[]);
    assert_eq!(merged.status.code(), Some(0), "{merged:?}");
    assert_eq!(text(&merged.stdout), "ok: 2 rules in 1 domain from 2 files\n");
    let usage = run(&program, &[], &[]);
    assert_eq!(usage.status.code(), Some(1));
    assert!(text(&usage.stderr).contains("usage: ratelimit_config_check -config_dir"), "{usage:?}");
}

#[test]
fn check_and_explain_read_policies_as_the_server_would() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("a.yaml"), POLICY).unwrap();
    fs::write(folder.path().join(".b.yaml"), POLICY).unwrap();
    let path = folder.path().to_str().unwrap();
    let check = |variables: &[(&str, &str)]| {
        run(Path::new(PROGRAM), &["check", path], variables).status.code()
    };
    assert_eq!(check(&[]), Some(1), "the domain stands twice");
    assert_eq!(check(&[("RUNTIME_IGNOREDOTFILES", "true")]), Some(0));
    let skips = ("RUNTIME_IGNOREDOTFILES", "true");
    let explained = run(
        Path::new(PROGRAM),
        &["explain", path, "shop", "user=ann"],
        &[skips, ("DEFAULT_ALGORITHM", "token_bucket")],
    );
    assert!(text(&explained.stdout).contains("token_bucket"), "{explained:?}");
    let faulty = run(Path::new(PROGRAM), &["check", path], &[("DEFAULT_ALGORITHM", "none")]);
    assert_eq!(faulty.status.code(), Some(1));
    assert!(text(&faulty.stderr).contains("DEFAULT_ALGORITHM/--"), "{faulty:?}");
}

#[test]
fn settings_are_printed_with_their_origin_and_without_secrets() {
    let variables = [("REDIS_URL", "redis://me:hunter2@redis:6379"), ("GRPC_PORT", "9000")];
    let arguments = ["settings", "--log-level", "debug"];
    let printed = run(Path::new(PROGRAM), &arguments, &variables);
    assert_eq!(printed.status.code(), Some(0), "{printed:?}");
    let printed = text(&printed.stdout);
    for line in [
        "environment  REDIS_URL=redis://*****@redis:6379",
        "environment  GRPC_PORT=9000",
        "flag         LOG_LEVEL=debug",
        "default      PORT=8080",
        "policies: config/policies",
        "buckets: Redis, single at redis:6379",
    ] {
        assert!(printed.lines().any(|found| found == line), "{line} in {printed}");
    }
    assert!(!printed.contains("hunter2"), "{printed}");
    let faulty = run(Path::new(PROGRAM), &["settings"], &[("PORT", "http")]);
    assert_eq!(faulty.status.code(), Some(1));
    assert!(text(&faulty.stderr).contains("PORT/--port: found `http`"), "{faulty:?}");
    assert!(text(&faulty.stdout).contains("environment  PORT=http"), "{faulty:?}");
}
