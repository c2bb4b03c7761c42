//! The service inside of this process, with a clock that makes it panic where a test wants it to.

use crate::scene;
use crate::service::Service;
use crate::support::envoy::Envoy;
use crate::support::http;
use crate::support::tidegate::Tidegate;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tidegate::clock::{Clock, Micros};
use tidegate::envoy::ExtProc;
use tidegate::idempotency::{MemoryBounds, Protection, ProtectionOptions, Records};
use tidegate::telemetry::Metrics;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A clock that breaks after it was asked so many times.
#[derive(Debug)]
struct Brittle(AtomicI64);

impl Clock for Brittle {
    fn now(&self) -> Micros {
        assert!(self.0.fetch_sub(1, Ordering::SeqCst) > 0, "a defect, for a test");
        Micros(1_700_000_000_000_000)
    }
}

/// A filter of this process.
pub async fn filter(records: Records, clock: Arc<dyn Clock>, policy: &str) -> SocketAddr {
    let tasks = TaskTracker::new();
    let protection = Protection::new(
        Arc::new(records),
        Metrics::new(10),
        clock,
        tasks.clone(),
        CancellationToken::new(),
        ProtectionOptions { max_in_flight: 10 },
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("idempotency.yaml");
    std::fs::write(&file, policy).unwrap();
    protection.install(tidegate::config::load_idempotency(&file).unwrap().policy);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let filter = listener.local_addr().unwrap();
    let service = ExtProc::new(Arc::new(protection), tasks, CancellationToken::new())
        .with_body_within(Duration::from_secs(2));
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(service.grpc())
            .serve_with_incoming(TcpListenerStream::new(listener)),
    );
    filter
}

/// An Envoy in front of a service and of a filter that breaks: once the store has been asked
/// `n_asked` times, or once it has looked at the clock `n_looked` times itself.
pub async fn start(n_asked: i64, n_looked: i64) -> (Envoy, Service, Tidegate) {
    let brittle = |n| Arc::new(Brittle(AtomicI64::new(n))) as Arc<dyn Clock>;
    let bounds = MemoryBounds { max_records: 10, max_bytes: 1 << 20 };
    let records = Records::in_memory(bounds, brittle(n_asked));
    let filter = filter(records, brittle(n_looked), scene::POLICY).await;
    let upstream = Service::start().await;
    let limits = Tidegate::start(scene::NO_LIMITS).await;
    let envoy = scene::envoy(upstream.address, limits.grpc, filter, &[]).await;
    (envoy, upstream, limits)
}

async fn post(envoy: SocketAddr) -> u16 {
    let headers = [("x-user", "ann"), ("idempotency-key", "k")];
    http::ask(envoy, "POST", "/pay", &headers, "{}").await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_before_a_claim_is_answered_does_not_let_the_request_pass() {
    let (envoy, service, _limits) = start(0, 100).await;
    assert_eq!((post(envoy.address).await, service.n_ran()), (503, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_before_the_outcome_is_stored_does_not_let_the_answer_pass() {
    let (envoy, service, _limits) = start(100, 0).await;
    assert_eq!((post(envoy.address).await, service.n_ran()), (503, 1));
    assert_eq!((post(envoy.address).await, service.n_ran()), (409, 1), "it is not run again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_envoy_cannot_hold_is_given_up() {
    let (envoy, service, _limits) = start(100, 100).await;
    let status = scene::post_chunked(envoy.address, "/pay", "k", 8 << 20).await;
    assert!([408, 413].contains(&status), "{status}");
    assert_eq!(service.n_ran(), 0);
    assert_eq!((post(envoy.address).await, service.n_ran()), (201, 1), "nothing was claimed");
}
