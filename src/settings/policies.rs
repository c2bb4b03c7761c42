//! Where policies are, and what holds for all of them.

use super::BOOL;
use super::faults::Faults;
use super::words::{self, Read};
use super::xds::XdsSettings;
use clap::ArgMatches;
use clap::parser::ValueSource;
use std::path::{Path, PathBuf};

/// Policies as they are asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Policies")]
pub(super) struct RawPolicies {
    /// Policy files and folders of them, with commas between; read again when they change
    #[arg(
        long,
        env = "POLICIES",
        value_name = "PATH",
        value_delimiter = ',',
        default_value = "config/policies"
    )]
    policies: Vec<String>,
    /// Folder of policies as envoyproxy/ratelimit names it: ROOT/SUBDIRECTORY/APPDIRECTORY
    #[arg(
        long,
        env = "RUNTIME_ROOT",
        value_name = "FOLDER",
        default_value = "/srv/runtime_data/current"
    )]
    runtime_root: String,
    /// Second part of that path
    #[arg(long, env = "RUNTIME_SUBDIRECTORY", value_name = "FOLDER", default_value = "")]
    runtime_subdirectory: String,
    /// Third part of that path
    #[arg(long, env = "RUNTIME_APPDIRECTORY", value_name = "FOLDER", default_value = "config")]
    runtime_appdirectory: String,
    #[command(flatten)]
    reading: RawReading,
    /// Say ready although no policy is found, or before an xDS server has sent any
    #[arg(long, env = "FORCE_START_WITHOUT_INITIAL_CONFIG", value_name = BOOL, default_value = "false")]
    force_start_without_initial_config: String,
    /// Say ready only once a policy is loaded, in spite of `FORCE_START_WITHOUT_INITIAL_CONFIG`
    #[arg(long, env = "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", value_name = BOOL, default_value = "false")]
    healthy_with_at_least_one_config_loaded: String,
}

/// How policies are read, as it is asked for: all of it that `check` has to know.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Policies")]
pub struct RawReading {
    /// Skip files and folders whose names begin with a dot (`..` always is)
    #[arg(long, env = "RUNTIME_IGNOREDOTFILES", value_name = BOOL, default_value = "false")]
    runtime_ignoredotfiles: String,
    /// Allow one domain in several files
    #[arg(long, alias = "merge-domains", env = "MERGE_DOMAIN_CONFIG", value_name = BOOL, default_value = "false")]
    merge_domain_config: String,
    /// Algorithm of rules that name none: `fixed_window`, `sliding_window_counter` or `token_bucket`
    #[arg(
        long,
        env = "DEFAULT_ALGORITHM",
        value_name = "ALGORITHM",
        default_value = "fixed_window"
    )]
    default_algorithm: String,
    /// Answer of rules that name none when the store cannot decide: `open`, `closed`, `local` or `error`
    #[arg(long, env = "DEFAULT_FAILURE_MODE", value_name = "MODE", default_value = "local")]
    default_failure_mode: String,
}

/// Where policies are, and what holds for all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policies {
    /// The server that they come from, if they do not come from files.
    pub xds: Option<XdsSettings>,
    /// Files and folders.
    pub paths: Vec<PathBuf>,
    /// Whether dot files are skipped.
    pub ignore_dot_files: bool,
    /// Whether one domain may stand in several files.
    pub merge_domains: bool,
    /// Algorithm of rules that name none.
    pub default_algorithm: DefaultAlgorithm,
    /// Failure mode of rules that name none.
    pub default_failure_mode: DefaultFailureMode,
    /// What must be in force before the server is ready.
    pub ready_once: ReadyOnce,
}

/// What must be in force before the server is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadyOnce {
    /// A domain.
    #[default]
    Domain,
    /// Whatever there is, if only nothing.
    Loaded,
    /// Nothing: not even an answer of the xDS server is waited for.
    Started,
}

/// What the settings ask of readiness.
#[derive(Clone, Copy, Debug)]
struct Needs {
    forced: bool,
    domain: bool,
}

impl Needs {
    /// No domain from an xDS server is what somebody wants; an empty folder most often is not.
    fn of_readiness(self, over_xds: bool) -> ReadyOnce {
        match (self.domain, self.forced, over_xds) {
            (true, _, _) | (false, false, false) => ReadyOnce::Domain,
            (false, true, true) => ReadyOnce::Started,
            (false, ..) => ReadyOnce::Loaded,
        }
    }
}

/// Algorithms that can be the process's default: those that any limit has all the fields for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultAlgorithm {
    /// `fixed_window`
    #[default]
    FixedWindow,
    /// `sliding_window_counter`
    SlidingWindowCounter,
    /// `token_bucket`
    TokenBucket,
}

/// Failure modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultFailureMode {
    /// `open`
    Open,
    /// `closed`
    Closed,
    /// `local`
    #[default]
    Local,
    /// `error`
    Error,
}

/// Which variables of paths were set, whatever to.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathsSet {
    pub(super) policies: bool,
    pub(super) runtime: bool,
}

impl PathsSet {
    pub(super) fn of(matches: &ArgMatches) -> Self {
        let is_set = |id: &str| {
            matches.value_source(id).is_some_and(|source| source != ValueSource::DefaultValue)
        };
        let runtime = ["runtime_root", "runtime_subdirectory", "runtime_appdirectory"];
        Self { policies: is_set("policies"), runtime: runtime.into_iter().any(is_set) }
    }
}

impl RawReading {
    /// Everything but where policies are.
    fn read(&self, faults: &mut Faults) -> Option<Policies> {
        let ignore_dot_files =
            faults.read("RUNTIME_IGNOREDOTFILES", &self.runtime_ignoredotfiles, words::boolean);
        let merge = faults.read("MERGE_DOMAIN_CONFIG", &self.merge_domain_config, words::boolean);
        let algorithm = faults.read("DEFAULT_ALGORITHM", &self.default_algorithm, algorithm);
        let failure = faults.read("DEFAULT_FAILURE_MODE", &self.default_failure_mode, failure_mode);
        Some(Policies {
            ignore_dot_files: ignore_dot_files?,
            merge_domains: merge?,
            default_algorithm: algorithm?,
            default_failure_mode: failure?,
            ..Policies::default()
        })
    }
}

impl Policies {
    /// Policies at these paths.
    pub fn at(paths: Vec<PathBuf>, reading: &RawReading) -> Result<Self, Faults> {
        let mut faults = Faults::default();
        let policies = reading.read(&mut faults);
        let policies = policies.map(|policies| Self { paths, ..policies });
        policies.filter(|_| faults.is_empty()).ok_or(faults)
    }
}

impl RawPolicies {
    /// `xds` is the server that they come from, if they do not come from files.
    pub(super) fn read(
        self,
        set: PathsSet,
        xds: Option<XdsSettings>,
        faults: &mut Faults,
    ) -> Option<Policies> {
        let reading = self.reading.read(faults);
        let needs = self.needs(faults);
        Some(Policies {
            ready_once: needs?.of_readiness(xds.is_some()),
            xds,
            paths: self.paths(set),
            ..reading?
        })
    }

    fn needs(&self, faults: &mut Faults) -> Option<Needs> {
        let forced = &self.force_start_without_initial_config;
        let forced = faults.read("FORCE_START_WITHOUT_INITIAL_CONFIG", forced, words::boolean);
        let domain = &self.healthy_with_at_least_one_config_loaded;
        let domain = faults.read("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", domain, words::boolean);
        Some(Needs { forced: forced?, domain: domain? })
    }

    /// `POLICIES` wins if it names something; else the folder of `RUNTIME_*` does if one is set.
    fn paths(&self, set: PathsSet) -> Vec<PathBuf> {
        let named = self.policies.iter().map(|path| path.trim()).filter(|path| !path.is_empty());
        let named: Vec<PathBuf> = named.map(PathBuf::from).collect();
        if set.runtime && (named.is_empty() || !set.policies) {
            return vec![
                Path::new(&self.runtime_root)
                    .join(self.runtime_subdirectory.trim_start_matches('/'))
                    .join(self.runtime_appdirectory.trim_start_matches('/')),
            ];
        }
        if named.is_empty() { vec!["config/policies".into()] } else { named }
    }
}

fn algorithm(text: &str) -> Read<DefaultAlgorithm> {
    match text {
        "" | "fixed_window" => Ok(DefaultAlgorithm::FixedWindow),
        "sliding_window_counter" => Ok(DefaultAlgorithm::SlidingWindowCounter),
        "token_bucket" => Ok(DefaultAlgorithm::TokenBucket),
        _ => Err("`fixed_window`, `sliding_window_counter` or `token_bucket`"),
    }
}

fn failure_mode(text: &str) -> Read<DefaultFailureMode> {
    match text {
        "open" => Ok(DefaultFailureMode::Open),
        "closed" => Ok(DefaultFailureMode::Closed),
        "" | "local" => Ok(DefaultFailureMode::Local),
        "error" => Ok(DefaultFailureMode::Error),
        _ => Err("`open`, `closed`, `local` or `error`"),
    }
}
