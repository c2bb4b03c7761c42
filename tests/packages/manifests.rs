//! Kubernetes manifests, as they are read and as Kubernetes checks them.

use crate::{project, read, run};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// The oldest and the newest Kubernetes that is checked against.
const VERSIONS: [&str; 2] = ["1.25", "1.37"];

/// Groups of resources that Kubernetes itself does not know.
const FOREIGN: [&str; 4] = [
    "monitoring.coreos.com/",
    "networking.istio.io/",
    "projectcontour.io/",
    "gateway.envoyproxy.io/",
];

/// The documents of a text.
pub fn parse(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Those of a file.
pub fn of_file(path: &str) -> Vec<Value> {
    parse(&read(path))
}

/// Those of the files directly in a folder.
pub fn of_folder(path: &str) -> Vec<Value> {
    let mut files: Vec<_> =
        fs::read_dir(project(path)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    files.iter().flat_map(|file| parse(&fs::read_to_string(file).unwrap())).collect()
}

/// The only one of its kind.
#[track_caller]
pub fn one<'a>(manifests: &'a [Value], kind: &str) -> &'a Value {
    let found: Vec<_> = manifests.iter().filter(|manifest| manifest["kind"] == kind).collect();
    assert_eq!(found.len(), 1, "{kind}");
    found[0]
}

/// The one of its kind with a name.
#[track_caller]
pub fn named<'a>(manifests: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let is_it =
        |manifest: &&Value| manifest["kind"] == kind && manifest["metadata"]["name"] == name;
    manifests.iter().find(is_it).unwrap_or_else(|| panic!("there is no {kind} {name}"))
}

/// A list that must be there.
#[track_caller]
pub fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

/// A text that must be there.
#[track_caller]
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// Checks against the schemas of Kubernetes, strictly: what it would drop is a fault.
#[track_caller]
pub fn fit_kubernetes(manifests: &[Value]) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("manifests.yaml");
    let documents: Vec<_> = manifests.iter().map(Value::to_string).collect();
    fs::write(&path, documents.join("\n---\n")).unwrap();
    let is_foreign = |manifest: &&Value| {
        FOREIGN.iter().any(|group| text(&manifest["apiVersion"]).starts_with(group))
    };
    let n_own = manifests.len() - manifests.iter().filter(is_foreign).count();
    assert!(n_own > 0);
    for version in VERSIONS {
        let mut command = Command::new(tool("kubernetes-validate"));
        let (output, printed) = run(command.args(["--strict", "-k", version]).arg(&path));
        let n_passed = printed.matches(" passed for resource ").count();
        assert!(output.status.success() && n_passed == n_own, "{printed}");
    }
}

/// A program that `charts/install` brings.
pub fn tool(name: &str) -> PathBuf {
    let chosen = std::env::var_os("CHART_TOOLS").filter(|chosen| !chosen.is_empty());
    let home = chosen.map_or_else(|| project(".tools/charts"), PathBuf::from);
    let program = home.join("bin").join(name);
    assert!(
        program.exists(),
        "no {}: `tests/run` installs it (or charts/install), or set CHART_TOOLS",
        program.display()
    );
    program
}

#[test]
fn what_kubernetes_would_drop_or_refuse_is_a_fault() {
    let service = |spec: &str| {
        parse(&format!("apiVersion: v1\nkind: Service\nmetadata: {{ name: x }}\nspec: {spec}\n"))
    };
    let fits =
        |manifests: Vec<Value>| std::panic::catch_unwind(|| fit_kubernetes(&manifests)).is_ok();
    assert!(fits(service("{ selector: { app: x }, ports: [{ port: 80 }] }")));
    assert!(!fits(service("{ selectors: { app: x }, ports: [{ port: 80 }] }")));
    assert!(!fits(service("{ selector: { app: x }, ports: [{ port: http }] }")));
    assert!(!fits(parse("apiVersion: apps/v2\nkind: Deployment\nmetadata: { name: x }\n")));
}
