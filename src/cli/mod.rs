//! The command line: serve, check, explain, settings; each a thin call into the library.

mod config_check;

use crate::config::{self, Loaded};
use crate::rules;
use crate::server::{self, Entries, NoEntries};
use crate::settings::{
    Backend, Faults, Policies, RawReading, RawSettings, Settings, effective, with_switches,
};
use crate::telemetry::logging;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// A rate-limit server for Envoy.
///
/// Envoy asks it over gRPC whether a request may pass; it answers from policies in YAML.
/// Without a command it serves. Every setting is a flag and an environment variable; flags win.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, args_conflicts_with_subcommands = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    settings: RawSettings,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer rate-limit requests (what happens without a command, too)
    Serve(Box<RawSettings>),
    /// Check policy files and report every fault with its place
    Check(Check),
    /// Say which rule answers a descriptor, and why
    Explain(Explain),
    /// Print every setting as it stands and where that comes from, without secrets
    Settings(Box<RawSettings>),
}

/// Exits with 1 if there is a fault.
#[derive(Debug, clap::Args)]
struct Check {
    /// Policy files, folders of them, or Kubernetes manifests with a `ConfigMap`
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Warnings are faults
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    reading: RawReading,
}

#[derive(Debug, clap::Args)]
struct Explain {
    /// A policy file or a folder of them
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// The domain that the request names
    #[arg(value_name = "DOMAIN")]
    domain: String,
    /// Descriptors, each as `key=value,key=value` (`\,` for a comma in a value)
    #[arg(required = true, value_name = "ENTRIES")]
    descriptors: Vec<String>,
    #[command(flatten)]
    reading: RawReading,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Settings are faulty.
    #[error(transparent)]
    Settings(#[from] Faults),
    /// The server did not start or ended before its time.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// Flags of `ratelimit_config_check` are faulty.
    #[error(transparent)]
    ConfigCheck(#[from] config_check::Usage),
    /// A descriptor is none.
    #[error(transparent)]
    Entries(#[from] NoEntries),
    /// No policy names the domain.
    #[error("no policy names the domain `{found}`; there are: {known}")]
    UnknownDomain {
        /// As it was asked for.
        found: String,
        /// What there is.
        known: String,
    },
    /// The threads cannot be started, or the output cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    /// Whether nobody reads the rest of the output, as in `tidegate settings | head`.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Runs the command that the arguments name. Ends the process itself for `--help` and the like.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<ExitCode, Error> {
    let matches = command().get_matches_from(config_check::translated(arguments)?);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match cli.command {
        None => serve(cli.settings, &matches),
        Some(Command::Serve(settings)) => {
            serve(*settings, matches.subcommand_matches("serve").unwrap_or(&matches))
        }
        Some(Command::Check(check)) => check.run(&mut io::stdout(), &mut io::stderr()),
        Some(Command::Explain(explain)) => explain.run(&mut io::stdout(), &mut io::stderr()),
        Some(Command::Settings(raw)) => {
            let matches = matches.subcommand_matches("settings").unwrap_or(&matches);
            print_settings(*raw, matches, &mut io::stdout())
        }
    }
}

fn command() -> clap::Command {
    let commands = ["serve", "check", "explain", "settings"];
    commands.iter().fold(with_switches(Cli::command()), |command, name| {
        command.mut_subcommand(name, with_switches)
    })
}

fn environment(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

fn print_settings(
    raw: RawSettings,
    matches: &ArgMatches,
    out: &mut dyn Write,
) -> Result<ExitCode, Error> {
    for setting in effective(matches) {
        writeln!(out, "{setting}")?;
    }
    let settings = Settings::read(raw, matches, &environment)?;
    let paths = &settings.policies.paths;
    writeln!(out, "\npolicies: {}", list(paths.iter().map(|path| path.display().to_string())))?;
    match &settings.store.backend {
        Backend::Memory => writeln!(out, "buckets: in this process's memory")?,
        Backend::Redis(redis) => writeln!(out, "buckets: Redis, {}", redis.servers.topology)?,
    }
    for warning in settings.warnings.iter().chain(&settings.store.warnings) {
        writeln!(out, "warning: {warning}")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn serve(raw: RawSettings, matches: &ArgMatches) -> Result<ExitCode, Error> {
    let settings = Settings::read(raw, matches, &environment)?;
    let log = logging::start(settings.log);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(server::serve(settings, log));
    // A scrape or a load that still runs is not worth waiting for.
    runtime.shutdown_timeout(Duration::from_millis(100));
    Ok(served.map(|()| ExitCode::SUCCESS)?)
}

impl Check {
    fn run(self, out: &mut dyn Write, err: &mut dyn Write) -> Result<ExitCode, Error> {
        let options = server::config_options(&Policies::at(self.paths, &self.reading)?);
        match config::check(&options) {
            Ok(loaded) if loaded.n_files == 0 => {
                writeln!(err, "error: no policy files are found there")?;
                Ok(ExitCode::FAILURE)
            }
            Ok(loaded) if self.strict && !loaded.warnings.is_empty() => {
                write!(err, "{}", loaded.warnings)?;
                Ok(ExitCode::FAILURE)
            }
            Ok(loaded) => {
                if !loaded.warnings.is_empty() {
                    write!(err, "{}", loaded.warnings)?;
                }
                writeln!(out, "ok: {}", summary(&loaded))?;
                Ok(ExitCode::SUCCESS)
            }
            Err(report) => {
                write!(err, "{report}")?;
                Ok(ExitCode::FAILURE)
            }
        }
    }
}

impl Explain {
    fn run(self, out: &mut dyn Write, err: &mut dyn Write) -> Result<ExitCode, Error> {
        let policies = Policies::at(vec![self.path], &self.reading)?;
        let loaded = match config::check(&server::config_options(&policies)) {
            Ok(loaded) => loaded,
            Err(report) => {
                write!(err, "{report}")?;
                return Ok(ExitCode::FAILURE);
            }
        };
        let Some(domain) = loaded.rules.domains.get(self.domain.as_str()) else {
            return Err(unknown_domain(self.domain, &loaded));
        };
        for descriptor in &self.descriptors {
            let entries = Entries::read(descriptor)?;
            let explanation = rules::explain(&loaded.rules, domain, &entries.as_entries());
            writeln!(out, "{explanation}")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn summary(loaded: &Loaded) -> String {
    let count = |n: usize, noun: &str| format!("{n} {noun}{}", if n == 1 { "" } else { "s" });
    let n_domains = loaded.rules.domains.len();
    let rules = count(loaded.rules.rules.len(), "rule");
    let rules = format!("{rules} in {}", count(n_domains, "domain"));
    let n_routes = loaded.idempotency.routes.len();
    let routes = count(n_routes, "idempotent route");
    let what = match (n_domains, n_routes) {
        (_, 0) => rules,
        (0, _) => routes,
        (_, _) => format!("{rules} and {routes}"),
    };
    format!("{what} from {}", count(loaded.n_files, "file"))
}

fn unknown_domain(found: String, loaded: &Loaded) -> Error {
    let known = loaded.rules.sorted_domains().into_iter();
    Error::UnknownDomain { found, known: list(known.map(|domain| domain.name.to_string())) }
}

fn list(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
