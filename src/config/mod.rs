//! From YAML to rules: reading files, the compile step that reports every fault, the folder watch.

mod compile;
mod files;
mod manifest;
mod nearest;
mod plain;
mod raw;
mod report;
mod shape;
mod source;
mod watch;
mod yaml;

#[cfg(test)]
mod tests;

pub use compile::Document;
pub use raw::{Place, Raw, RawEntry, RawValue};
pub use report::{Fault, Report, Severity};
pub use source::SourceFile;
pub use watch::watch;

use crate::rules::{Defaults, RuleSet};
use compile::Compiled;
use manifest::Manifests;
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::sync::Arc;

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
    /// A hash of their names and texts.
    pub version: String,
    /// How many rules decide by [`Options::defaults`]' algorithm: neither they nor their domains
    /// name one.
    pub n_default_algorithm: usize,
}

/// Reads and compiles everything; every fault of every file is in the report.
pub fn load(options: &Options) -> Result<Loaded, Report> {
    read(options, Manifests::Refuse)
}

/// As [`load`], but also looks into Kubernetes manifests and checks the files of `ConfigMap`s.
pub fn check(options: &Options) -> Result<Loaded, Report> {
    read(options, Manifests::Open)
}

/// Compiles documents that were made elsewhere, such as from xDS resources.
pub fn compile(
    documents: &[Document],
    defaults: &Defaults,
    merge_domains: bool,
) -> Result<Loaded, Report> {
    finish(Vec::new(), documents, defaults, merge_domains)
}

fn read(options: &Options, manifests: Manifests) -> Result<Loaded, Report> {
    let (files, mut faults) = files::read(options);
    let n_files = files.len();
    let version = version(&files);
    let documents: Vec<Document> = files
        .into_iter()
        .flat_map(|file| manifest::documents(&Arc::new(file), manifests, &mut faults))
        .collect();
    let loaded = finish(faults, &documents, &options.defaults, options.merge_domains)?;
    Ok(Loaded { n_files, version, ..loaded })
}

fn finish(
    mut faults: Vec<Fault>,
    documents: &[Document],
    defaults: &Defaults,
    merge_domains: bool,
) -> Result<Loaded, Report> {
    let compiled = compile::compile(documents, defaults, merge_domains);
    let Compiled { rules, faults: more, n_default_algorithm } = compiled;
    faults.extend(more);
    let report = Report::new(faults);
    if report.count(Severity::Error) > 0 {
        return Err(report);
    }
    Ok(Loaded {
        rules,
        warnings: report,
        n_files: 0,
        version: String::new(),
        n_default_algorithm,
    })
}

/// Twelve hexadecimal digits that tell one set of files from another.
fn version(files: &[SourceFile]) -> String {
    let mut hash = Sha256::new();
    for file in files {
        for text in [&*file.name, file.text()] {
            hash.update(text.len().to_le_bytes());
            hash.update(text);
        }
    }
    hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}
