//! From YAML to rules: reading files, the compile step that reports every fault, the folder watch.

mod compile;
mod files;
mod manifest;
mod merge;
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

use crate::rules::idempotency::IdempotencyPolicy;
use crate::rules::{Defaults, RuleSet};
use compile::{Compiled, idempotency};
use manifest::Manifests;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where policies are and how to read them.
#[derive(Clone, Debug, Default)]
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
    /// How many files or resources were read.
    pub n_files: usize,
    /// A hash of their names and contents.
    pub version: String,
    /// How many rules decide by [`Options::defaults`]' algorithm: neither they nor their domains
    /// name one.
    pub n_default_algorithm: usize,
    /// The idempotency policy that was among what was checked.
    pub idempotency: IdempotencyPolicy,
}

/// An idempotency policy as loaded.
#[derive(Debug)]
pub struct LoadedIdempotency {
    /// The policy.
    pub policy: IdempotencyPolicy,
    /// Faults that do not prevent loading.
    pub warnings: Report,
    /// A hash of its file's name and text.
    pub version: String,
}

/// Reads and compiles everything; every fault of every file is in the report.
pub fn load(options: &Options) -> Result<Loaded, Report> {
    read(options, Manifests::Refuse)
}

/// As [`load`], but also looks into Kubernetes manifests and checks the files of `ConfigMap`s, and
/// idempotency policies.
pub fn check(options: &Options) -> Result<Loaded, Report> {
    read(options, Manifests::Open)
}

/// Reads and compiles an idempotency policy.
pub fn load_idempotency(path: &Path) -> Result<LoadedIdempotency, Report> {
    let (files, mut faults) = files::read(&[path.into()], false);
    let version = version_of(&files);
    let documents = documents(files, Manifests::Refuse, &mut faults);
    let compiled = idempotency::compile(&documents);
    faults.extend(compiled.faults);
    let warnings = sound(faults)?;
    Ok(LoadedIdempotency { policy: compiled.policy, warnings, version })
}

/// Compiles documents that were made elsewhere, such as from xDS resources; `version` tells them
/// from others.
pub fn compile(
    documents: &[Document],
    version: String,
    options: &Options,
) -> Result<Loaded, Report> {
    let n_files = documents.len();
    let loaded = finish(Vec::new(), documents, &options.defaults, options.merge_domains)?;
    Ok(Loaded { n_files, version, ..loaded })
}

fn read(options: &Options, manifests: Manifests) -> Result<Loaded, Report> {
    let (files, mut faults) = files::read(&options.paths, options.ignore_dot_files);
    let n_files = files.len();
    let version = version_of(&files);
    let documents = documents(files, manifests, &mut faults);
    let (others, documents): (Vec<_>, Vec<_>) =
        documents.into_iter().partition(idempotency::is_one);
    let policy = match manifests {
        Manifests::Open => {
            let compiled = idempotency::compile(&others);
            faults.extend(compiled.faults);
            compiled.policy
        }
        Manifests::Refuse => {
            faults.extend(others.iter().map(idempotency::refuse));
            IdempotencyPolicy::default()
        }
    };
    let loaded = finish(faults, &documents, &options.defaults, options.merge_domains)?;
    Ok(Loaded { n_files, version, idempotency: policy, ..loaded })
}

fn documents(
    files: Vec<SourceFile>,
    manifests: Manifests,
    faults: &mut Vec<Fault>,
) -> Vec<Document> {
    let files = files.into_iter();
    files.flat_map(|file| manifest::documents(&Arc::new(file), manifests, faults)).collect()
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
    Ok(Loaded {
        rules,
        warnings: sound(faults)?,
        n_files: 0,
        version: String::new(),
        n_default_algorithm,
        idempotency: IdempotencyPolicy::default(),
    })
}

/// The faults as a report: an error if one of them is.
fn sound(faults: Vec<Fault>) -> Result<Report, Report> {
    let report = Report::new(faults);
    if report.count(Severity::Error) > 0 { Err(report) } else { Ok(report) }
}

fn version_of(files: &[SourceFile]) -> String {
    version(files.iter().map(|file| (&*file.name, file.text().as_bytes())))
}

/// Twelve hexadecimal digits that tell one set of files or resources from another, by their names
/// and contents.
pub fn version<'a>(parts: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut hash = Sha256::new();
    for (name, content) in parts {
        for bytes in [name.as_bytes(), content] {
            hash.update(bytes.len().to_le_bytes());
            hash.update(bytes);
        }
    }
    let first = hash.finalize().iter().take(6).fold(0, |hash, byte| (hash << 8) | u64::from(*byte));
    format!("{first:012x}")
}
