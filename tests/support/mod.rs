//! What the tests at the borders share: real processes on free ports, and clients to talk to them.

#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    missing_debug_implementations,
    reason = "each test file uses its part, and a failed test should panic and show its logs"
)]

pub mod envoy;
pub mod grpc;
pub mod http;
pub mod process;
pub mod tidegate;
pub mod upstream;

use std::time::Duration;

/// How long anything may take, also on a busy machine, before its test fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Asks again and again until there is an answer; the test fails when its patience ends.
pub async fn eventually<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        loop {
            tick.tick().await;
            if let Some(answer) = probe().await {
                return answer;
            }
        }
    };
    let answer = tokio::time::timeout(PATIENCE, asking).await;
    answer.unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain for {what}"))
}
