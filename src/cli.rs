//! The command line: serve, check, explain; each a thin call into the library.

use crate::config::{self, Loaded};
use crate::rules;
use crate::server::{self, Entries, NoEntries};
use crate::settings::{Faults, RawSettings, Settings, with_switches};
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
    /// Allow one domain in several files
    #[arg(long)]
    merge_domains: bool,
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

/// Runs the command that the arguments name. Ends the process itself for `--help` and the like.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<ExitCode, Error> {
    let matches = command().get_matches_from(arguments);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match cli.command {
        None => serve(cli.settings, &matches),
        Some(Command::Serve(settings)) => {
            serve(*settings, matches.subcommand_matches("serve").unwrap_or(&matches))
        }
        Some(Command::Check(check)) => check.run(&mut io::stdout(), &mut io::stderr()),
        Some(Command::Explain(explain)) => explain.run(&mut io::stdout(), &mut io::stderr()),
    }
}

fn command() -> clap::Command {
    with_switches(Cli::command()).mut_subcommand("serve", with_switches)
}

fn serve(raw: RawSettings, matches: &ArgMatches) -> Result<ExitCode, Error> {
    let environment =
        |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
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
        let options = options(self.paths, self.merge_domains);
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
        let loaded = match config::check(&options(vec![self.path], true)) {
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

/// As a server reads policies without further settings.
fn options(paths: Vec<PathBuf>, merge_domains: bool) -> config::Options {
    let policies = crate::settings::Policies { paths, merge_domains, ..Default::default() };
    server::config_options(&policies)
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
    let known: Vec<&str> = known.map(|domain| &*domain.name).collect();
    Error::UnknownDomain { found, known: known.join(", ") }
}
