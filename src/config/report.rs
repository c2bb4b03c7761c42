//! Faults of policy files, as people read them: `file:line:column`, the source line, a caret.

use std::fmt;
use std::sync::Arc;

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Path as it was read, or the name of an xDS resource.
    pub file: Arc<str>,
    /// From 1; 0 if it concerns the whole file.
    pub line: u32,
    /// In characters, from 1; 0 if it concerns the whole file.
    pub column: u32,
    /// Whether it prevents loading.
    pub severity: Severity,
    /// What was found and what was expected.
    pub message: String,
    /// The line itself, if there is one.
    pub source_line: Option<Box<str>>,
}

/// What a fault prevents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The policies cannot be loaded.
    Error,
    /// The policies load, but something in them has no effect or is not as it seems.
    Warning,
}

/// Every fault of every file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// In the order of files and lines.
    pub faults: Vec<Fault>,
}

/// Most faults that a report shows; it counts them all.
const MAX_SHOWN: usize = 200;

/// Lines longer than this are shown in part, around the fault.
const MAX_COLUMNS: usize = 120;

impl Fault {
    /// A fault of a whole file.
    pub fn of_file(file: impl Into<Arc<str>>, message: String) -> Self {
        let severity = Severity::Error;
        Self { file: file.into(), line: 0, column: 0, severity, message, source_line: None }
    }
}

impl Severity {
    /// Its word in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

impl Report {
    /// A report of these faults, sorted; a fault that was found twice (through an alias) counts
    /// once.
    pub fn new(mut faults: Vec<Fault>) -> Self {
        faults.sort();
        faults.dedup();
        Self { faults }
    }

    /// How many faults of that severity there are.
    pub fn count(&self, severity: Severity) -> usize {
        self.faults.iter().filter(|fault| fault.severity == severity).count()
    }

    /// Whether there is nothing to report.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }
}

impl std::error::Error for Report {}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in self.faults.iter().take(MAX_SHOWN) {
            write!(f, "{fault}")?;
        }
        if self.faults.len() > MAX_SHOWN {
            writeln!(f, "and {} more", self.faults.len() - MAX_SHOWN)?;
        }
        let errors = counted(self.count(Severity::Error), "error");
        let warnings = counted(self.count(Severity::Warning), "warning");
        writeln!(f, "{errors}, {warnings}")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if self.line > 0 {
            write!(f, "{}:{}:", self.line, self.column)?;
        }
        writeln!(f, " {}: {}", self.severity.name(), self.message)?;
        if let Some(line) = &self.source_line {
            write_line(f, line, self.line, self.column)?;
        }
        Ok(())
    }
}

fn counted(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// The source line with its number, and a caret under the column.
fn write_line(f: &mut fmt::Formatter<'_>, line: &str, number: u32, column: u32) -> fmt::Result {
    let number = number.to_string();
    let column = usize::try_from(column).unwrap_or_default().saturating_sub(1);
    let skipped = if column < MAX_COLUMNS { 0 } else { column - MAX_COLUMNS / 2 };
    // A tab is one column to the parser, and a control character must not reach a terminal.
    let shown = line.chars().skip(skipped).take(MAX_COLUMNS);
    let shown: String = shown.map(|char| if char.is_control() { ' ' } else { char }).collect();
    writeln!(f, "  {number} | {}", shown.trim_end())?;
    writeln!(f, "  {:width$} | {:caret$}^", "", "", width = number.len(), caret = column - skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_very_many_faults_shows_the_first_and_counts_all() {
        let fault = |n: usize| Fault::of_file(format!("{n:04}.yaml"), "empty".to_owned());
        let text = Report::new((0..MAX_SHOWN + 50).map(fault).collect()).to_string();
        assert_eq!(text.lines().count(), MAX_SHOWN + 2);
        assert!(text.ends_with("and 50 more\n250 errors, 0 warnings\n"), "{text}");
    }
}
