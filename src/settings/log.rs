//! What the log says and how.

use super::faults::Faults;
use super::words::{self, Read};

/// The log as it is asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Log")]
#[expect(clippy::struct_field_names, reason = "they are the names of the flags")]
pub(super) struct RawLog {
    /// Least level of the lines: trace, debug, info, warn, error
    #[arg(long, env = "LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    log_level: String,
    /// Shape of the lines: text or json
    #[arg(long, env = "LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    log_format: String,
    /// Most refused requests a second that are logged, with their rule and nothing of the request; 0: none
    #[arg(long, env = "LOG_DENIED_PER_SECOND", value_name = "NUMBER", default_value = "0")]
    log_denied_per_second: String,
}

/// What the log says and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// Least level of the lines.
    pub level: LogLevel,
    /// Shape of the lines.
    pub format: LogFormat,
    /// Most refusals a second that are logged.
    pub denied_per_second: u32,
}

/// Level of a log line, from the most to the least talkative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Everything.
    Trace,
    /// What happens to single requests.
    Debug,
    /// What happens to the process.
    Info,
    /// What somebody should look at.
    Warn,
    /// What went wrong.
    Error,
}

/// Shape of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines, a JSON object a line.
    Json,
}

impl RawLog {
    pub(super) fn read(self, faults: &mut Faults) -> Option<Log> {
        let level = faults.read("LOG_LEVEL", &self.log_level, LogLevel::read);
        let format = faults.read("LOG_FORMAT", &self.log_format, format);
        let denied = &self.log_denied_per_second;
        let denied = faults.read("LOG_DENIED_PER_SECOND", denied, words::count);
        let denied_per_second = denied?.try_into().unwrap_or(u32::MAX);
        Some(Log { level: level?, format: format?, denied_per_second })
    }
}

impl LogLevel {
    /// The words of envoyproxy/ratelimit, in any letter case; nothing means `info`.
    pub fn read(text: &str) -> Read<Self> {
        match text.to_ascii_lowercase().as_str() {
            "trace" => Ok(Self::Trace),
            "debug" => Ok(Self::Debug),
            "" | "info" => Ok(Self::Info),
            "warn" | "warning" => Ok(Self::Warn),
            "error" | "fatal" | "panic" => Ok(Self::Error),
            _ => Err("`trace`, `debug`, `info`, `warn` or `error`"),
        }
    }
}

fn format(text: &str) -> Read<LogFormat> {
    match text.to_ascii_lowercase().as_str() {
        "" | "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("`text` or `json`"),
    }
}
