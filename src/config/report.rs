//! Faults of policy files, as people read them: `file:line:column`, the source line, a caret.

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {}

/// Every fault of every file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// In the order of files and lines.
    pub faults: Vec<Fault>,
}
