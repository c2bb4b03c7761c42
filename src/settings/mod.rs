//! Every process setting, from flags and environment, read once.

mod answers;
mod effective;
mod faults;
mod ignored;
mod idempotency;
mod listen;
mod log;
mod outage;
mod pem;
mod policies;
mod records;
mod push;
mod reach;
mod redis_url;
mod secret;
pub mod servers;
mod shared;
mod stop;
mod store;
mod tls;
mod traces;
mod words;
mod xds;

pub use answers::{Answers, LimitHeaderNames};
pub use effective::{Effective, Origin, effective};
pub use faults::{Faults, name};
pub use idempotency::{Endpoint, IdempotencySettings};
pub use listen::{Address, Listen};
pub use log::{Log, LogFormat, LogLevel};
pub use outage::OutageSettings;
pub use pem::{TlsFault, authorities, certificates, private_key};
pub use policies::{DefaultAlgorithm, DefaultFailureMode, Policies, RawReading, ReadyOnce};
pub use push::{Dialect, PushSettings, Transport};
pub use records::{RecordBackend, RecordSettings};
pub use stop::Stop;
pub use store::{Backend, StoreSettings};
pub use tls::{TlsFile, TlsSettings};
pub use traces::{TraceProtocol, TraceSettings};
pub use xds::{XdsRetry, XdsSettings, XdsTls};

use clap::ArgMatches;
use policies::PathsSet;
use std::time::Duration;

/// What the environment holds under a name.
pub type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Value name of switches: `--flag` and `--flag=BOOL` are both understood.
const BOOL: &str = "BOOL";

/// What is shown in place of a secret.
const SECRET: &str = "*****";

/// Every setting, as text. Flags win over the environment.
#[derive(Clone, Debug, clap::Args)]
pub struct RawSettings {
    #[command(flatten)]
    policies: policies::RawPolicies,
    #[command(flatten)]
    xds: xds::RawXds,
    #[command(flatten)]
    listen: listen::RawListen,
    #[command(flatten)]
    tls: tls::RawTls,
    #[command(flatten)]
    store: store::RawStore,
    #[command(flatten)]
    answers: answers::RawAnswers,
    #[command(flatten)]
    idempotency: idempotency::RawIdempotency,
    #[command(flatten)]
    metrics: RawMetrics,
    #[command(flatten)]
    push: push::RawPush,
    #[command(flatten)]
    traces: traces::RawTraces,
    #[command(flatten)]
    log: log::RawLog,
    #[command(flatten)]
    stop: stop::RawStop,
}

/// Every setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where policies are, and what holds for all of them.
    pub policies: Policies,
    /// Where the server listens.
    pub listen: Listen,
    /// How the gRPC port speaks TLS, if it does.
    pub grpc_tls: Option<TlsSettings>,
    /// Where buckets live.
    pub store: StoreSettings,
    /// How requests are decided and answered.
    pub answers: Answers,
    /// The idempotency filter and the direct API, if there is one of them.
    pub idempotency: Option<IdempotencySettings>,
    /// Cap of the label sets of metrics.
    pub metric_max_series: usize,
    /// Where metrics are pushed to, if anywhere.
    pub push: Option<PushSettings>,
    /// Where spans are sent to, if requests are traced.
    pub traces: Option<TraceSettings>,
    /// What the log says and how.
    pub log: Log,
    /// How the process ends.
    pub stop: Stop,
    /// What is set and has no effect, each with its variable.
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Metrics")]
struct RawMetrics {
    /// Most label sets that rules show before their first hit, and that requests make
    #[arg(long, env = "METRIC_MAX_SERIES", value_name = "NUMBER", default_value = "10000")]
    metric_max_series: String,
}

impl Settings {
    /// Reads them all; `matches` are those that `raw` was made of. Every fault of every setting is
    /// in the error.
    pub fn read(
        raw: RawSettings,
        matches: &ArgMatches,
        environment: &Environment<'_>,
    ) -> Result<Self, Faults> {
        let mut faults = Faults::default();
        let settings = raw.read(matches, environment, &mut faults);
        settings.filter(|_| faults.is_empty()).ok_or(faults)
    }
}

impl RawSettings {
    fn read(
        self,
        matches: &ArgMatches,
        environment: &Environment<'_>,
        faults: &mut Faults,
    ) -> Option<Settings> {
        let mut warnings = ignored::read(environment, faults);
        warnings.extend(push::unasked(environment));
        let xds = self.xds.read(faults);
        let policies = self.policies.read(PathsSet::of(matches), xds, faults);
        let listen = self.listen.read(faults);
        let (grpc_tls, in_vain) = self.tls.read(faults);
        warnings.extend(in_vain);
        let store = self.store.read(matches, environment, faults);
        let answers = self.answers.read(faults);
        let idempotency = self.idempotency.read(&mut warnings, faults);
        let max_series = &self.metrics.metric_max_series;
        let metric_max_series = faults.read("METRIC_MAX_SERIES", max_series, words::count);
        let push = self.push.read(environment, faults);
        let traces = self.traces.read(faults);
        let log = self.log.read(faults);
        let stop = self.stop.read(faults);
        Some(Settings {
            policies: policies?,
            listen: listen?,
            grpc_tls,
            store: store?,
            answers: answers?,
            idempotency: idempotency?,
            metric_max_series: metric_max_series?,
            push,
            traces,
            log: log?,
            stop: stop?,
            warnings,
        })
    }
}

/// Reads a length of time as settings do: `10s`, `1h30m`.
pub fn read_duration(text: &str) -> Result<Duration, &'static str> {
    words::duration(text)
}

/// Lets every switch stand without a value.
pub fn with_switches(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| {
        let is_switch = arg.get_value_names().is_some_and(|names| names == [BOOL]);
        if is_switch {
            arg.num_args(0..=1).require_equals(true).default_missing_value("true")
        } else {
            arg
        }
    })
}

#[cfg(test)]
mod tests;
