//! Log lines on stderr: text for people, or JSON in the shape of envoyproxy/ratelimit.

use crate::settings::{Log, LogFormat, LogLevel};
use serde_json::{Map, Value};
use std::fmt;
use std::io::IsTerminal;
use std::panic::PanicHookInfo;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

/// Changes the level of the running log.
#[derive(Clone, Debug)]
pub struct LevelSwitch(reload::Handle<LevelFilter, Registry>);

/// A library whose lines speak of every folder that comes and goes; `config::watch` says what counts.
const CHATTY: &str = "notify";

/// Starts the log of this process; a second start in one process changes nothing.
pub fn start(log: Log) -> LevelSwitch {
    let (filter, handle) = reload::Layer::new(filter(log.level));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match log.format {
        LogFormat::Text => {
            lines.with_target(false).with_ansi(std::io::stderr().is_terminal()).boxed()
        }
        LogFormat::Json => lines.event_format(JsonLines).boxed(),
    };
    let lines = lines.with_filter(filter_fn(|line| !line.target().starts_with(CHATTY)));
    // Only tests start it twice.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    std::panic::set_hook(Box::new(log_panic));
    LevelSwitch(handle)
}

impl LevelSwitch {
    /// The level in force.
    pub fn get(&self) -> LevelFilter {
        self.0.clone_current().unwrap_or(LevelFilter::OFF)
    }

    /// Changes it.
    pub fn set(&self, level: LogLevel) {
        if let Err(error) = self.0.reload(filter(level)) {
            tracing::error!(%error, "the log level could not be changed");
        }
    }
}

/// A panic ends a task, not the process. Its text may hold what a client sent.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let at = panic.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!(%at, "a defect ended a task");
    tracing::debug!(%panic, "its text");
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Trace => LevelFilter::TRACE,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Error => LevelFilter::ERROR,
    }
}

/// `{"@timestamp":…,"@message":…,"level":…}` and the fields.
#[derive(Debug)]
struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let mut line = Map::new();
        line.insert("@timestamp".into(), timestamp.into());
        line.insert("level".into(), event.metadata().level().as_str().to_lowercase().into());
        event.record(&mut Fields(&mut line));
        writeln!(writer, "{}", Value::Object(line))
    }
}

struct Fields<'a>(&'a mut Map<String, Value>);

impl Fields<'_> {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        let name = if field.name() == "message" { "@message" } else { field.name() };
        self.0.insert(name.into(), value.into());
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_json_line_has_the_keys_of_the_reference() {
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = tracing_subscriber::fmt::layer()
            .event_format(JsonLines)
            .with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::warn!(n_rules = 3_u64, file = %"a\"b", "policies \"loaded\"");
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["@message"], "policies \"loaded\"");
        assert_eq!(line["level"], "warn");
        assert_eq!(line["n_rules"], 3);
        assert_eq!(line["file"], "a\"b");
        assert!(line["@timestamp"].as_str().is_some_and(|at| at.ends_with('Z')), "{line}");
    }
}
