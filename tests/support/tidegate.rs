//! The server under test, started as an operator would: the built binary, policies in a folder.

use super::http::{self, Answer};
use super::process::Process;
use super::{eventually, grpc};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::{fs, net::IpAddr};
use tempfile::TempDir;

/// The built program.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

/// A running Tidegate with its own policy folder.
pub struct Tidegate {
    process: Process,
    folder: TempDir,
    /// Where it serves the rate-limit API.
    pub grpc: SocketAddr,
    /// Where it serves `/json`, `/metrics` and health.
    pub http: SocketAddr,
    /// Where it serves the admin endpoints.
    pub admin: SocketAddr,
}

impl Tidegate {
    /// Starts it with one policy file and waits until it is ready.
    pub async fn start(policy: &str) -> Self {
        Self::start_with(policy, &[]).await
    }

    /// The same with settings.
    pub async fn start_with(policy: &str, settings: &[(&str, &str)]) -> Self {
        let tidegate = Self::start_unready(policy, settings).await;
        tidegate.ready().await;
        tidegate
    }

    /// Starts it and waits only until its ports are bound.
    pub async fn start_unready(policy: &str, settings: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        let policies = folder.path().join("policies");
        fs::create_dir(&policies).unwrap();
        fs::write(policies.join("policy.yaml"), policy).unwrap();
        let policies = policies.into_os_string().into_string().unwrap();

        let settings = [&[("POLICIES", policies.as_str())], settings].concat();
        Self::run(Path::new(PROGRAM), folder, &settings).await
    }

    /// Runs the program under one of its names and waits until its ports are bound.
    pub async fn run(program: &Path, folder: TempDir, settings: &[(&str, &str)]) -> Self {
        let mut process = spawn(program, settings);
        let [grpc, http, admin] = eventually("the addresses in tidegate's log", async || {
            if let Some(status) = process.ended() {
                panic!("tidegate ended at its start: {status}");
            }
            let log = process.log();
            let addresses = ["grpc", "http", "admin"].map(|server| bound_address(&log, server));
            addresses.iter().all(Option::is_some).then(|| addresses.map(Option::unwrap))
        })
        .await;
        Self { process, folder, grpc, http, admin }
    }

    /// Waits until it says that it is ready.
    pub async fn ready(&self) {
        eventually("tidegate to be ready", async || {
            let answer = http::try_get(self.http, "/healthcheck").await.ok()?;
            (answer.status == 200).then_some(())
        })
        .await;
    }

    /// The folder that it reads policies from.
    pub fn policies(&self) -> PathBuf {
        self.folder.path().join("policies")
    }

    /// Replaces its policy file, as one step.
    pub fn replace_policy(&self, policy: &str) {
        let draft = self.folder.path().join("draft.yaml");
        fs::write(&draft, policy).unwrap();
        fs::rename(draft, self.policies().join("policy.yaml")).unwrap();
    }

    /// A client of its rate-limit API.
    pub async fn client(&self) -> grpc::Client {
        grpc::connect(self.grpc).await
    }

    /// The answer to a GET on its HTTP port.
    pub async fn get(&self, path: &str) -> Answer {
        http::get(self.http, path, &[]).await
    }

    /// The value of a metric without labels; zero if it is not there.
    pub async fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").await.body;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.trim().parse().unwrap())
    }

    /// The sum of all series of a metric whose labels hold this text.
    pub async fn sum(&self, name: &str, labels: &str) -> f64 {
        let text = self.get("/metrics").await.body;
        let series = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
        let found =
            series.filter_map(|line| line.rsplit_once(' ')).filter(|(l, _)| l.contains(labels));
        found.map(|(_, value)| value.parse::<f64>().unwrap()).sum()
    }

    /// Memory that it has in use, in KiB.
    pub fn resident_kib(&self) -> u64 {
        self.process.resident_kib()
    }

    /// Where it serves something else, by the word for it in the log.
    pub async fn address_of(&self, server: &str) -> SocketAddr {
        eventually(&format!("the address of {server} in tidegate's log"), async || {
            bound_address(&self.log(), server)
        })
        .await
    }

    /// All that it has printed so far.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Sends a signal, by its name without `SIG`.
    pub fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Waits for its end.
    pub async fn end(&mut self) -> ExitStatus {
        self.process.end().await
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}

/// Runs it with settings that should make it give up; its exit code and what it printed.
pub async fn refuses_to_start(settings: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut process = spawn(Path::new(PROGRAM), settings);
    let status = process.end().await;
    (status.code(), process.log())
}

fn spawn(program: &Path, settings: &[(&str, &str)]) -> Process {
    let mut command = Command::new(program);
    command
        .env_clear()
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .envs([("HOST", "127.0.0.1"), ("GRPC_HOST", "127.0.0.1"), ("DEBUG_HOST", "127.0.0.1")])
        .envs([("PORT", "0"), ("GRPC_PORT", "0"), ("DEBUG_PORT", "0")])
        .envs(settings.iter().copied());
    Process::start("tidegate", &mut command)
}

/// The first address on a line of the log that names the server.
fn bound_address(log: &str, server: &str) -> Option<SocketAddr> {
    let in_line = |line: &str| {
        line.to_lowercase()
            .split(|c: char| c.is_whitespace() || "=/,\"()".contains(c))
            .find_map(|word| word.parse::<SocketAddr>().ok())
    };
    let names_server = |line: &&str| {
        line.to_lowercase().split(|c: char| !c.is_alphanumeric()).any(|word| word == server)
    };
    log.lines().filter(names_server).find_map(in_line).map(reachable)
}

fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    address
}
