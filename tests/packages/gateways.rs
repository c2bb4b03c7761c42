//! The examples for Istio, Contour and Envoy Gateway, as far as they can be tried without these.

use crate::manifests::{fit_kubernetes, list, of_file, of_folder, one, parse, text};
use crate::support::envoy::Envoy;
use crate::support::http;
use crate::support::tidegate::{PROGRAM, Tidegate};
use crate::support::upstream::Upstream;
use crate::{project, reference, succeeds};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;

#[test]
fn the_policies_pass_the_check() {
    for gateway in ["istio", "contour"] {
        let path = project(&format!("examples/{gateway}/policies.yaml"));
        succeeds(Command::new(PROGRAM).args(["check", "--strict"]).arg(path));
    }
}

#[test]
fn what_is_kubernetess_own_in_them_fits_it() {
    for gateway in ["istio", "contour", "envoy-gateway"] {
        fit_kubernetes(&of_folder(&format!("examples/{gateway}")));
    }
}

/// The policies of a manifest, which holds one.
fn policy(path: &str) -> String {
    let manifests = of_file(path);
    let data = one(&manifests, "ConfigMap")["data"].as_object().unwrap();
    assert_eq!(data.len(), 1);
    text(data.values().next().unwrap()).to_owned()
}

/// What an `EnvoyFilter` adds to one kind of thing.
fn patch<'a>(filter: &'a Value, applies_to: &str) -> &'a Value {
    let patches = list(&filter["spec"]["configPatches"]);
    let patch = patches.iter().find(|patch| patch["applyTo"] == applies_to).unwrap();
    &patch["patch"]["value"]
}

/// A gateway as Istio makes it, with both patches as they stand in the file.
fn istio_gateway(filter: &Value, service: SocketAddr, tidegate: SocketAddr) -> Value {
    let mut limits = patch(filter, "HTTP_FILTER").clone();
    let config = &mut limits["typed_config"];
    // On a busy machine a late answer shall not count as none.
    assert_eq!(config["timeout"].take(), "0.1s");
    config["timeout"] = json!("20s");
    let cluster =
        config["rate_limit_service"]["grpc_service"]["envoy_grpc"]["cluster_name"].clone();
    let mut host = json!({
        "name": "all",
        "domains": ["*"],
        "routes": [{ "match": { "prefix": "/" }, "route": { "cluster": "service" } }],
    });
    let merged = patch(filter, "VIRTUAL_HOST").as_object().unwrap();
    host.as_object_mut().unwrap().extend(merged.clone());
    let type_of = |name: &str| format!("type.googleapis.com/envoy.extensions.{name}");
    let router = json!({
        "name": "envoy.filters.http.router",
        "typed_config": { "@type": type_of("filters.http.router.v3.Router") },
    });
    let manager = json!({
        "@type": type_of("filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "gateway",
        "use_remote_address": true,
        "route_config": { "virtual_hosts": [host] },
        "http_filters": [limits, router],
    });
    let chain = json!({
        "filters": [{ "name": "envoy.filters.network.http_connection_manager", "typed_config": manager }],
    });
    let http2 = json!({
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": type_of("upstreams.http.v3.HttpProtocolOptions"),
            "explicit_http_config": { "http2_protocol_options": {} },
        },
    });
    let mut limiter = cluster_of(&cluster, tidegate);
    limiter["typed_extension_protocol_options"] = http2;
    json!({
        "admin": { "address": address(0) },
        "static_resources": {
            "listeners": [{ "name": "gateway", "address": address(0), "filter_chains": [chain] }],
            "clusters": [cluster_of(&json!("service"), service), limiter],
        },
    })
}

fn address(port: u16) -> Value {
    json!({ "socket_address": { "address": "127.0.0.1", "port_value": port } })
}

fn cluster_of(name: &Value, server: SocketAddr) -> Value {
    let endpoint = json!({ "endpoint": { "address": address(server.port()) } });
    json!({
        "name": name,
        "type": "STATIC",
        "load_assignment": { "cluster_name": name, "endpoints": [{ "lb_endpoints": [endpoint] }] },
    })
}

#[tokio::test]
async fn a_real_envoy_with_the_patches_of_istio_is_limited() {
    let manifests = of_file("examples/istio/envoyfilter.yaml");
    let service = Upstream::start().await;
    // A window of a year, so that the test does not see the end of one.
    let policy = policy("examples/istio/policies.yaml").replace("unit: minute", "unit: year");
    let tidegate = Tidegate::start(&policy).await;
    let config = istio_gateway(one(&manifests, "EnvoyFilter"), service.address, tidegate.grpc);
    let envoy = Envoy::start_from(&config.to_string()).await;

    let mut statuses = Vec::new();
    for n in 0..4 {
        let answer = http::get(envoy.address, &format!("/login?try={n}"), &[]).await;
        statuses.push(answer.status);
        assert!(answer.header("x-ratelimit-limit").starts_with("3, 3;w=31536000"), "{answer:?}");
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
    assert_eq!(http::get(envoy.address, "/api/items", &[]).await.status, 200);
    let by_address = "ratelimit_service_rate_limit_within_limit";
    assert!(tidegate.sum(by_address, "key1=\"remote_address\"").await >= 4.0);
    assert!(tidegate.sum(by_address, "key1=\"PATH_/api/*\"").await >= 1.0);
}

/// The cluster that Istio names after a Service is that of `examples/kubernetes`.
#[test]
fn istio_is_sent_to_the_service_that_there_is() {
    let manifests = of_file("examples/istio/envoyfilter.yaml");
    let config = &patch(one(&manifests, "EnvoyFilter"), "HTTP_FILTER")["typed_config"];
    let cluster = &config["rate_limit_service"]["grpc_service"]["envoy_grpc"]["cluster_name"];
    assert_eq!(cluster, "outbound|8081||tidegate.default.svc.cluster.local");
    has_a_service("tidegate", 8081);
    let policies = of_file("examples/istio/policies.yaml");
    assert_eq!(one(&policies, "ConfigMap")["metadata"]["name"], "tidegate-policies");
}

fn has_a_service(name: &str, port: u64) {
    let manifests = of_folder("examples/kubernetes");
    let service = crate::manifests::named(&manifests, "Service", name);
    assert!(list(&service["spec"]["ports"]).iter().any(|found| found["port"] == port));
}

/// An entry as Contour makes it, with a value of a client.
fn entry(entry: &Value) -> String {
    let (kind, of) = entry.as_object().unwrap().iter().next().unwrap();
    match kind.as_str() {
        "remoteAddress" => "remote_address=203.0.113.7".to_owned(),
        "requestHeader" => format!("{}=acme", text(&of["descriptorKey"])),
        "genericKey" => {
            format!("{}={}", of["key"].as_str().unwrap_or("generic_key"), text(&of["value"]))
        }
        other => panic!("{other}"),
    }
}

#[test]
fn every_descriptor_of_contours_example_has_a_limit() {
    let manifests = of_folder("examples/contour");
    let spec = &one(&manifests, "HTTPProxy")["spec"];
    let routes = list(&spec["routes"]).iter().map(|route| &route["rateLimitPolicy"]);
    let policies = routes.chain([&spec["virtualhost"]["rateLimitPolicy"]]);
    let descriptors: BTreeSet<String> = policies
        .filter(|policy| !policy.is_null())
        .flat_map(|policy| list(&policy["global"]["descriptors"]))
        .map(|descriptor| {
            list(&descriptor["entries"]).iter().map(entry).collect::<Vec<_>>().join(",")
        })
        .collect();
    assert_eq!(descriptors.len(), 3, "{descriptors:?}");

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("policy.yaml"), policy("examples/contour/policies.yaml"))
        .unwrap();
    let contour = parse(&text_of_config(&manifests));
    let domain = text(&contour[0]["rateLimitService"]["domain"]);
    for descriptor in descriptors {
        let mut command = Command::new(PROGRAM);
        let printed =
            succeeds(command.arg("explain").arg(folder.path()).args([domain, &descriptor]));
        assert!(printed.contains("\nrule `contour."), "{printed}");
    }
}

/// Contour's configuration file.
fn text_of_config(manifests: &[Value]) -> String {
    let config = crate::manifests::named(manifests, "ConfigMap", "contour");
    text(&config["data"]["contour.yaml"]).to_owned()
}

#[test]
fn contour_is_sent_to_the_service_that_there_is() {
    let manifests = of_folder("examples/contour");
    let extension = one(&manifests, "ExtensionService");
    let name = format!(
        "{}/{}",
        text(&extension["metadata"]["namespace"]),
        text(&extension["metadata"]["name"])
    );
    let contour = parse(&text_of_config(&manifests));
    assert_eq!(contour[0]["rateLimitService"]["extensionService"], name);
    let service = &extension["spec"]["services"][0];
    has_a_service(text(&service["name"]), service["port"].as_u64().unwrap());
}

#[test]
fn the_settings_that_envoy_gateway_is_to_hand_on_exist() {
    let manifests = of_file("examples/envoy-gateway/envoy-gateway.yaml");
    let config = parse(text(&one(&manifests, "ConfigMap")["data"]["envoy-gateway.yaml"]));
    let config = one(&config, "EnvoyGateway");
    let container = &config["provider"]["kubernetes"]["rateLimitDeployment"]["container"];
    let variables = list(&container["env"]);
    assert!(!variables.is_empty());
    let mut command = Command::new(PROGRAM);
    command.arg("settings").env_clear();
    for variable in variables {
        let (name, value) = (text(&variable["name"]), text(&variable["value"]));
        assert!(reference::settings().contains(name), "there is no setting {name}");
        command.env(name, value);
    }
    succeeds(&mut command);
}
