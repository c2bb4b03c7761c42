//! A sample as a line of statsd's protocol.

use super::samples::{Kind, Sample};
use crate::settings::Dialect;

/// Writes lines.
#[derive(Debug)]
pub(super) struct Writer {
    /// Stands after each name.
    of_name: String,
    /// Stands at the end of each line.
    of_line: String,
}

impl Writer {
    /// With these tags on each line.
    pub(super) fn new(dialect: Dialect, tags: &[(String, String)]) -> Self {
        let mut writer = Self { of_name: String::new(), of_line: String::new() };
        match dialect {
            Dialect::Statsd => {
                let tag = |(name, value): &(String, String)| format!(".__{name}={value}");
                writer.of_name = tags.iter().map(tag).collect();
            }
            Dialect::DogStatsd if tags.is_empty() => {}
            Dialect::DogStatsd => {
                let tag = |(name, value): &(String, String)| format!("{name}:{value}");
                let tags: Vec<_> = tags.iter().map(tag).collect();
                writer.of_line = format!("|#{}", tags.join(","));
            }
        }
        writer
    }

    /// The line that brings a server up to date; `new` is what it does not know of a total.
    pub(super) fn line(&self, sample: &Sample, new: u64) -> String {
        let Self { of_name, of_line } = self;
        let name = &sample.name;
        match sample.kind {
            Kind::Counter { .. } => format!("{name}{of_name}:{new}|c{of_line}\n"),
            Kind::Gauge { now } => format!("{name}{of_name}:{now}|g{of_line}\n"),
            Kind::Timer { millis, .. } => {
                format!("{name}{of_name}:{millis}|ms{}{of_line}\n", rate(new))
            }
        }
    }
}

/// One line for `n` of the same: a server multiplies by the inverse.
fn rate(n: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "nobody counts so far in one interval")]
    let share = 1.0 / n.max(1) as f64;
    if n > 1 { format!("|@{share}") } else { String::new() }
}
