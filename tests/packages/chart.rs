//! The Helm chart, with several sets of values.

use crate::kubernetes::mean_the_pods;
use crate::manifests::{fit_kubernetes, one, parse, text, tool};
use crate::pod::Pod;
use crate::support::grpc::descriptor;
use crate::support::redis::Redis;
use crate::support::tidegate::PROGRAM;
use crate::{project, read, succeeds};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// What Helm makes of the chart, or why it refuses.
fn rendered(values: &Value) -> Result<Vec<Value>, String> {
    let mut command = Command::new(tool("python"));
    command.arg(project("tests/packages/render.py")).arg(project("charts/tidegate"));
    command.args(["limits", "edge"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut helm = command.spawn().unwrap();
    helm.stdin.take().unwrap().write_all(values.to_string().as_bytes()).unwrap();
    let output = helm.wait_with_output().unwrap();
    if output.status.success() {
        Ok(parse(&String::from_utf8(output.stdout).unwrap()))
    } else {
        Err(String::from_utf8(output.stderr).unwrap())
    }
}

#[track_caller]
fn made_of(values: &Value) -> Vec<Value> {
    rendered(values).unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn kinds(manifests: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<_> = manifests.iter().map(|manifest| text(&manifest["kind"])).collect();
    kinds.sort_unstable();
    kinds
}

/// Everything that can be switched on.
fn everything() -> Value {
    json!({
        "image": { "tag": "1.2.3" },
        "imagePullSecrets": [{ "name": "registry" }],
        "replicas": 3,
        "policies": { "a.yaml": policy("a"), "b.yaml": policy("b") },
        "redis": { "url": "redis-0:6379,redis-1:6379", "type": "cluster", "tls": true, "authSecret": "redis" },
        "tls": { "secret": "certificate", "clientCa": true, "clientSan": "envoy" },
        "idempotency": {
            "policy": read("config/idempotency.yaml"),
            "from": [{ "podSelector": { "matchLabels": { "app": "envoy" } } }],
            "envoySan": "spiffe://mesh/envoy",
        },
        "settings": { "LOG_LEVEL": "debug", "SHADOW_MODE": true, "MEMORY_MAX_BUCKETS": "2000000" },
        "metrics": { "serviceMonitor": true },
        "podAnnotations": { "team": "edge" },
        "nodeSelector": { "disk": "fast" },
        "tolerations": [{ "key": "edge", "operator": "Exists" }],
    })
}

fn policy(domain: &str) -> String {
    format!(
        "domain: {domain}\ndescriptors:\n  - key: user\n    rate_limit: {{ unit: day, \
         requests_per_unit: 5 }}\n"
    )
}

#[test]
fn the_chart_makes_sound_manifests_of_its_own_values() {
    let manifests = made_of(&json!({}));
    let expected = ["ConfigMap", "Deployment", "PodDisruptionBudget", "Service", "Service"];
    assert_eq!(kinds(&manifests), expected);
    are_sound(&manifests);
}

#[test]
fn the_chart_makes_sound_manifests_of_everything() {
    let manifests = made_of(&everything());
    let expected = [
        "ConfigMap",
        "ConfigMap",
        "Deployment",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Service",
        "Service",
        "ServiceMonitor",
    ];
    assert_eq!(kinds(&manifests), expected);
    are_sound(&manifests);

    let environment = Pod::of(&manifests).environment();
    for (name, value) in [
        ("REDIS_TYPE", "cluster"),
        ("REDIS_TLS", "true"),
        ("REDIS_AUTH_FILE", "/etc/tidegate/redis/auth"),
        ("LOCAL_FALLBACK_SHARE", "1/3"),
        ("GRPC_CLIENT_TLS_SAN", "envoy"),
        ("IDEMPOTENCY_CLIENT_TLS_CACERT", "/etc/tidegate/tls/ca.crt"),
        ("IDEMPOTENCY_CLIENT_TLS_SAN", "spiffe://mesh/envoy"),
        ("MEMORY_MAX_BUCKETS", "2000000"),
        ("SHADOW_MODE", "true"),
    ] {
        assert_eq!(environment.get(name), Some(&value), "{name}");
    }
    assert!(!environment.contains_key("IDEMPOTENCY_INSECURE"));
    let pod = &one(&manifests, "Deployment")["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["image"], "registry.example.com/tidegate:1.2.3");
    assert_eq!(pod["nodeSelector"]["disk"], "fast");
    let reached = &one(&manifests, "NetworkPolicy")["spec"]["ingress"][1];
    assert_eq!(reached["ports"][0]["port"], "idempotency");
    assert_eq!(reached["from"][0]["podSelector"]["matchLabels"]["app"], "envoy");
}

#[test]
fn the_filter_of_those_with_a_certificate_needs_no_network_policy() {
    let mut values = everything();
    values["idempotency"]["from"] = json!([]);
    let manifests = made_of(&values);
    assert!(!kinds(&manifests).contains(&"NetworkPolicy"));
    are_sound(&manifests);
}

#[test]
fn one_replica_may_do_without_redis() {
    let manifests = made_of(&json!({ "replicas": 1, "redis": { "url": "" } }));
    assert_eq!(kinds(&manifests), ["ConfigMap", "Deployment", "Service", "Service"]);
    are_sound(&manifests);
    let environment = Pod::of(&manifests).environment();
    assert!(environment.keys().all(|name| !name.starts_with("REDIS")), "{environment:?}");
}

fn are_sound(manifests: &[Value]) {
    fit_kubernetes(manifests);
    mean_the_pods(manifests);
    let pod = Pod::of(manifests);
    pod.is_sound();
    pod.has_sound_policies();
    pass_the_check(manifests);
}

/// As an operator checks what Helm has made.
fn pass_the_check(manifests: &[Value]) {
    let folder = TempDir::new().unwrap();
    let made = folder.path().join("made.yaml");
    let documents: Vec<_> = manifests.iter().map(Value::to_string).collect();
    fs::write(&made, documents.join("\n---\n")).unwrap();
    succeeds(Command::new(PROGRAM).args(["check", "--strict"]).arg(made));
}

#[test]
fn values_that_make_no_sense_are_refused() {
    for (values, reason) in [
        (json!({ "replica": 3 }), "additional properties 'replica' not allowed"),
        (json!({ "redis": { "url": "" } }), "redis.url is empty"),
        (json!({ "idempotency": { "policy": "x" } }), "idempotency.from is empty"),
        (json!({ "idempotency": { "policy": "x", "envoySan": "e" } }), "tls.secret is empty"),
        (json!({ "policies": { "a b": "x" } }), "invalid propertyName 'a b'"),
        (json!({ "settings": { "MEMORY_MAX_BUCKETS": 2_000_000 } }), "got number"),
        (json!({ "replicas": 0 }), "minimum"),
    ] {
        let refusal = rendered(&values).expect_err(&values.to_string());
        assert!(refusal.contains(reason), "{values}: {refusal}");
    }
}

#[test]
fn the_schema_knows_the_values_that_there_are() {
    let values: Value = serde_saphyr::from_str(&read("charts/tidegate/values.yaml")).unwrap();
    let schema: Value = serde_json::from_str(&read("charts/tidegate/values.schema.json")).unwrap();
    assert_same_names(&values, &schema, "");
}

/// What is closed in the schema has the same names in both.
fn assert_same_names(values: &Value, schema: &Value, path: &str) {
    if schema["additionalProperties"] != false {
        return;
    }
    let names = |value: &Value| -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    let mut known = names(&schema["properties"]);
    // Helm's own.
    known.remove("global");
    assert_eq!(names(values), known, "{path}");
    for name in known {
        assert_same_names(&values[&name], &schema["properties"][&name], &format!("{path}.{name}"));
    }
}

#[test]
fn the_chart_is_of_this_version() {
    let chart: Value = serde_saphyr::from_str(&read("charts/tidegate/Chart.yaml")).unwrap();
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
}

#[tokio::test]
async fn a_pod_of_the_chart_serves_with_its_environment() {
    let values = json!({
        "policies": { "a.yaml": policy("a") },
        "redis": { "authSecret": "redis" },
        "idempotency": { "policy": read("config/idempotency.yaml"), "from": [{ "podSelector": {} }] },
    });
    let redis = Redis::start_with(&["--requirepass", "secret"]).await;
    let manifests = made_of(&values);
    let pod = Pod::of(&manifests).start(&redis, "secret").await;
    let mut client = pod.tidegate.client().await;
    let status = client.status("a", descriptor(&[("user", "ann")])).await;
    assert_eq!(status.limit_remaining, 4);
}
