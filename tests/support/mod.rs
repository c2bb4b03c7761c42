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

pub mod authority;
pub mod collector;
pub mod envoy;
pub mod grpc;
pub mod http;
pub mod markdown;
mod patience;
pub mod process;
pub mod proxy;
pub mod redis;
pub mod tidegate;
pub mod upstream;
pub mod xds;

pub use patience::{PATIENCE, eventually};
