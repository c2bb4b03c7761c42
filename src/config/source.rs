//! The text of a policy file, line by line, for the reports that quote it.

use super::raw::Place;
use super::report::{Fault, Severity};
use std::sync::{Arc, OnceLock};

/// A file as it was read, or the name of a resource that has no text.
#[derive(Debug)]
pub struct SourceFile {
    /// Its path as it was read, or its name.
    pub name: Arc<str>,
    text: String,
    line_starts: OnceLock<Vec<usize>>,
}

impl SourceFile {
    /// A file of that text.
    pub fn new(name: impl Into<Arc<str>>, text: String) -> Self {
        Self { name: name.into(), text, line_starts: OnceLock::new() }
    }

    /// Its whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// That line, counted from 1, without its line break.
    pub fn line(&self, number: u32) -> Option<&str> {
        let starts = self.line_starts.get_or_init(|| line_starts(&self.text));
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        let start = *starts.get(index)?;
        let end = starts.get(index.saturating_add(1)).copied().unwrap_or(self.text.len());
        Some(self.text.get(start..end)?.trim_end_matches(['\n', '\r']))
    }

    /// A fault at that place of it.
    pub(super) fn fault(&self, severity: Severity, place: Place, message: String) -> Fault {
        Fault {
            file: Arc::clone(&self.name),
            line: place.line,
            column: place.column,
            severity,
            message,
            source_line: self.line(place.line).map(Into::into),
        }
    }
}

/// YAML ends a line with a line feed, a carriage return or both.
fn line_starts(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let ends_line = |(index, byte): (usize, &u8)| match byte {
        b'\n' => Some(index + 1),
        b'\r' if bytes.get(index + 1) != Some(&b'\n') => Some(index + 1),
        _ => None,
    };
    std::iter::once(0).chain(bytes.iter().enumerate().filter_map(ends_line)).collect()
}
