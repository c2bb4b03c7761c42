//! Real Redis servers on free ports: single, replica, sentinel, cluster, TLS.

use super::eventually;
use super::process::Process;
use ::redis::{Client, Cmd, FromRedisValue, RedisResult, cmd};
use std::ffi::OsStr;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;
use tokio::net::TcpStream;

/// A running redis-server.
pub struct Redis {
    pub process: Process,
    /// The port, also where it speaks TLS.
    pub port: u16,
    /// Its folder.
    pub folder: TempDir,
    arguments: Vec<String>,
}

/// Six nodes of a cluster: three masters, then their replicas.
pub struct RedisCluster {
    pub nodes: Vec<Redis>,
}

impl Redis {
    /// A server that keeps nothing on disk.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same with further arguments.
    pub async fn start_with(arguments: &[&str]) -> Self {
        let port = free_port();
        let number = port.to_string();
        let redis = Self::spawn(port, &[&["--port", &number], arguments].concat());
        redis.ready().await;
        redis
    }

    /// A server on a port that was chosen before.
    pub async fn start_at(port: u16) -> Self {
        let redis = Self::spawn(port, &["--port", &port.to_string()]);
        redis.ready().await;
        redis
    }

    /// A server that speaks TLS only.
    pub async fn start_tls(arguments: &[&str]) -> Self {
        let port = free_port();
        let tls_port = port.to_string();
        let mut all = vec!["--port", "0", "--tls-port", &tls_port];
        all.extend(arguments);
        let redis = Self::spawn(port, &all);
        eventually("a server that speaks TLS", async || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.ok().map(|_| ())
        })
        .await;
        redis
    }

    fn spawn(port: u16, arguments: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let rest = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        let arguments: Vec<String> =
            arguments.iter().chain(&rest).map(|&argument| argument.into()).collect();
        let process = launch(&arguments, folder.path());
        Self { process, port, folder, arguments }
    }

    /// A sentinel that watches over a master under the name `mymaster`.
    pub async fn sentinel(master: &Self) -> Self {
        let port = free_port();
        let folder = TempDir::new().unwrap();
        let config = folder.path().join("sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\n\
             sentinel monitor mymaster 127.0.0.1 {} 1\n\
             sentinel down-after-milliseconds mymaster 500\n\
             sentinel failover-timeout mymaster 2000\n",
            master.port
        );
        std::fs::write(&config, text).unwrap();
        let arguments = vec![config.display().to_string(), "--sentinel".into()];
        let process = launch(&arguments, folder.path());
        let sentinel = Self { process, port, folder, arguments };
        sentinel.ready().await;
        sentinel
    }

    /// Starts it again after it was killed, on the same port.
    pub async fn restart(&mut self) {
        self.process.kill();
        self.process = launch(&self.arguments, self.folder.path());
        self.ready().await;
    }

    /// Where it listens, as `host:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Waits until it answers; an error is an answer.
    pub async fn ready(&self) {
        let what = format!("redis-server on port {}", self.port);
        eventually(&what, async || match self.try_ask::<String>(&mut cmd("PING")).await {
            Err(error) if error.is_io_error() => None,
            _ => Some(()),
        })
        .await;
    }

    /// Asks it something.
    pub async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = Cmd::new();
        command.arg(words);
        let answer = self.try_ask(&mut command).await;
        answer.unwrap_or_else(|error| panic!("{words:?} on {}: {error}", self.port))
    }

    /// Asks it something that it may refuse.
    pub async fn try_ask<T: FromRedisValue>(&self, command: &mut Cmd) -> RedisResult<T> {
        let client = Client::open(format!("redis://{}/", self.address())).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await?;
        command.query_async(&mut connection).await
    }

    /// Its keys.
    pub async fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.ask(&["KEYS", "*"]).await;
        keys.sort();
        keys
    }

    /// How many connections named `tidegate` it has.
    pub async fn connections(&self) -> usize {
        let list: String = self.ask(&["CLIENT", "LIST"]).await;
        list.lines().filter(|line| line.contains(" name=tidegate ")).count()
    }

    /// A number of `INFO`, such as `used_memory`.
    pub async fn info(&self, name: &str) -> u64 {
        let info: String = self.ask(&["INFO", "all"]).await;
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {name} in INFO")).parse().unwrap()
    }

    /// How often a command was called, those inside of scripts included.
    pub async fn calls(&self, command: &str) -> u64 {
        let info: String = self.ask(&["INFO", "commandstats"]).await;
        let name = format!("cmdstat_{command}:calls=");
        let line = info.lines().find_map(|line| line.strip_prefix(&name)?.split(',').next());
        line.map_or(0, |n| n.parse().unwrap())
    }
}

impl RedisCluster {
    /// Three masters, each with a replica.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same with further arguments for each node.
    pub async fn start_with(arguments: &[&str]) -> Self {
        let mut all = vec!["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"];
        all.extend(arguments);
        let mut nodes = Vec::new();
        for _ in 0..6 {
            nodes.push(Redis::start_with(&all).await);
        }
        let cluster = Self { nodes };
        let mut create = vec!["--cluster".to_owned(), "create".to_owned()];
        create.extend(cluster.nodes.iter().map(Redis::address));
        create.extend(["--cluster-replicas", "1", "--cluster-yes"].map(Into::into));
        redis_cli(&create);
        for node in &cluster.nodes {
            eventually("a cluster that is whole", async || {
                let info: String = node.ask(&["CLUSTER", "INFO"]).await;
                let replicas: String = node.ask(&["CLUSTER", "NODES"]).await;
                let n_replicas = replicas.lines().filter(|line| line.contains("slave")).count();
                (info.contains("cluster_state:ok") && n_replicas == 3).then_some(())
            })
            .await;
        }
        for replica in cluster.nodes.iter().skip(3) {
            eventually("a replica that follows", async || {
                let info: String = replica.ask(&["INFO", "replication"]).await;
                info.contains("master_link_status:up").then_some(())
            })
            .await;
        }
        cluster
    }

    /// Tells a shard's replica to take over, and waits until it has.
    pub async fn fail_over(&self, master: usize) {
        let replica = self.replica_of(master).await;
        let _: String = self.nodes[replica].ask(&["CLUSTER", "FAILOVER"]).await;
        eventually("the new master", async || {
            let role: Vec<::redis::Value> = self.nodes[replica].ask(&["ROLE"]).await;
            (role.first() == Some(&::redis::Value::BulkString(b"master".to_vec()))).then_some(())
        })
        .await;
    }

    /// The replica of a master, by their places among the nodes.
    pub async fn replica_of(&self, master: usize) -> usize {
        let id = self.id(master).await;
        for at in 3..self.nodes.len() {
            let Ok(nodes) = self.nodes[at].try_ask::<String>(cmd("CLUSTER").arg("NODES")).await
            else {
                continue;
            };
            if nodes.lines().any(|line| line.contains("myself,slave") && line.contains(&id)) {
                return at;
            }
        }
        panic!("node {master} has no replica");
    }

    /// The slot of a key.
    pub async fn slot_of(&self, key: &str) -> u16 {
        self.nodes[0].ask(&["CLUSTER", "KEYSLOT", key]).await
    }

    /// Moves slots from one master to another, as an operator does, and waits until all nodes know.
    pub async fn reshard(&self, from: usize, to: usize, n_slots: u16) {
        let mut arguments = vec!["--cluster".to_owned(), "reshard".to_owned()];
        arguments.extend([
            self.nodes[from].address(),
            "--cluster-from".into(),
            self.id(from).await,
        ]);
        arguments.extend(["--cluster-to".into(), self.id(to).await, "--cluster-yes".into()]);
        arguments.extend(["--cluster-slots".into(), n_slots.to_string()]);
        let moving = tokio::task::spawn_blocking(move || redis_cli(&arguments));
        moving.await.unwrap();
        let check = ["--cluster".to_owned(), "check".to_owned(), self.nodes[from].address()];
        eventually("all nodes to agree who serves which slot", async || {
            let check = check.clone();
            let checking = tokio::task::spawn_blocking(move || run_redis_cli(&check));
            checking.await.unwrap().ok()
        })
        .await;
    }

    /// Every node, as `host:port`.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(Redis::address).collect()
    }

    /// The master of a slot, by its place among the nodes.
    pub async fn master_of(&self, slot: u16) -> usize {
        for (at, node) in self.nodes.iter().enumerate() {
            let Ok(nodes) = node.try_ask::<String>(cmd("CLUSTER").arg("NODES")).await else {
                continue;
            };
            let me = nodes.lines().find(|line| line.contains("myself,master"));
            let slots = me.into_iter().flat_map(|line| line.split(' ').skip(8));
            if slots.filter(|range| !range.starts_with('[')).any(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                (first.parse().unwrap()..=last.parse().unwrap()).contains(&slot)
            }) {
                return at;
            }
        }
        panic!("nobody serves slot {slot}");
    }

    /// The name by which a node is known to the others.
    pub async fn id(&self, node: usize) -> String {
        self.nodes[node].ask(&["CLUSTER", "MYID"]).await
    }
}

/// Runs redis-cli to its end.
fn redis_cli(arguments: &[String]) {
    run_redis_cli(arguments).unwrap_or_else(|text| panic!("redis-cli {arguments:?}:\n{text}"));
}

/// The same; what it printed, if it fails.
fn run_redis_cli(arguments: &[String]) -> Result<(), String> {
    let output = Command::new("redis-cli").args(arguments).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("redis-cli: {error}; {ADVICE}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(()) } else { Err(text) }
}

const ADVICE: &str = "`apt-get install redis-server` brings it";

/// The variable that names another server to test with, such as a `valkey-server`.
const SERVER: &str = "REDIS_SERVER";

fn launch(arguments: &[String], folder: &Path) -> Process {
    let server = std::env::var_os(SERVER).unwrap_or_else(|| "redis-server".into());
    assert!(found(&server), "no {} in PATH; {ADVICE}", server.display());
    Process::start("redis-server", Command::new(&server).args(arguments).current_dir(folder))
}

fn found(program: &OsStr) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder: PathBuf| folder.join(program))
        .any(|file| file.exists())
}

/// A port that is free, as is the one 10,000 above it, where a cluster's node talks to the others.
/// Both lie below those that the system hands out.
pub fn free_port() -> u16 {
    let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let mut ports = std::iter::repeat_with(|| fastrand::u16(10_100..22_000));
    ports.find(|port| is_free(*port) && is_free(*port + 10_000)).unwrap()
}
