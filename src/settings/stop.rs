//! How the process ends.

use super::faults::Faults;
use super::words;
use std::time::Duration;

/// The end as it is asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Stop")]
pub(super) struct RawStop {
    /// After SIGTERM, how long to go on serving while health says no (SIGINT does not wait)
    #[arg(long, env = "DRAIN_DELAY", value_name = "DURATION", default_value = "5s")]
    drain_delay: String,
    /// How long requests that are under way then may take
    #[arg(long, env = "STOP_TIMEOUT", value_name = "DURATION", default_value = "10s")]
    stop_timeout: String,
}

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// How long to go on serving while health says no.
    pub drain_delay: Duration,
    /// How long requests that are under way then may take.
    pub timeout: Duration,
}

impl RawStop {
    pub(super) fn read(self, faults: &mut Faults) -> Option<Stop> {
        let drain_delay = faults.read("DRAIN_DELAY", &self.drain_delay, words::duration);
        let timeout = faults.read("STOP_TIMEOUT", &self.stop_timeout, words::duration);
        Some(Stop { drain_delay: drain_delay?, timeout: timeout? })
    }
}
