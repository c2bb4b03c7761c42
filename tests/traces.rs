//! Traces: what a collector is told of requests, and what it is not.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed test should panic"
)]

mod support;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use support::collector::{Collector, Received};
use support::grpc::{RateLimitDescriptor, channel, descriptor, request};
use support::http;
use support::tidegate::{Tidegate, refuses_to_start};

const POLICY: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 1 }
  - key: tenant
    value: acme
    rate_limit: { unlimited: true }
";

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

async fn start(collector: &Collector, settings: &[(&str, &str)]) -> Tidegate {
    let endpoint = format!("http://127.0.0.1:{}", collector.port);
    let traced = [
        ("TRACING_ENABLED", "true"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
        ("DRAIN_DELAY", "0s"),
    ];
    Tidegate::start_with(POLICY, &[&traced[..], settings].concat()).await
}

/// Asks as a traced Envoy does.
async fn ask(
    tidegate: &Tidegate,
    domain: &str,
    descriptors: Vec<RateLimitDescriptor>,
    parent: &str,
) {
    use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
    let mut asked = tonic::Request::new(request(domain, descriptors));
    asked.metadata_mut().insert("traceparent", parent.parse().unwrap());
    asked.metadata_mut().insert("tracestate", "vendor=x".parse().unwrap());
    let mut client = RateLimitServiceClient::new(channel(tidegate.grpc).await);
    // What is answered is not the subject here.
    let _ = client.should_rate_limit(asked).await;
}

/// Stops it, which sends what is left.
async fn stop(mut tidegate: Tidegate) -> Tidegate {
    tidegate.signal("TERM");
    assert!(tidegate.end().await.success());
    tidegate
}

fn spans(received: &Received) -> Vec<Span> {
    let request = received.decode();
    let scopes = request.resource_spans.into_iter().flat_map(|one| one.scope_spans);
    scopes.flat_map(|one| one.spans).collect()
}

fn text(text: &str) -> Value {
    Value::StringValue(text.to_owned())
}

fn attribute<'a>(attributes: &'a [KeyValue], name: &str) -> Option<&'a Value> {
    attributes.iter().find(|pair| pair.key == name)?.value.as_ref()?.value.as_ref()
}

fn texts(value: Option<&Value>) -> Vec<Value> {
    let Some(Value::ArrayValue(list)) = value else { panic!("{value:?}") };
    list.values.iter().map(|AnyValue { value }| value.clone().unwrap()).collect()
}

#[tokio::test]
async fn a_span_tells_of_a_request_over_both_protocols_and_holds_none_of_its_values() {
    for (protocol, path, content_type) in [
        ("http", "/v1/traces", "application/x-protobuf"),
        ("grpc", "/opentelemetry.proto.collector.trace.v1.TraceService/Export", "application/grpc"),
    ] {
        let mut collector = Collector::start(true).await;
        let settings = [
            ("TRACING_EXPORTER_PROTOCOL", protocol),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=two%20words"),
            ("TRACING_SERVICE_NAMESPACE", "edge"),
        ];
        let tidegate = start(&collector, &settings).await;
        let asked = || {
            let secret = [("user", "hunter2")];
            vec![descriptor(&secret), descriptor(&[("tenant", "acme")]), descriptor(&[("x", "y")])]
        };
        ask(&tidegate, "shop", asked(), PARENT).await;
        ask(&tidegate, "shop", asked(), PARENT).await;
        let tidegate = stop(tidegate).await;
        let received = collector.receive().await;
        assert_eq!(received.path, path, "{}", tidegate.log());
        assert_eq!(received.headers["content-type"], content_type);
        assert_eq!(received.headers["x-key"], "two words");
        assert!(!String::from_utf8_lossy(&received.bytes).contains("hunter2"));

        let resource = received.decode().resource_spans[0].resource.clone().unwrap().attributes;
        assert_eq!(attribute(&resource, "service.name"), Some(&text("RateLimit")));
        assert_eq!(attribute(&resource, "service.namespace"), Some(&text("edge")));
        assert!(attribute(&resource, "service.instance.id").is_some());
        let [_, refused] = &spans(&received)[..] else { panic!("two spans") };
        assert_eq!(
            (refused.trace_id[..2].to_vec(), refused.trace_id.len()),
            (vec![0x4b, 0xf9], 16)
        );
        assert_eq!(refused.parent_span_id[..2], [0x00, 0xf0]);
        assert_eq!((refused.span_id.len(), refused.trace_state.as_str()), (8, "vendor=x"));
        assert_eq!(refused.name, "ShouldRateLimit");
        assert_eq!((refused.kind(), refused.status.clone()), (SpanKind::Server, None));
        assert!(refused.end_time_unix_nano >= refused.start_time_unix_nano);
        let of = |name| attribute(&refused.attributes, name);
        assert_eq!(of("tidegate.domain"), Some(&text("shop")));
        assert_eq!(of("tidegate.code"), Some(&text("OVER_LIMIT")));
        assert_eq!(of("rpc.grpc.status_code"), Some(&Value::IntValue(0)));
        let list = ["shop.user", "shop.tenant_acme", ""].map(text);
        assert_eq!(texts(of("tidegate.rules")), list);
        assert_eq!(texts(of("tidegate.statuses")), ["OVER_LIMIT", "OK", "OK"].map(text));
        assert_eq!(texts(of("tidegate.decided_by")), ["store", "unlimited", "no_limit"].map(text));
    }
}

#[tokio::test]
async fn errors_and_unknown_domains_are_told_without_what_was_asked() {
    let mut collector = Collector::start(true).await;
    let tidegate = start(&collector, &[]).await;
    ask(&tidegate, "hunter2", vec![descriptor(&[("user", "ann")])], PARENT).await;
    ask(&tidegate, "hunter2", vec![], PARENT).await;
    stop(tidegate).await;
    let received = collector.receive().await;
    assert!(!String::from_utf8_lossy(&received.bytes).contains("hunter2"));
    let [unknown, error] = &spans(&received)[..] else { panic!("two spans") };
    assert_eq!(attribute(&unknown.attributes, "tidegate.domain"), None);
    assert_eq!(attribute(&unknown.attributes, "tidegate.code"), Some(&text("OK")));
    let status = error.status.clone().unwrap();
    assert_eq!(
        (status.code, &*status.message),
        (2, "rate limit descriptor list must not be empty")
    );
    let code = attribute(&error.attributes, "rpc.grpc.status_code");
    assert_eq!(code, Some(&Value::IntValue(3)));
}

#[tokio::test]
async fn what_its_caller_does_not_sample_is_not_traced() {
    let mut collector = Collector::start(true).await;
    let tidegate = start(&collector, &[("TRACING_SAMPLING_RATE", "0")]).await;
    let asked = || vec![descriptor(&[("user", "ann")])];
    ask(&tidegate, "shop", asked(), &PARENT.replace("-01", "-00")).await;
    ask(&tidegate, "shop", asked(), "nonsense").await;
    ask(&tidegate, "shop", asked(), PARENT).await;
    stop(tidegate).await;
    assert_eq!(spans(&collector.receive().await).len(), 1);
}

#[tokio::test]
async fn a_collector_that_takes_nothing_costs_no_request_anything() {
    for (protocol, said) in [("http", "status 503"), ("grpc", "gRPC status 14")] {
        let collector = Collector::start(false).await;
        let tidegate = start(&collector, &[("TRACING_EXPORTER_PROTOCOL", protocol)]).await;
        ask(&tidegate, "shop", vec![descriptor(&[("user", "ann")])], PARENT).await;
        let tidegate = stop(tidegate).await;
        assert!(tidegate.log().contains(said), "{}", tidegate.log());
    }
}

#[tokio::test]
async fn nothing_is_traced_unless_that_is_asked_for() {
    let collector = Collector::start(true).await;
    let tidegate = start(&collector, &[("TRACING_ENABLED", "false")]).await;
    assert_eq!(http::get(tidegate.http, "/healthcheck", &[]).await.status, 200);
    assert!(!tidegate.log().contains("traces"), "{}", tidegate.log());
}

#[tokio::test]
async fn an_authority_that_cannot_be_read_ends_the_start() {
    let (code, log) = refuses_to_start(&[
        ("TRACING_ENABLED", "true"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://localhost:4318"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "no/such/file.pem"),
    ])
    .await;
    assert_eq!(code, Some(1));
    assert!(log.contains("OTEL_EXPORTER_OTLP_CERTIFICATE"), "{log}");
}
