//! Policies over xDS: what Envoy Gateway sends, and what no server should.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::float_cmp,
    reason = "a failed test should panic, and counts are whole numbers"
)]

mod support;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;
use support::authority::Authority;
use support::eventually;
use support::grpc::{Code, descriptor, request};
use support::redis::free_port;
use support::tidegate::{Tidegate, refuses_to_start};
use support::xds::{Any, Unit, XdsServer, above, limit, policy, response};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};
use tokio_stream::StreamExt;

/// Tries again soon.
const IMPATIENT: [(&str, &str); 3] = [
    ("CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "20ms"),
    ("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "20ms"),
    ("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "100ms"),
];

/// Tidegate as a client of that server, whether or not there is one.
async fn client_of(server: SocketAddr, settings: &[(&str, &str)]) -> Tidegate {
    let address = server.to_string();
    let from = [("CONFIG_TYPE", "GRPC_XDS_SOTW"), ("CONFIG_GRPC_XDS_SERVER_URL", &address)];
    Tidegate::start_unready("", &[&from[..], &IMPATIENT, settings].concat()).await
}

fn nobody() -> SocketAddr {
    ([127, 0, 0, 1], free_port()).into()
}

/// What is left of a limit after a hit.
async fn remaining(tidegate: &Tidegate, domain: &str, entries: &[(&str, &str)]) -> Option<u32> {
    let status = tidegate.client().await.status(domain, descriptor(entries)).await;
    status.current_limit.map(|_| status.limit_remaining)
}

/// Why a request gets no answer.
async fn failure(tidegate: &Tidegate) -> tonic::Code {
    let asked = request("a", vec![descriptor(&[("user", "ann")])]);
    tidegate.client().await.ask(asked).await.unwrap_err().code()
}

async fn is_ready(tidegate: &Tidegate) -> bool {
    tidegate.get("/healthcheck").await.status == 200
}

async fn logs(tidegate: &Tidegate, what: &str) {
    eventually(&format!("`{what}` in the log"), async || {
        tidegate.log().contains(what).then_some(())
    })
    .await;
}

#[tokio::test]
async fn policies_as_envoy_gateway_sends_them_are_enforced() {
    let route = "httproute/default/shop/rule/0/match/0/shop_example_com";
    let network = above(
        "masked_remote_address",
        "192.168.0.0/16",
        vec![limit("remote_address", "", Unit::Year, 2)],
    );
    let listener = policy(
        "default/gateway/http",
        vec![above(
            route,
            route,
            vec![
                above(
                    "rule-0-match-0",
                    "rule-0-match-0",
                    vec![limit("rule-0-match-1", "rule-0-match-1", Unit::Month, 3)],
                ),
                above("rule-1-match-0", "rule-1-match-0", vec![network]),
                limit("rule-2-match-0", "", Unit::Hour, 5),
                limit("rule-2-match-0", "premium", Unit::Hour, 50),
                limit("rule-3-match--1", "rule-3-match--1", Unit::Day, 7),
            ],
        )],
    );
    let server = XdsServer::start().await;
    server.publish("1", &[listener, policy("default/gateway/unused", vec![])]);
    let tidegate = client_of(server.address, &[]).await;
    tidegate.ready().await;
    server.accepted("1").await;

    let left = async |rest: &[(&str, &str)]| {
        let entries = [&[(route, route)], rest].concat();
        remaining(&tidegate, "default/gateway/http", &entries).await
    };
    let both = [("rule-0-match-0", "rule-0-match-0"), ("rule-0-match-1", "rule-0-match-1")];
    assert_eq!(left(&both).await, Some(2));
    assert_eq!(left(&both).await, Some(1));
    assert_eq!(left(&both[..1]).await, None);
    let network =
        [("rule-1-match-0", "rule-1-match-0"), ("masked_remote_address", "192.168.0.0/16")];
    for (address, expected) in [("192.168.1.1", 1), ("192.168.1.1", 0), ("192.168.1.2", 1)] {
        assert_eq!(
            left(&[&network[..], &[("remote_address", address)]].concat()).await,
            Some(expected)
        );
    }
    assert_eq!(left(&[("rule-2-match-0", "anyone")]).await, Some(4));
    assert_eq!(left(&[("rule-2-match-0", "premium")]).await, Some(49));
    assert_eq!(left(&[("rule-3-match--1", "rule-3-match--1")]).await, Some(6));

    let mut client = tidegate.client().await;
    let month = [&[(route, route)], &both[..]].concat();
    client.status("default/gateway/http", descriptor(&month)).await;
    let refused = client.status("default/gateway/http", descriptor(&month)).await;
    assert_eq!(refused.code(), Code::OverLimit);
    assert_eq!(refused.current_limit.unwrap().unit, 5, "MONTH as the protocol numbers it");
    let metrics = tidegate.get("/metrics").await.body;
    let connected = format!("tidegate_xds_connected{{server=\"{}\"}} 1", server.address);
    assert!(metrics.contains(&connected), "{metrics}");
}

#[tokio::test]
async fn the_server_learns_who_asks() {
    let server = XdsServer::start().await;
    server.publish("1", &[]);
    let _tidegate = client_of(
        server.address,
        &[
            ("CONFIG_GRPC_XDS_NODE_ID", "envoy-ratelimit"),
            ("CONFIG_GRPC_XDS_NODE_METADATA", "zone=a, cluster=b=c"),
            ("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "authorization:Bearer a:b,x-team: blue"),
        ],
    )
    .await;
    server.accepted("1").await;
    let said = server.said();
    let node = said[0].node.clone().unwrap();
    assert_eq!((node.id.as_str(), node.user_agent_name.as_str()), ("envoy-ratelimit", "tidegate"));
    let fields = node.metadata.unwrap().fields;
    assert_eq!(fields.len(), 2, "{fields:?}");
    assert_eq!((said[0].version_info.as_str(), said[0].response_nonce.as_str()), ("", ""));
    assert!(said[0].resource_names.is_empty());
    assert_eq!((said[1].version_info.as_str(), said[1].response_nonce.as_str()), ("1", "1"));
    let headers = server.headers();
    assert_eq!(headers.get("authorization").unwrap(), "Bearer a:b");
    assert_eq!(headers.get("x-team").unwrap(), "blue");
}

#[tokio::test]
async fn each_set_replaces_the_one_before_and_an_empty_one_is_a_set() {
    let server = XdsServer::start().await;
    server.publish("1", &[policy("a", vec![limit("user", "", Unit::Year, 9)])]);
    let tidegate = client_of(server.address, &[]).await;
    tidegate.ready().await;
    assert_eq!(remaining(&tidegate, "a", &[("user", "ann")]).await, Some(8));

    server.publish("2", &[policy("b", vec![limit("user", "", Unit::Year, 4)])]);
    server.accepted("2").await;
    assert_eq!(remaining(&tidegate, "a", &[("user", "ann")]).await, None);
    assert_eq!(remaining(&tidegate, "b", &[("user", "ann")]).await, Some(3));

    server.publish("3", &[]);
    server.accepted("3").await;
    assert_eq!(remaining(&tidegate, "b", &[("user", "ann")]).await, None);
    assert!(is_ready(&tidegate).await);
    assert_eq!(tidegate.metric("ratelimit_service_config_load_success").await, 3.0);

    server.publish("4", &[policy("a", vec![limit("user", "", Unit::Year, 9)])]);
    server.accepted("4").await;
    assert_eq!(remaining(&tidegate, "a", &[("user", "ann")]).await, Some(7), "counts stay");
}

#[tokio::test]
async fn a_faulty_set_is_refused_as_a_whole_with_the_report_and_heals() {
    let good = policy("a", vec![limit("user", "", Unit::Year, 9)]);
    let server = XdsServer::start().await;
    server.publish("1", std::slice::from_ref(&good));
    let tidegate = client_of(server.address, &[]).await;
    tidegate.ready().await;

    let twice = policy("b", vec![limit("user", "", Unit::Year, 4)]);
    let again = {
        let mut again = twice.clone();
        again.name = "other".to_owned();
        again
    };
    server.publish("2", &[twice, again]);
    let refusal = server.refusal(0).await;
    assert!(refusal.starts_with("other: error: duplicate domain 'b'"), "{refusal}");
    assert!(tidegate.log().contains(refusal.lines().next().unwrap()), "{}", tidegate.log());
    assert_eq!(remaining(&tidegate, "a", &[("user", "ann")]).await, Some(8));
    assert_eq!(remaining(&tidegate, "b", &[("user", "ann")]).await, None);
    let last = server.said().pop().unwrap();
    assert_eq!(last.version_info, "1", "the version in force, beside why the other is not");

    server.publish("3", &[policy("b", vec![limit("", "x", Unit::Unknown, 4)]), good.clone()]);
    let found = eventually("the next report", async || {
        Some(server.refusal(server.n_refusals() - 1).await).filter(|text| text != &refusal)
    });
    let found = found.await;
    assert!(found.contains("descriptor has empty key") && found.contains("unit"), "{found}");

    server.publish("4", &[policy("b", vec![limit("user", "", Unit::Year, 4)]), good]);
    server.accepted("4").await;
    assert_eq!(remaining(&tidegate, "b", &[("user", "ann")]).await, Some(3));
    assert_eq!(tidegate.metric("ratelimit_service_config_load_error").await, 2.0);
}

#[tokio::test]
async fn one_domain_in_two_resources_is_merged_if_that_is_wished() {
    let server = XdsServer::start().await;
    let mut other = policy("a", vec![limit("path", "", Unit::Year, 4)]);
    other.name = "other".to_owned();
    server.publish("1", &[policy("a", vec![limit("user", "", Unit::Year, 9)]), other]);
    let tidegate = client_of(server.address, &[("MERGE_DOMAIN_CONFIG", "true")]).await;
    tidegate.ready().await;
    assert_eq!(remaining(&tidegate, "a", &[("user", "ann")]).await, Some(8));
    assert_eq!(remaining(&tidegate, "a", &[("path", "/")]).await, Some(3));
}

#[tokio::test]
async fn what_is_no_policy_is_refused_and_harms_nothing() {
    let good = policy("a", vec![limit("user", "", Unit::Year, 9)]);
    let server = XdsServer::start().await;
    server.publish("1", std::slice::from_ref(&good));
    let tidegate = client_of(server.address, &[]).await;
    tidegate.ready().await;

    let mut unknown = response("2", &[]);
    unknown.type_url = "type.googleapis.com/envoy.config.cluster.v3.Cluster".to_owned();
    server.send(unknown);
    let refusal = server.refusal(0).await;
    assert!(refusal.contains("envoy.config.cluster.v3.Cluster"), "{refusal}");

    let mut garbage = response("3", &[good]);
    let bytes = vec![0xff; 100];
    garbage.resources.push(Any { value: bytes, ..garbage.resources[0].clone() });
    server.send(garbage);
    eventually("garbage to be refused", async || {
        let refusal = server.refusal(server.n_refusals() - 1).await;
        refusal.contains("resource 1: error: not a RateLimitConfig").then_some(())
    })
    .await;
    assert_eq!(remaining(&tidegate, "a", &[("user", "ann")]).await, Some(8));
    assert!(is_ready(&tidegate).await);
}

#[tokio::test]
async fn a_server_that_sends_a_refused_set_again_at_once_does_not_keep_us_busy() {
    let server = XdsServer::start().await;
    server.publish("1", &[policy("", vec![])]);
    let tidegate = client_of(server.address, &[]).await;
    server.refusal(0).await;
    let began = Instant::now();
    server.refusal(2).await;
    assert!(began.elapsed().as_secs_f32() > 1.0, "{:?}", began.elapsed());
    assert_eq!(tidegate.log().matches("policies are faulty").count(), 1);
    assert_eq!(tidegate.metric("ratelimit_service_config_load_error").await, 1.0);
    assert!(!is_ready(&tidegate).await, "no policies were ever in force");
}

#[tokio::test]
async fn a_server_that_is_not_there_at_the_start_is_waited_for() {
    let address = nobody();
    let tidegate = client_of(address, &[]).await;
    logs(&tidegate, "it cannot be reached").await;
    assert!(!is_ready(&tidegate).await);
    assert_eq!(failure(&tidegate).await, tonic::Code::Unavailable);

    let server = XdsServer::start_on(address, None).await;
    server.publish("1", &[policy("a", vec![limit("user", "", Unit::Year, 9)])]);
    tidegate.ready().await;
    assert_eq!(remaining(&tidegate, "a", &[("user", "ann")]).await, Some(8));
}

#[tokio::test]
async fn readiness_is_what_the_settings_ask_for() {
    let forced = ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true");
    let needs_one = ("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "true");
    let tidegate = client_of(nobody(), &[forced]).await;
    tidegate.ready().await;
    assert_eq!(failure(&tidegate).await, tonic::Code::Unavailable);

    let server = XdsServer::start().await;
    server.publish("1", &[]);
    let tidegate = client_of(server.address, &[forced, needs_one]).await;
    server.accepted("1").await;
    assert!(!is_ready(&tidegate).await);
    server.publish("2", &[policy("a", vec![])]);
    tidegate.ready().await;
    server.publish("3", &[]);
    eventually("it to be unready", async || (!is_ready(&tidegate).await).then_some(())).await;
}

#[tokio::test]
async fn a_server_that_comes_back_with_versions_of_old_is_asked_for_everything() {
    let server = XdsServer::start().await;
    server.publish("1", &[policy("a", vec![limit("user", "", Unit::Year, 9)])]);
    let tidegate = client_of(server.address, &[]).await;
    server.accepted("1").await;
    let address = server.address;
    drop(server);
    logs(&tidegate, "no stream; policies in force stay").await;
    assert_eq!(remaining(&tidegate, "a", &[("user", "ann")]).await, Some(8));
    assert!(is_ready(&tidegate).await);

    let server =
        eventually("the port to be free", async || TcpListener::bind(address).await.ok().map(drop));
    server.await;
    let server = XdsServer::start_on(address, None).await;
    server.publish("1", &[policy("a", vec![limit("user", "", Unit::Year, 4)])]);
    server.accepted("1").await;
    assert_eq!(remaining(&tidegate, "a", &[("user", "bob")]).await, Some(3));
    assert_eq!((server.said()[0].version_info.as_str(), server.n_streams()), ("", 1));
}

/// Sends half of a message to the first who asks, and hangs up.
async fn half_a_message(listener: TcpListener) {
    let (stream, _) = listener.accept().await.unwrap();
    let answer = service_fn(|_: Request<Incoming>| async {
        let half = Bytes::from_static(&[0, 0, 0, 0x10, 0, b'1', b'2']);
        let frames = tokio_stream::once(Ok::<_, Infallible>(half));
        let body = Body::from_stream(frames.chain(tokio_stream::pending()));
        Response::builder().header("content-type", "application/grpc").body(body)
    });
    let connection = http2::Builder::new(TokioExecutor::new());
    let connection = connection.serve_connection(TokioIo::new(stream), answer);
    let _ = timeout(Duration::from_millis(300), connection).await;
}

#[tokio::test]
async fn a_server_that_hangs_up_within_a_message_is_tried_again() {
    let address = nobody();
    let listener = TcpListener::bind(address).await.unwrap();
    let tidegate = client_of(address, &[]).await;
    half_a_message(listener).await;
    logs(&tidegate, "the stream broke").await;
    let server = XdsServer::start_on(address, None).await;
    server.publish("1", &[policy("a", vec![limit("user", "", Unit::Year, 9)])]);
    tidegate.ready().await;
}

#[tokio::test]
async fn a_server_that_speaks_something_else_is_tried_again() {
    let address = nobody();
    let listener = TcpListener::bind(address).await.unwrap();
    let tidegate = client_of(address, &[]).await;
    for noise in ["HTTP/1.1 400 Bad Request\r\n\r\n", "\0\0\0\0", "SSH-2.0-x\r\n"] {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(noise.as_bytes()).await.unwrap();
    }
    drop(listener);
    // A gRPC server that knows nothing of xDS.
    let listener = TcpListener::bind(address).await.unwrap();
    let task = tokio::spawn(async move { axum::serve(listener, Router::new()).await });
    logs(&tidegate, "the stream broke").await;
    task.abort();
    let _ = task.await;
    let server =
        eventually("the port to be free", async || TcpListener::bind(address).await.ok().map(drop));
    server.await;
    let server = XdsServer::start_on(address, None).await;
    server.publish("1", &[policy("a", vec![limit("user", "", Unit::Year, 9)])]);
    tidegate.ready().await;
}

#[tokio::test]
async fn a_message_that_is_too_large_is_not_taken() {
    let large = policy("a", vec![limit(&"k".repeat(2000), "", Unit::Year, 9)]);
    let server = XdsServer::start().await;
    server.publish("1", &[large]);
    let tidegate = client_of(server.address, &[("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "1000")]).await;
    logs(&tidegate, "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES").await;
    server.publish("2", &[policy("a", vec![])]);
    tidegate.ready().await;
}

#[tokio::test]
async fn an_open_stream_does_not_delay_the_end() {
    let server = XdsServer::start().await;
    let mut tidegate = client_of(server.address, &[("DRAIN_DELAY", "0s")]).await;
    logs(&tidegate, "xDS: connected").await;
    tidegate.signal("TERM");
    assert!(tidegate.end().await.success());
    assert!(!tidegate.log().contains("not everything has finished"), "{}", tidegate.log());
}

#[tokio::test]
async fn tls_is_spoken_with_our_certificate_and_the_name_that_is_set() {
    let authority = Authority::new();
    let shown = authority.issue("server", "control-plane.example");
    let (cert, key) = authority.issue("client", "tidegate.example");
    let ca = authority.ca();
    let server = XdsServer::start_on(nobody(), Some(authority.acceptor(&shown))).await;
    server.publish("1", &[policy("a", vec![limit("user", "", Unit::Year, 9)])]);
    let tls = [
        ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
        ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", &ca),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", &cert),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", &key),
    ];
    let name = ("CONFIG_GRPC_XDS_SERVER_TLS_SAN", "control-plane.example");
    let tidegate = client_of(server.address, &[&tls[..], &[name]].concat()).await;
    tidegate.ready().await;
    assert_eq!(remaining(&tidegate, "a", &[("user", "ann")]).await, Some(8));

    let by_another_name = client_of(server.address, &tls).await;
    logs(&by_another_name, "TLS: ").await;
    let without_ours = client_of(server.address, &[&tls[..2], &[name]].concat()).await;
    logs(&without_ours, "CertificateRequired").await;
    let stranger = Authority::new();
    let strange = stranger.ca();
    let mut untrusted = [&tls[..], &[name]].concat();
    untrusted[1].1 = &strange;
    let untrusted = client_of(server.address, &untrusted).await;
    logs(&untrusted, "invalid peer certificate").await;
    assert!(!is_ready(&untrusted).await);
}

#[tokio::test]
async fn certificates_are_read_again_for_each_connection() {
    let (old, new) = (Authority::new(), Authority::new());
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    let (client, key) = (folder.path().join("client.pem"), folder.path().join("client.key"));
    let renew = |authority: &Authority| {
        authority.issue("client", "tidegate.example");
        fs::copy(authority.file("ca.pem"), &ca).unwrap();
        fs::copy(authority.file("client.pem"), &client).unwrap();
        fs::copy(authority.file("client.key"), &key).unwrap();
        authority.acceptor(&authority.issue("server", "localhost"))
    };
    let acceptor = renew(&old);
    let address = nobody();
    let server = XdsServer::start_on(address, Some(acceptor)).await;
    server.publish("1", &[]);
    let tidegate = client_of(
        address,
        &[
            ("CONFIG_GRPC_XDS_SERVER_URL", &format!("localhost:{}", address.port())),
            ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
            ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", ca.to_str().unwrap()),
            ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", client.to_str().unwrap()),
            ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", key.to_str().unwrap()),
        ],
    )
    .await;
    server.accepted("1").await;
    drop(server);
    fs::remove_file(&key).unwrap();
    logs(&tidegate, "CONFIG_GRPC_XDS_CLIENT_TLS_KEY").await;
    let acceptor = renew(&new);
    let server =
        eventually("the port to be free", async || TcpListener::bind(address).await.ok().map(drop));
    server.await;
    let server = XdsServer::start_on(address, Some(acceptor)).await;
    server.publish("1", &[]);
    server.accepted("1").await;
}

#[tokio::test]
async fn certificates_that_cannot_be_used_end_the_start() {
    let authority = Authority::new();
    let (cert, _) = authority.issue("client", "tidegate.example");
    let (_, key) = authority.issue("other", "tidegate.example");
    let missing = authority.file("missing.pem").display().to_string();
    for (settings, expected) in [
        (vec![("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", missing.as_str())], "SERVER_TLS_CACERT"),
        (vec![("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", &key)], "no certificate in PEM"),
        (vec![("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", &cert)], "CONFIG_GRPC_XDS_CLIENT_TLS_KEY"),
        (
            vec![
                ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", &cert),
                ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", &key),
            ],
            "CONFIG_GRPC_XDS_CLIENT_TLS_CERT",
        ),
        (vec![("CONFIG_GRPC_XDS_SERVER_TLS_SAN", "no name")], "CONFIG_GRPC_XDS_SERVER_TLS_SAN"),
    ] {
        let tls = [("CONFIG_TYPE", "GRPC_XDS_SOTW"), ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true")];
        let (code, log) = refuses_to_start(&[&tls[..], &settings].concat()).await;
        assert_eq!(code, Some(1), "{log}");
        assert!(log.contains(expected), "{expected}: {log}");
    }
}
