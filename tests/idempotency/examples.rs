//! The examples of `examples/idempotency` and `examples/fenced`, as their readers run them.

use crate::scene::{POLICY, Scene};
use crate::service::Ran;
use crate::support::envoy::binary;
use crate::support::http::{self, Answer};
use crate::support::process::Process;
use crate::support::redis::free_port;
use crate::support::tidegate::PROGRAM;
use crate::support::{PATIENCE, eventually};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::timeout;

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The resource that refuses stale fences.
struct Resource {
    _process: Process,
    address: SocketAddr,
}

impl Resource {
    /// With its payments in this file.
    async fn start(database: &Path) -> Self {
        let mut command = Command::new("python3");
        command.arg(project("examples/fenced/resource.py")).arg("0").arg(database);
        let process = Process::start("resource", &mut command);
        let address = eventually("the resource's address", async || {
            process.log().trim().rsplit_once(' ')?.1.parse().ok()
        })
        .await;
        Self { _process: process, address }
    }

    async fn pay(&self, operation: &str, fence: &str) -> Answer {
        let headers = [("x-idempotency-operation", operation), ("x-idempotency-fence", fence)];
        http::ask(self.address, "POST", "/payments", &headers, "10 EUR").await
    }

    /// What the service was sent, delivered.
    async fn deliver(&self, ran: &Ran) -> Answer {
        let header = |name: &str| ran.headers[name].to_str().unwrap();
        self.pay(header("x-idempotency-operation"), header("x-idempotency-fence")).await
    }
}

fn is_stale(answer: &Answer) -> bool {
    (answer.status, answer.header("idempotency-result").as_str()) == (409, "hold")
}

#[tokio::test]
async fn the_resource_refuses_an_attempt_that_was_taken_over() {
    let folder = TempDir::new().unwrap();
    let resource = Resource::start(&folder.path().join("payments")).await;
    let takeover = "defaults:\n    lease: 1s\n    retention: 1m\n    on_lease_expired: takeover";
    let scene = Scene::start(&POLICY.replace("defaults:", takeover)).await;
    assert_eq!(scene.post("/reset", "k", "").await.status, 503);
    eventually("a second attempt", async || {
        scene.post("/reset", "k", "").await;
        (scene.service.n_ran() == 2).then_some(())
    })
    .await;
    let ran = scene.service.ran();
    let (late, newer) = (&ran[0], &ran[1]);
    let paid = resource.deliver(newer).await;
    assert_eq!((paid.status, paid.body.as_str()), (201, "{\"payment\": 1}"));
    let refused = resource.deliver(late).await;
    assert!(is_stale(&refused), "{refused:?}");
    assert_eq!(resource.deliver(newer).await.body, paid.body, "it is the same attempt");
}

#[tokio::test]
async fn the_resource_pays_once_and_outlives_its_process() {
    let folder = TempDir::new().unwrap();
    let database = folder.path().join("payments");
    let resource = Resource::start(&database).await;
    let attempts = (1..=20).map(|n| {
        let (resource, fence) = (&resource, n.to_string());
        async move { resource.pay("order", &fence).await }
    });
    let answers = futures_util::future::join_all(attempts).await;
    for answer in &answers {
        assert!(answer.body == "{\"payment\": 1}" || is_stale(answer), "{answer:?}");
    }
    assert_eq!(answers[19].status, 201, "the highest is never refused");
    drop(resource);
    let resource = Resource::start(&database).await;
    assert!(is_stale(&resource.pay("order", "19").await));
    assert_eq!(resource.pay("order", "20").await.body, "{\"payment\": 1}");
    assert_eq!(resource.pay("another", "1").await.body, "{\"payment\": 2}");
    for fence in ["", "-1", "one", "1e3", "12345678901234567890"] {
        assert_eq!(resource.pay("order", fence).await.status, 400, "{fence}");
    }
}

#[test]
fn the_resource_shows_what_its_readme_says() {
    let output = Command::new(project("examples/fenced/run")).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let readme = fs::read_to_string(project("examples/fenced/README.md")).unwrap();
    assert!(readme.contains(&format!("```\n{shown}```\n")), "{shown}{errors}");
}

/// The ports that the example needs, each with one that is free.
fn free_ports() -> BTreeMap<&'static str, u16> {
    let ports = ["6070", "8000", "8080", "8081", "8082", "9901", "10000"];
    ports.into_iter().map(|port| (port, free_port())).collect()
}

/// A text with other ports.
fn moved(text: &str, ports: &BTreeMap<&'static str, u16>) -> String {
    let is_digit = |c: char| c.is_ascii_digit();
    let mut moved = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(is_digit) {
        let (before, number) = rest.split_at(at);
        let (number, after) =
            number.split_at(number.find(|c| !is_digit(c)).unwrap_or(number.len()));
        moved += before;
        moved += &ports.get(number).map_or(number.to_owned(), ToString::to_string);
        rest = after;
    }
    moved + rest
}

/// Copies what the example consists of, so that it runs on these ports.
fn copied(folder: &Path, ports: &BTreeMap<&'static str, u16>) {
    for file in [
        "envoy/idempotency.yaml",
        "envoy/install",
        "examples/idempotency/idempotency.yaml",
        "examples/idempotency/policies/example.yaml",
        "examples/idempotency/run",
        "examples/idempotency/service.py",
    ] {
        let (from, to) = (project(file), folder.join(file));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(&to, moved(&fs::read_to_string(&from).unwrap(), ports)).unwrap();
        fs::set_permissions(&to, fs::metadata(&from).unwrap().permissions()).unwrap();
    }
    // What the example would build is there.
    let cargo = folder.join("cargo");
    fs::write(&cargo, format!("#!/bin/sh\n[ \"$1\" = build ] || exec '{PROGRAM}'\n")).unwrap();
    fs::set_permissions(&cargo, Permissions::from_mode(0o755)).unwrap();
}

/// The example as it runs.
struct Example(Process);

impl Example {
    fn start(folder: &Path, ports: &BTreeMap<&'static str, u16>) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = [folder.to_owned()].into_iter().chain(std::env::split_paths(&path));
        let mut command = Command::new(folder.join("examples/idempotency/run"));
        command
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("ENVOY_BIN", binary())
            .env("PORT", ports["8080"].to_string())
            .env("GRPC_PORT", ports["8081"].to_string())
            .env("DEBUG_PORT", ports["6070"].to_string())
            .env("IDEMPOTENCY_ADDR", format!("127.0.0.1:{}", ports["8082"]));
        Self(Process::start("example", &mut command))
    }
}

impl Drop for Example {
    /// It ends what it has started only if it is asked to.
    fn drop(&mut self) {
        if self.0.ended().is_none() {
            self.0.signal("INT");
            self.0.wait();
        }
    }
}

#[tokio::test]
async fn the_example_books_a_payment_once() {
    let (folder, ports) = (TempDir::new().unwrap(), free_ports());
    copied(folder.path(), &ports);
    let mut example = Example::start(folder.path(), &ports);
    eventually("the end of the show", async || {
        assert!(example.0.ended().is_none(), "it ended too early");
        example.0.log().contains("Ctrl-C ends").then_some(())
    })
    .await;
    let log = example.0.log();
    let part = |from: &str, to: &str| {
        log.split_once(from).and_then(|(_, rest)| rest.split_once(to)).map_or("", |(part, _)| part)
    };
    let during = part("while the first still runs:", "the first:");
    assert!(during.contains("HTTP/1.1 409") && during.contains("in-progress"), "{log}");
    let first = part("\nthe first:", "the same again");
    assert!(first.contains("HTTP/1.1 201") && first.contains("{\"payment\": 1}"), "{log}");
    let again = part("the same again", "another payment");
    assert!(again.contains("idempotent-replayed: true"), "{log}");
    assert!(again.contains("{\"payment\": 1}"), "{log}");
    let other = part("another payment", "Now it is yours");
    assert!(other.contains("HTTP/1.1 422") && other.contains("key-reused"), "{log}");
    example.0.signal("INT");
    assert_eq!(example.0.end().await.code(), Some(130));
    for port in ports.values() {
        let connecting = TcpStream::connect((Ipv4Addr::LOCALHOST, *port));
        assert!(timeout(PATIENCE, connecting).await.unwrap().is_err(), "{port} is still in use");
    }
}
