//! Tidegate, a rate-limit server for Envoy.
//!
//! One line per module, in the order of the layers: a module imports only from those above it.
//! `ARCHITECTURE.md` says why.

pub mod clock;
pub mod settings;
pub mod algorithm;
pub mod rules;
pub mod telemetry;
pub mod config;
pub mod store;
pub mod limiter;
pub mod idempotency;
pub mod envoy;
pub mod server;
pub mod cli;
