//! What every setting stands at, and where that comes from; secrets masked.

use super::redis_url::masked;
use super::{RawSettings, SECRET};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command};
use std::fmt;

/// A setting as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// Its variable.
    pub variable: String,
    /// Its value as text, masked if it is secret.
    pub value: String,
    /// Where that comes from.
    pub origin: Origin,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// A variable.
    Environment,
    /// A flag.
    Flag,
}

/// Every setting, in the order of the reference page; `matches` are those of [`RawSettings`].
pub fn effective(matches: &ArgMatches) -> Vec<Effective> {
    let command = RawSettings::augment_args(Command::new("settings"));
    command.get_arguments().filter_map(|arg| Effective::of(arg, matches)).collect()
}

impl Effective {
    fn of(arg: &Arg, matches: &ArgMatches) -> Option<Self> {
        let id = arg.get_id().as_str();
        let values = matches.get_raw(id)?.map(|value| value.to_string_lossy());
        let text = values.collect::<Vec<_>>().join(",");
        let variable = arg.get_env()?.to_string_lossy().into_owned();
        let value = if arg.is_hide_env_values_set() { hidden(&variable, &text) } else { text };
        Some(Self { variable, value, origin: Origin::of(matches.value_source(id)) })
    }
}

impl Origin {
    fn of(source: Option<ValueSource>) -> Self {
        match source {
            Some(ValueSource::CommandLine) => Self::Flag,
            Some(ValueSource::EnvVariable) => Self::Environment,
            _ => Self::Default,
        }
    }
}

impl fmt::Display for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = match self.origin {
            Origin::Default => "default",
            Origin::Environment => "environment",
            Origin::Flag => "flag",
        };
        write!(f, "{origin:<13}{}={}", self.variable, self.value.escape_debug())
    }
}

/// A URL says where a server is, which is no secret; nothing else is shown.
fn hidden(variable: &str, text: &str) -> String {
    if text.is_empty() || variable.ends_with("URL") { masked(text) } else { SECRET.to_owned() }
}
