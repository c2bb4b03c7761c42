//! What the idempotency filter costs behind a real Envoy: the median of a request without it, of one
//! without a key, of a claim and of a replay, in memory and in Redis; and the memory of requests under
//! way. `cargo bench --bench idempotency`

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    dead_code,
    unreachable_pub,
    missing_debug_implementations,
    reason = "a program for people"
)]

#[path = "../tests/idempotency/scene.rs"]
mod scene;
#[path = "../tests/idempotency/service.rs"]
mod service;
#[path = "../tests/support/mod.rs"]
mod support;

use futures_util::future::join_all;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use scene::{NO_LIMITS, POLICY, Setting};
use service::Service;
use std::net::SocketAddr;
use std::time::Duration;
use support::envoy::{Envoy, changed};
use support::redis::Redis;
use support::tidegate::Tidegate;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Requests of each kind.
const N: usize = 3000;

/// Requests under way at once.
const IN_FLIGHT: usize = 2000;

#[tokio::main(flavor = "multi_thread")]
async fn main() {
    let redis = Redis::start().await;
    let url = redis.address();
    println!("{N} requests of each kind, one after the other; medians in µs");
    println!("{:10} {:>8} {:>8} {:>8} {:>8}", "store", "direct", "no key", "claim", "replay");
    measure("memory", &[]).await;
    let before = redis.info("used_memory").await;
    measure("redis", &[("REDIS_URL", &url)]).await;
    let n_keys: u64 = redis.ask(&["DBSIZE"]).await;
    let taken = redis.info("used_memory").await.saturating_sub(before);
    println!(
        "redis holds {n_keys} operations of small answers, {} bytes each",
        taken / n_keys.max(1)
    );
    let n_calls = redis.calls("evalsha").await + redis.calls("eval").await;
    println!("{:.2} calls of scripts for each claim and replay", n_calls as f64 / (2 * N) as f64);
    for (name, settings) in [("memory", &[][..]), ("redis", &[("REDIS_URL", url.as_str())])] {
        under_way(name, settings).await;
    }
}

async fn start(settings: &[(&str, &str)]) -> (Service, Tidegate, Envoy, TempDir) {
    let service = Service::start().await;
    let folder = TempDir::new().unwrap();
    let setting =
        Setting { policy: Some(POLICY), settings: settings.to_vec(), ..Setting::default() };
    let tidegate = scene::tidegate(&folder, &setting).await;
    tidegate.ready().await;
    let filter = tidegate.address_of("idempotency").await;
    let envoy = scene::envoy(service.address, tidegate.grpc, filter, &[]).await;
    (service, tidegate, envoy, folder)
}

/// An Envoy with the rate-limit filter alone.
async fn without_filter(service: SocketAddr, limits: SocketAddr) -> Envoy {
    let text = changed(
        "idempotency.yaml",
        &[
            ("port_value: 9901 }", "port_value: 0 }".to_owned()),
            ("port_value: 10000 }", "port_value: 0 }".to_owned()),
            ("port_value: 8000 }", format!("port_value: {} }}", service.port())),
            ("port_value: 8081 }", format!("port_value: {} }}", limits.port())),
        ],
    );
    let from = text.find("                  - name: envoy.filters.http.ext_proc").unwrap();
    let to = text.find("                  - name: envoy.filters.http.router").unwrap();
    Envoy::start_from(&format!("{}{}", &text[..from], &text[to..])).await
}

async fn measure(name: &str, settings: &[(&str, &str)]) {
    let (service, tidegate, envoy, _folder) = start(settings).await;
    let bare = without_filter(service.address, tidegate.grpc).await;
    let none = |_| None;
    let keyed = |n: usize| Some(format!("key-{n}"));
    // Warm, then in turns, so that a busy moment meets all of them.
    median(envoy.address, 200, none).await;
    median(bare.address, 200, none).await;
    let direct = median(bare.address, N, none).await;
    let without_key = median(envoy.address, N, none).await;
    let claim = median(envoy.address, N, keyed).await;
    let replay = median(envoy.address, N, keyed).await;
    println!("{name:10} {direct:>8} {without_key:>8} {claim:>8} {replay:>8}");
    println!("{:10} replay / claim = {:.2}", "", replay as f64 / claim as f64);
}

async fn connect(server: SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(server).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn post(sender: &mut SendRequest<Full<Bytes>>, path: &str, key: Option<String>) -> u16 {
    let mut request = Request::post(path).header("host", "test").header("x-user", "ann");
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let request = request.body(Full::from("{\"amount\":5}")).unwrap();
    sender.ready().await.unwrap();
    let response = sender.send_request(request).await.unwrap();
    let status = response.status().as_u16();
    response.into_body().collect().await.unwrap();
    status
}

/// The median in microseconds.
async fn median(server: SocketAddr, n: usize, key: impl Fn(usize) -> Option<String>) -> u128 {
    let mut sender = connect(server).await;
    let mut took = Vec::with_capacity(n);
    for at in 0..n {
        let began = Instant::now();
        assert_eq!(post(&mut sender, "/pay", key(at)).await, 201);
        took.push(began.elapsed());
    }
    took.sort_unstable();
    took.get(n / 2).map_or(0, Duration::as_micros)
}

/// What requests under way take of Tidegate's memory.
async fn under_way(name: &str, settings: &[(&str, &str)]) {
    let (service, tidegate, envoy, _folder) = start(settings).await;
    let mut warm = connect(envoy.address).await;
    for n in 0..200 {
        post(&mut warm, "/pay", Some(format!("warm-{n}"))).await;
    }
    let before = tidegate.metric("process_resident_memory_bytes").await;
    let asking = (0..IN_FLIGHT).map(|n| {
        let server = envoy.address;
        async move {
            let mut sender = connect(server).await;
            post(&mut sender, "/slow", Some(format!("slow-{n}"))).await
        }
    });
    let asking = tokio::spawn(join_all(asking.collect::<Vec<_>>()));
    support::eventually("all of them to run", async || {
        (service.n_ran() >= 200 + IN_FLIGHT).then_some(())
    })
    .await;
    let taken = tidegate.metric("process_resident_memory_bytes").await - before;
    let n = tidegate.metric("tidegate_idempotency_inflight").await;
    service.open_gate();
    let answers = asking.await.unwrap();
    let n_refused = answers.iter().filter(|status| **status != 201).count();
    println!(
        "{name}: {n} under way, {n_refused} refused, {:.1} KiB of memory each",
        taken / 1024.0 / IN_FLIGHT as f64
    );
    let _ = NO_LIMITS;
}
