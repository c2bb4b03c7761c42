//! What is wrong with settings: all of it at once, each fault with its variable.

use std::fmt;

/// Every fault of the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    /// `PORT/--port`, or the variable alone if it has no flag.
    name: String,
    text: String,
}

impl Faults {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads the text of a variable; if it cannot be read, that is a fault.
    pub(super) fn read<T>(
        &mut self,
        variable: &str,
        text: &str,
        read: impl FnOnce(&str) -> Result<T, &'static str>,
    ) -> Option<T> {
        read(text).map_err(|expected| self.add(variable, unreadable(text, expected))).ok()
    }

    /// The same for a variable that has no flag.
    pub(super) fn read_variable<T>(
        &mut self,
        variable: &str,
        text: &str,
        read: impl FnOnce(&str) -> Result<T, &'static str>,
    ) -> Option<T> {
        read(text)
            .map_err(|expected| self.add_of_variable(variable, unreadable(text, expected)))
            .ok()
    }

    pub(super) fn add(&mut self, variable: &str, text: impl Into<String>) {
        self.0.push(Fault { name: name(variable), text: text.into() });
    }

    /// Adds a fault of a variable that has no flag.
    pub(super) fn add_of_variable(&mut self, variable: &str, text: impl Into<String>) {
        self.0.push(Fault { name: variable.into(), text: text.into() });
    }
}

impl std::error::Error for Faults {}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the settings are faulty")?;
        for Fault { name, text } in &self.0 {
            write!(f, "\n  {name}: {text}")?;
        }
        Ok(())
    }
}

/// How a setting is named to people: `GRPC_PORT/--grpc-port`.
pub fn name(variable: &str) -> String {
    format!("{variable}/--{}", flag(variable))
}

/// A variable's flag, without the dashes before it.
pub(super) fn flag(variable: &str) -> String {
    variable.to_lowercase().replace('_', "-")
}

fn unreadable(text: &str, expected: &str) -> String {
    if text.is_empty() {
        format!("set, but empty, expected {expected}")
    } else {
        format!("found `{}`, expected {expected}", text.escape_debug())
    }
}
