//! The idempotency filter behind a real Envoy: one logical mutation runs once, and its retries get
//! the same answer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    missing_debug_implementations,
    reason = "a failed test should panic"
)]

#[path = "../support/mod.rs"]
mod support;

mod answers;
mod api;
mod callers;
mod clocks;
mod defects;
mod examples;
mod holes;
mod keys;
mod outcomes;
mod redis;
mod scene;
mod service;
mod streams;
mod unrest;
