//! Tests that look inside: the scripts against their twins.

mod slots;
mod twins;

#[path = "../../../../tests/support"]
#[allow(
    dead_code,
    unreachable_pub,
    clippy::print_stderr,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    missing_debug_implementations,
    missing_docs,
    reason = "shared with the tests outside, which use more of it"
)]
pub(crate) mod support {
    mod patience;
    pub mod process;
    pub mod redis;
    pub use patience::eventually;
}
