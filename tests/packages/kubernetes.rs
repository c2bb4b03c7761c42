//! The plain manifests.

use crate::manifests::{fit_kubernetes, list, named, of_file, of_folder, one, text};
use crate::pod::Pod;
use crate::support::eventually;
use crate::support::grpc::{descriptor, peek};
use crate::support::redis::Redis;
use serde_json::Value;

const FOLDER: &str = "examples/kubernetes";

#[test]
fn the_manifests_fit_kubernetes() {
    fit_kubernetes(&of_folder(FOLDER));
}

#[test]
fn the_pods_are_restricted_probed_where_they_serve_and_have_time_to_drain() {
    let manifests = of_folder(FOLDER);
    let pod = Pod::of(&manifests);
    pod.is_sound();
    pod.has_sound_policies();
}

#[test]
fn services_monitors_and_budgets_mean_the_pods() {
    let mut manifests = of_folder(FOLDER);
    manifests.extend(of_file("examples/kubernetes/prometheus-operator/servicemonitor.yaml"));
    mean_the_pods(&manifests);
}

/// Whatever selects pods or Services selects these, by ports that they have.
pub fn mean_the_pods(manifests: &[Value]) {
    let deployment = one(manifests, "Deployment");
    let pods = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_selects(&deployment["spec"]["selector"]["matchLabels"], pods);
    let pod = Pod::of(manifests);
    let services: Vec<_> = manifests.iter().filter(|one| one["kind"] == "Service").collect();
    assert!(!services.is_empty());
    for service in &services {
        assert_selects(&service["spec"]["selector"], pods);
        for port in list(&service["spec"]["ports"]) {
            let target = pod.port(text(&port["targetPort"]));
            assert_eq!(port["port"].as_u64(), Some(target), "{port}");
        }
    }
    for manifest in manifests {
        match text(&manifest["kind"]) {
            "PodDisruptionBudget" => {
                assert_selects(&manifest["spec"]["selector"]["matchLabels"], pods);
            }
            "NetworkPolicy" => {
                assert_selects(&manifest["spec"]["podSelector"]["matchLabels"], pods);
                for port in
                    list(&manifest["spec"]["ingress"]).iter().flat_map(|rule| list(&rule["ports"]))
                {
                    pod.port(text(&port["port"]));
                }
            }
            "ServiceMonitor" => {
                let selector = &manifest["spec"]["selector"]["matchLabels"];
                for service in &services {
                    assert_selects(selector, &service["metadata"]["labels"]);
                }
                assert_eq!(manifest["spec"]["endpoints"][0]["port"], "http");
            }
            _ => {}
        }
    }
}

#[track_caller]
fn assert_selects(selector: &Value, labels: &Value) {
    let selector = selector.as_object().unwrap();
    assert!(!selector.is_empty());
    for (name, value) in selector {
        assert_eq!(&labels[name], value, "{name}");
    }
}

#[tokio::test]
async fn a_pod_serves_with_its_environment_and_takes_up_a_changed_config_map() {
    let manifests = of_folder(FOLDER);
    let redis = Redis::start_with(&["--requirepass", "secret"]).await;
    let pod = Pod::of(&manifests).start(&redis, "secret").await;

    let mut client = pod.tidegate.client().await;
    let user = [("remote_address", "203.0.113.7")];
    assert_eq!(client.status("shop", descriptor(&user)).await.limit_remaining, 99);
    for probe in ["/livez", "/readyz"] {
        assert_eq!(pod.tidegate.get(probe).await.status, 200, "{probe}");
    }

    let policies = text(&named(&manifests, "ConfigMap", "tidegate-policies")["data"]["shop.yaml"]);
    let changed = policies.replace("requests_per_unit: 100", "requests_per_unit: 500");
    assert_ne!(policies, changed);
    pod.volumes.change("/etc/tidegate/policies", &[("shop.yaml".to_owned(), changed)]);
    eventually("the changed policy", async || {
        let status = client.status("shop", peek(&user)).await;
        (status.limit_remaining >= 499).then_some(())
    })
    .await;
}
