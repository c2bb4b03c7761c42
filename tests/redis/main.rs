//! The Redis store against real servers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a failed test should panic"
)]

#[path = "../support/mod.rs"]
mod support;

mod cluster;
mod faults;
mod house;
mod program;
mod records;
mod secure;
mod sentinel;
mod single;
mod start;
