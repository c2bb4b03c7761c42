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

mod authority;
mod callers;
mod clocks;
mod cluster;
mod declared;
mod faults;
mod house;
mod outage;
mod probes;
mod program;
mod records;
mod secure;
mod sentinel;
mod single;
mod stand_in;
mod start;
mod unrest;
mod ways;
mod withheld;
mod wrong;
