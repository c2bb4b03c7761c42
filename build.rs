//! Compiles the messages under `envoy/proto`, and keeps their descriptors for reflection and JSON.

use prost::Message;
use std::error::Error;
use std::path::Path;
use std::{env, fs};

const PROTO_ROOT: &str = "envoy/proto";
const SERVICE: &str = "envoy/service/ratelimit/v3/rls.proto";

fn main() -> Result<(), Box<dyn Error>> {
    tell_cargo();
    let mut descriptors = protox::compile([SERVICE], [PROTO_ROOT])?;
    tonic_prost_build::configure()
        .build_client(false)
        .codec_path("crate::envoy::codec::RateLimitCodec")
        .include_file("messages.rs")
        .compile_fds(descriptors.clone())?;

    // Comments belong into the code, not into the binary.
    descriptors.file.iter_mut().for_each(|file| file.source_code_info = None);
    let out_dir = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run this through cargo")?;
    fs::write(Path::new(&out_dir).join("descriptors.bin"), descriptors.encode_to_vec())?;
    Ok(())
}

fn tell_cargo() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={PROTO_ROOT}");
}
