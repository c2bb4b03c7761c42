//! The messages of the direct API, generated from `envoy/proto/tidegate`.

#![allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    clippy::clone_on_ref_ptr,
    reason = "generated code"
)]

include!(concat!(env!("OUT_DIR"), "/direct.rs"));

pub use self::tidegate::v1::*;

/// The encoded `FileDescriptorSet` of all of them and of what they import.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/direct.bin"));
