//! The compile step: raw trees to rules, in one walk that reports every fault.
//!
//! It does not care where the trees come from: YAML files and xDS messages meet here.

mod bounds;
mod descriptor;
mod domain;
mod fields;
pub(super) mod idempotency;
mod level;
mod limit;
mod limits;
mod metadata;
mod path;
mod scalar;
mod settings;
mod unused;

use super::raw::Raw;
use super::report::Fault;
use super::source::SourceFile;
use crate::rules::{Defaults, RuleSet};
use domain::Domains;
use std::sync::Arc;

/// One YAML document or one xDS resource.
#[derive(Clone, Debug)]
pub struct Document {
    /// Where it comes from.
    pub file: Arc<SourceFile>,
    /// What it says.
    pub raw: Raw,
}

/// What documents came to. The rules are whole only if no fault is an error.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) rules: RuleSet,
    pub(super) faults: Vec<Fault>,
    pub(super) n_default_algorithm: usize,
}

/// Compiles all documents together.
pub(super) fn compile(
    documents: &[Document],
    defaults: &Defaults,
    merge_domains: bool,
) -> Compiled {
    let mut domains = Domains::new(defaults, merge_domains);
    // What the files say of a domain as a whole must be known before any descriptor is read.
    let parts: Vec<_> = documents.iter().map(|document| domains.read(document)).collect();
    domains.check();
    for part in parts.into_iter().flatten() {
        domains.read_descriptors(&part);
    }
    domains.finish()
}
