//! Parses the command line and calls the library.

use std::io::Write;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    tidegate::cli::run(std::env::args_os()).unwrap_or_else(|error| {
        if !error.is_closed_pipe() {
            // Nothing is left to do if even this cannot be written.
            let _ = writeln!(std::io::stderr(), "error: {error}");
        }
        ExitCode::FAILURE
    })
}
