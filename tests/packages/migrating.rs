//! What the page about migrating proposes: Envoy asks Tidegate beside another server, which decides.

use crate::read;
use crate::support::envoy::Envoy;
use crate::support::http;
use crate::support::markdown::blocks;
use crate::support::tidegate::Tidegate;
use crate::support::upstream::Upstream;
use serde_json::{Value, json};
use std::net::SocketAddr;

const POLICY: &str = "domain: example\ndescriptors:\n  - key: remote_address\n    \
    rate_limit: { unit: year, requests_per_unit: 2 }\n";

/// Envoy's filter as it stands in the page.
fn filter_of_the_page() -> Value {
    let page = read("docs/migrating.md");
    let found = blocks(&page).into_iter().find(|block| block.text.contains("tidegate-shadow"));
    let filters: Value = serde_saphyr::from_str(&found.unwrap().text).unwrap();
    filters[0].clone()
}

fn lead(cluster: &mut Value, to: SocketAddr) {
    let endpoint = &mut cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"];
    endpoint["address"]["socket_address"]["port_value"] = json!(to.port());
}

/// The bootstrap that people copy, with that filter before its own.
fn envoy_that_asks_both(service: SocketAddr, old: SocketAddr, new: SocketAddr) -> Value {
    let mut envoy: Value = serde_saphyr::from_str(&read("envoy/ratelimit.yaml")).unwrap();
    envoy["admin"]["address"]["socket_address"]["port_value"] = json!(0);
    let resources = &mut envoy["static_resources"];
    let listener = &mut resources["listeners"][0];
    listener["address"]["socket_address"]["port_value"] = json!(0);
    let manager = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
    let filters = manager["http_filters"].as_array_mut().unwrap();

    let mut shadow = filter_of_the_page();
    shadow["typed_config"]["domain"] = json!("example");
    let server = &mut shadow["typed_config"]["rate_limit_service"]["grpc_service"];
    server["envoy_grpc"]["cluster_name"] = json!("shadow");
    filters.insert(0, shadow);
    for filter in &mut filters[..2] {
        // On a busy machine a late answer shall not count as none.
        filter["typed_config"]["timeout"] = json!("20s");
    }

    let clusters = resources["clusters"].as_array_mut().unwrap();
    lead(&mut clusters[0], service);
    let mut cluster = clusters[1].clone();
    lead(&mut clusters[1], old);
    lead(&mut cluster, new);
    cluster["name"] = json!("shadow");
    cluster["load_assignment"]["cluster_name"] = json!("shadow");
    clusters.push(cluster);
    envoy
}

#[tokio::test]
async fn a_second_filter_asks_tidegate_too_and_clients_do_not_notice() {
    let service = Upstream::start().await;
    let old = Tidegate::start(POLICY).await;
    let new = Tidegate::start_with(POLICY, &[("SHADOW_MODE", "true")]).await;
    let config = envoy_that_asks_both(service.address, old.grpc, new.grpc);
    let envoy = Envoy::start_from(&config.to_string()).await;

    let mut statuses = Vec::new();
    for _ in 0..4 {
        let answer = http::get(envoy.address, "/", &[]).await;
        statuses.push(answer.status);
        let refused = answer.status == 429;
        assert_eq!(answer.header("x-envoy-ratelimited"), if refused { "true" } else { "" });
        assert!(!answer.header("retry-after").contains(','), "{answer:?}");
        assert!(answer.header("x-ratelimit-limit").starts_with("2, 2;w="), "{answer:?}");
    }
    assert_eq!(statuses, [200, 200, 429, 429]);
    for series in ["total_hits", "within_limit", "over_limit"] {
        let series = format!("ratelimit_service_rate_limit_{series}");
        let counted = async |server: &Tidegate| server.sum(&series, "").await.to_string();
        assert_eq!(counted(&new).await, counted(&old).await, "{series}");
    }
    let seen = http::get(envoy.admin, "/stats?filter=ratelimit", &[]).await.body;
    assert!(seen.contains("cluster.service.ratelimit.shadow.ok: 4"), "{seen}");
}
