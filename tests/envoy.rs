//! A real Envoy, set up by the bootstrap files that users copy, is limited as the policies say.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test should panic")]

mod support;

use std::net::SocketAddr;
use support::envoy::Envoy;
use support::eventually;
use support::grpc::{Client, Code, DescriptorStatus, peek};
use support::http::{self, Answer};
use support::tidegate::Tidegate;
use support::upstream::Upstream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Windows of a year, so that no test sees the end of one.
const YEAR: u64 = 365 * 24 * 3600;

const ALGORITHMS: [&str; 5] = [
    "fixed_window",
    "sliding_window_log",
    "sliding_window_counter",
    "token_bucket",
    "leaky_bucket",
];

/// Client, Envoy, service and Tidegate, as in production.
struct Scene {
    envoy: Envoy,
    service: Upstream,
    tidegate: Tidegate,
}

impl Scene {
    async fn start(bootstrap: &str, policy: &str) -> Self {
        let service = Upstream::start().await;
        let tidegate = Tidegate::start(policy).await;
        let envoy = Envoy::start(bootstrap, service.address, tidegate.grpc).await;
        Self { envoy, service, tidegate }
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        http::get(self.envoy.address, path, headers).await
    }

    async fn as_tenant(&self, tenant: &str) -> Answer {
        self.get("/", &[("x-tenant", tenant)]).await
    }
}

/// A policy of `envoy/ratelimit.yaml`'s domain: one limit for each value of `x-tenant`.
fn tenants(limits: &[(&str, &str)]) -> String {
    let tenant = |(name, limit): &(&str, &str)| {
        format!("  - {{ key: tenant, value: {name}, rate_limit: {{ unit: year, {limit} }} }}\n")
    };
    let tenants: String = limits.iter().map(tenant).collect();
    format!("domain: example\ndescriptors:\n{tenants}")
}

/// A policy of `envoy/token-budget.yaml`'s domain: 100 a year for each algorithm, which is also the
/// name of the user that it limits.
fn budgets(budget: &str, count_denied: &str) -> String {
    let user = |algorithm: &&str| {
        let burst = if *algorithm == "leaky_bucket" { ", burst: 100" } else { "" };
        format!(
            "      - key: user\n        value: {algorithm}\n        rate_limit: {{ unit: year, \
             requests_per_unit: 100, algorithm: {algorithm}{burst}{count_denied} }}\n"
        )
    };
    let users: String = ALGORITHMS.iter().map(user).collect();
    format!(
        "domain: budgets\ndescriptors:\n  - key: budget\n    value: {budget}\n    descriptors:\n{users}"
    )
}

/// Waits until a budget is as a stream-done charge, which nobody waits for, should leave it.
async fn budget_becomes(
    client: &mut Client,
    entries: &[(&str, &str)],
    expected: impl Fn(&DescriptorStatus) -> bool,
) {
    eventually(&format!("the charge of {entries:?}"), async || {
        let status = client.status("budgets", peek(entries)).await;
        expected(&status).then_some(())
    })
    .await;
}

#[tokio::test]
async fn requests_pass_up_to_the_limit_and_are_refused_beyond_it() {
    let policy = tenants(&[("acme", "requests_per_unit: 3")]);
    let scene = Scene::start("ratelimit.yaml", &policy).await;

    for remaining in [2, 1, 0] {
        let answer = scene.as_tenant("acme").await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "served\n"));
        assert_eq!(answer.header("x-ratelimit-limit"), format!("3, 3;w={YEAR}"));
        assert_eq!(answer.number("x-ratelimit-remaining"), remaining);
        assert!((1..=YEAR).contains(&answer.number("x-ratelimit-reset")), "{answer:?}");
        assert_eq!(answer.header("retry-after"), "");
    }

    let refused = scene.as_tenant("acme").await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("x-envoy-ratelimited"), "true");
    assert_eq!(refused.header("x-ratelimit-limit"), format!("3, 3;w={YEAR}"));
    assert_eq!(refused.number("x-ratelimit-remaining"), 0);
    let reset = refused.number("x-ratelimit-reset");
    assert!((1..=YEAR).contains(&reset), "{refused:?}");
    assert_eq!(refused.number("retry-after"), reset);
    assert_eq!(scene.service.n_requests(), 3, "a refused request must not reach the service");

    let other = scene.as_tenant("initech").await;
    assert_eq!((other.status, other.header("x-ratelimit-limit")), (200, String::new()));
}

/// The status line of the answer to a tenant whose name is any bytes.
async fn status_line(server: SocketAddr, tenant: &[u8]) -> String {
    let mut stream = TcpStream::connect(server).await.unwrap();
    let head = b"GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\nx-tenant: ";
    stream.write_all(&[head.as_slice(), tenant, b"\r\n\r\n"].concat()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_header_that_is_no_utf_8_does_not_switch_limits_off() {
    let policy = "
domain: example
descriptors:
  - key: remote_address
    rate_limit: { unit: year, requests_per_unit: 1 }
";
    let scene = Scene::start("ratelimit.yaml", policy).await;
    assert_eq!(status_line(scene.envoy.address, b"acme\xff").await, "HTTP/1.1 200 OK");
    let refused = status_line(scene.envoy.address, b"acme\xff").await;
    assert_eq!(refused, "HTTP/1.1 429 Too Many Requests");
}

#[tokio::test]
async fn every_descriptor_of_the_bootstrap_can_be_limited() {
    let policy = "
domain: example
descriptors:
  - key: remote_address
    value: 127.0.0.1
    rate_limit: { unit: year, requests_per_unit: 5, name: per-address }
  - key: path
    value: /items
    strip_query: true
    rate_limit: { unit: year, requests_per_unit: 2 }
  - key: generic_key
    value: writes
    descriptors:
      - key: header_match
        value: write
        rate_limit: { unit: year, requests_per_unit: 1 }
";
    let scene = Scene::start("ratelimit.yaml", policy).await;

    assert_eq!(scene.get("/items?page=1", &[]).await.status, 200);
    assert_eq!(scene.get("/items?page=2", &[]).await.status, 200);
    assert_eq!(scene.get("/items", &[]).await.status, 429);

    let write = async || http::ask(scene.envoy.address, "POST", "/orders", &[], "{}").await.status;
    assert_eq!(write().await, 200);
    assert_eq!(write().await, 429);

    let by_address = scene.get("/about", &[]).await;
    assert_eq!(by_address.status, 429, "five requests came from this address before");
    assert_eq!(
        by_address.header("x-ratelimit-limit"),
        format!("5, 5;w={YEAR};name=\"per-address\"")
    );
}

#[tokio::test]
async fn all_five_algorithms_limit() {
    let limits = ALGORITHMS.map(|algorithm| {
        let burst = if algorithm == "leaky_bucket" { ", burst: 3" } else { "" };
        (algorithm, format!("requests_per_unit: 3, algorithm: {algorithm}{burst}"))
    });
    let policy = tenants(&limits.each_ref().map(|(name, limit)| (*name, limit.as_str())));
    let scene = Scene::start("ratelimit.yaml", &policy).await;

    for algorithm in ALGORITHMS {
        for remaining in [2, 1, 0] {
            let answer = scene.as_tenant(algorithm).await;
            assert_eq!(answer.status, 200, "{algorithm}");
            assert_eq!(answer.number("x-ratelimit-remaining"), remaining, "{algorithm}");
        }
        let refused = scene.as_tenant(algorithm).await;
        assert_eq!(refused.status, 429, "{algorithm}");
        assert!((1..=YEAR).contains(&refused.number("retry-after")), "{algorithm}: {refused:?}");
    }
    assert_eq!(scene.service.n_requests(), 15);
}

#[tokio::test]
async fn a_refusal_carries_the_body_of_the_policy() {
    let policy = format!(
        "{}denied_body: '{{\"rule\":\"{{rule}}\",\"limit\":{{limit}},\"reset\":{{reset}}}}'\n\
         denied_content_type: application/json\n",
        tenants(&[("acme", "requests_per_unit: 1, name: per-tenant")])
    );
    let scene = Scene::start("ratelimit.yaml", &policy).await;

    assert_eq!(scene.as_tenant("acme").await.body, "served\n");
    let refused = scene.as_tenant("acme").await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("content-type"), "application/json");
    let body: serde_json::Value = serde_json::from_str(&refused.body).unwrap();
    assert_eq!(body["rule"], "per-tenant");
    assert_eq!(body["limit"], 1);
    assert_eq!(body["reset"], refused.number("x-ratelimit-reset"));
}

#[tokio::test]
async fn each_descriptor_has_its_own_cost() {
    let policy = "
domain: budgets
descriptors:
  - key: budget
    value: requests
    descriptors: [{ key: user, rate_limit: { unit: year, requests_per_unit: 50 } }]
  - key: budget
    value: costs
    descriptors: [{ key: user, rate_limit: { unit: year, requests_per_unit: 10 } }]
";
    let scene = Scene::start("token-budget.yaml", policy).await;
    let ask = async |cost| scene.get("/weighted", &[("x-user", "ann"), ("x-cost", cost)]).await;

    let first = ask("7").await;
    assert_eq!((first.status, first.number("x-ratelimit-remaining")), (200, 3));
    assert_eq!(
        first.header("x-ratelimit-limit"),
        format!("10, 50;w={YEAR}, 10;w={YEAR}"),
        "the scarcer limit first, then each descriptor's"
    );
    assert_eq!(ask("3").await.status, 200);
    assert_eq!(ask("1").await.status, 429);

    let requests = peek(&[("budget", "requests"), ("user", "ann")]);
    let status = scene.tidegate.client().await.status("budgets", requests).await;
    assert_eq!(status.limit_remaining, 47, "three hits of one each");
}

#[tokio::test]
async fn a_token_budget_refuses_the_request_after_the_one_that_crossed_it() {
    // A fixed window counts the charge that crosses by itself; the others must be told to.
    let policy = budgets("tokens", ", count_denied: true")
        .replace("fixed_window, count_denied: true", "fixed_window");
    let scene = Scene::start("token-budget.yaml", &policy).await;
    let mut client = scene.tidegate.client().await;
    scene.service.answer_with(&[("x-tokens-used", "60")]);

    for user in ALGORITHMS {
        let entries = [("budget", "tokens"), ("user", user)];
        let ask = async || scene.get("/metered", &[("x-user", user)]).await.status;

        assert_eq!(ask().await, 200, "{user}: nothing spent yet");
        budget_becomes(&mut client, &entries, |status| status.limit_remaining == 40).await;
        assert_eq!(ask().await, 200, "{user}: 40 left, 60 will be charged");
        budget_becomes(&mut client, &entries, |status| status.code() == Code::OverLimit).await;
        assert_eq!(ask().await, 429, "{user}: nothing left");
    }
    assert_eq!(scene.service.n_requests(), 10);
}

#[tokio::test]
async fn what_was_not_used_is_refunded_when_the_stream_is_done() {
    let scene = Scene::start("token-budget.yaml", &budgets("estimates", "")).await;
    let mut client = scene.tidegate.client().await;

    for user in ALGORITHMS {
        let entries = [("budget", "estimates"), ("user", user)];
        let ask = async |estimate| {
            scene
                .get("/estimated", &[("x-user", user), ("x-tokens-estimate", estimate)])
                .await
                .status
        };
        scene.service.answer_with(&[]);
        assert_eq!(ask("30").await, 200, "{user}");
        scene.service.answer_with(&[("x-tokens-unused", "50")]);
        assert_eq!(ask("60").await, 200, "{user}");
        budget_becomes(&mut client, &entries, |status| status.limit_remaining == 60).await;
        scene.service.answer_with(&[]);
        assert_eq!(ask("60").await, 200, "{user}: 40 are spent after the refund");
        assert_eq!(ask("1").await, 429, "{user}");
    }
}

#[tokio::test]
async fn a_changed_policy_changes_what_passes() {
    let scene = Scene::start("ratelimit.yaml", &tenants(&[("acme", "requests_per_unit: 1")])).await;
    assert_eq!(scene.as_tenant("acme").await.status, 200);
    assert_eq!(scene.as_tenant("acme").await.status, 429);

    scene.tidegate.replace_policy(&tenants(&[("acme", "requests_per_unit: 1000000")]));
    eventually("the raised limit", async || {
        (scene.as_tenant("acme").await.status == 200).then_some(())
    })
    .await;

    scene.tidegate.replace_policy(&tenants(&[("acme", "requests_per_unit: 0")]));
    eventually("the limit of zero", async || {
        (scene.as_tenant("acme").await.status == 429).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_example_refuses_within_a_few_requests() {
    let policy = std::fs::read_to_string("examples/envoy/policies/example.yaml").unwrap();
    let scene = Scene::start("ratelimit.yaml", &policy).await;
    let refusal = eventually("a refusal", async || {
        let answer = scene.as_tenant("initech").await;
        (answer.status == 429).then_some(answer)
    })
    .await;
    assert!(refusal.body.starts_with("slow down: 3 were allowed, again in "), "{refusal:?}");
    assert!(scene.service.n_requests() <= 6, "three, and three more if a minute has just begun");
}

#[tokio::test]
async fn requests_pass_when_tidegate_is_gone() {
    let mut scene =
        Scene::start("ratelimit.yaml", &tenants(&[("acme", "requests_per_unit: 0")])).await;
    assert_eq!(scene.as_tenant("acme").await.status, 429);

    scene.tidegate.kill();
    let answer = scene.as_tenant("acme").await;
    assert_eq!((answer.status, answer.header("x-ratelimit-limit")), (200, String::new()));
}

/// Asks through Envoy again and again until told to stop; how many were answered, and what was
/// neither served nor refused.
async fn load(envoy: SocketAddr, stop: CancellationToken) -> (u64, Vec<u16>) {
    let (mut n_answered, mut failed) = (0, Vec::new());
    while !stop.is_cancelled() {
        let tenant = if n_answered % 2 == 0 { "acme" } else { "blocked" };
        let answer = http::get(envoy, "/", &[("x-tenant", tenant)]).await;
        n_answered += 1;
        if answer.status != if tenant == "acme" { 200 } else { 429 } {
            failed.push(answer.status);
        }
    }
    (n_answered, failed)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_of_two_servers_under_load_fails_no_call() {
    let policy = tenants(&[("acme", "unlimited: true"), ("blocked", "requests_per_unit: 0")])
        .replace("unit: year, unlimited", "unlimited");
    // Envoy acts on a change of health up to a second late (`update_merge_window`).
    let drain = [("DRAIN_DELAY", "3s")];
    let mut servers =
        [Tidegate::start_with(&policy, &drain).await, Tidegate::start_with(&policy, &drain).await];
    let addresses = servers.each_ref().map(|server| server.grpc);
    let service = Upstream::start().await;
    let envoy = Envoy::start_before_two(service.address, addresses).await;
    for address in addresses {
        envoy.trusts(address).await;
    }
    let stop = CancellationToken::new();
    let clients: Vec<_> = (0..4).map(|_| tokio::spawn(load(envoy.address, stop.clone()))).collect();

    for (server, address) in servers.iter_mut().zip(addresses) {
        let before = service.n_requests();
        eventually("some calls", async || (service.n_requests() > before + 20).then_some(())).await;
        server.signal("TERM");
        assert_eq!(server.end().await.code(), Some(0));
        let log = server.log();
        assert!(!log.contains("not everything has finished in time"), "{log}");
        let port = address.port().to_string();
        let same_port = [drain.as_slice(), &[("GRPC_PORT", port.as_str())]].concat();
        *server = Tidegate::start_with(&policy, &same_port).await;
        envoy.trusts(address).await;
    }
    stop.cancel();
    let mut n_answered = 0;
    for client in clients {
        let (n, failed) = client.await.unwrap();
        assert!(failed.is_empty(), "{failed:?} of {n} calls\n{}", envoy.troubles().await);
        n_answered += n;
    }
    assert!(n_answered > 200, "{n_answered}");
}
