//! Compiles the messages under `envoy/proto`, and keeps their descriptors for reflection and JSON.

use prost::Message;
use prost_types::FileDescriptorSet;
use std::error::Error;
use std::path::Path;
use std::{env, fs};

const PROTO_ROOT: &str = "envoy/proto";
const SERVICE: &str = "envoy/service/ratelimit/v3/rls.proto";
const DIRECT: [&str; 2] = ["tidegate/v1/idempotency.proto", "tidegate/v1/leases.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    tell_cargo();
    let envoy = protox::compile([SERVICE], [PROTO_ROOT])?;
    tonic_prost_build::configure()
        .build_client(false)
        .codec_path("crate::envoy::codec::RateLimitCodec")
        .include_file("messages.rs")
        .compile_fds(envoy.clone())?;
    let direct = protox::compile(DIRECT, [PROTO_ROOT])?;
    tonic_prost_build::configure()
        .build_client(false)
        .include_file("direct.rs")
        .compile_fds(direct.clone())?;
    keep(envoy, "descriptors.bin")?;
    keep(direct, "direct.bin")
}

/// Comments belong into the code, not into the binary.
fn keep(mut descriptors: FileDescriptorSet, name: &str) -> Result<(), Box<dyn Error>> {
    descriptors.file.iter_mut().for_each(|file| file.source_code_info = None);
    let out_dir = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run this through cargo")?;
    fs::write(Path::new(&out_dir).join(name), descriptors.encode_to_vec())?;
    Ok(())
}

fn tell_cargo() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={PROTO_ROOT}");
}
