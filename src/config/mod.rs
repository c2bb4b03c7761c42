//! From YAML to rules: reading files, the compile step that reports every fault, the folder watch.

mod report;
mod watch;

pub use report::{Fault, Report};
pub use watch::watch;

use crate::rules::{Defaults, RuleSet};
use std::path::PathBuf;

/// Where policies are and how to read them.
#[derive(Clone, Debug)]
pub struct Options {
    /// Files and folders; folders are read recursively in sorted order.
    pub paths: Vec<PathBuf>,
    /// What limits are made of where neither rule nor domain names anything.
    pub defaults: Defaults,
    /// Whether one domain may stand in several files.
    pub merge_domains: bool,
    /// Whether dot files are skipped; names that begin with `..` always are.
    pub ignore_dot_files: bool,
}

/// Policies as loaded.
#[derive(Debug)]
pub struct Loaded {
    /// The compiled rules.
    pub rules: RuleSet,
    /// Faults that do not prevent loading.
    pub warnings: Report,
    /// How many files were read.
    pub n_files: usize,
}

/// Reads and compiles everything; every fault of every file is in the report.
pub fn load(options: &Options) -> Result<Loaded, Report> {
    todo!("{options:?}")
}
