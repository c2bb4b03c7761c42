//! Parses the command line, starts logging, calls the library.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<ExitCode> {
    Ok(tidegate::cli::run(std::env::args_os())?)
}
