//! What is handed out beside the program: the image, the manifests, the chart, the gateways' examples,
//! the dashboard and the alerts, and the documents.

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

mod chart;
mod documents;
mod figures;
mod gateways;
mod image;
mod kubernetes;
mod manifests;
mod migrating;
mod pod;
mod prometheus;
mod reference;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A file or folder of this project.
fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(project(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Runs a command, which must succeed, and gives all that it printed.
#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let (output, printed) = run(command);
    assert!(output.status.success(), "{command:?}:\n{printed}");
    printed
}

fn run(command: &mut Command) -> (Output, String) {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{command:?}: {error}; `tests/run` installs what the tests need")
    });
    let printed = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let printed = printed.concat();
    (output, printed)
}
