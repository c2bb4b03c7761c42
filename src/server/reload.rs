//! Puts policies in force, at the start and whenever they change; keeps the last good ones.

use super::health::Health;
use super::source::Source;
use crate::algorithm::{Algorithm, Anchor};
use crate::clock::Clock;
use crate::config::{self, Loaded, Report};
use crate::envoy::xds::{Offer, Set};
use crate::limiter::{Limiter, Policies};
use crate::rules::RuleSet;
use crate::settings::servers::Address;
use crate::telemetry::{ConfigFacts, Metrics};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::Signal;
use tokio::sync::mpsc;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::{Instant, sleep};

/// How long requests may hold rules that are no longer in force.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// Loads policies. One at a time: whoever holds it.
#[derive(Debug)]
pub(super) struct Reload {
    pub(super) options: config::Options,
    /// The server that sends them, if they are not read from the options' paths.
    pub(super) xds: Option<Address>,
    pub(super) limiter: Arc<Limiter>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) health: Arc<Health>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) last: Last,
}

/// What the last loads came to.
#[derive(Debug, Default)]
pub(super) struct Last {
    /// Of the policies in force.
    version: Option<String>,
    /// Of the last load that failed, since one succeeded.
    fault: Option<Fault>,
    /// Whether somebody asked for a load, who is to read of a fault even if it is the same.
    asked: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Fault {
    Report(Report),
    NoRules,
}

impl Reload {
    /// Loads whenever there is something new, or the signal.
    pub(super) async fn run(self, source: Source, asked: Signal) {
        match source {
            Source::Files(changes) => self.run_files(changes, asked).await,
            Source::Xds(offers) => self.run_xds(offers, asked).await,
        }
    }

    async fn run_files(mut self, mut changes: mpsc::Receiver<()>, mut asked: Signal) {
        let mut watching = true;
        loop {
            tokio::select! {
                change = changes.recv(), if watching => watching = change.is_some(),
                Some(()) = asked.recv() => {
                    tracing::info!("asked to reload policies");
                    self.last.asked = true;
                }
                else => return,
            }
            self.load().await;
            self.last.asked = false;
        }
    }

    async fn run_xds(mut self, mut offers: mpsc::Receiver<Offer>, mut asked: Signal) {
        loop {
            tokio::select! {
                offer = offers.recv() => {
                    let Some(Offer { set, answer }) = offer else { return };
                    // Whoever offered them may be gone meanwhile.
                    let _ = answer.send(self.consider(set).await);
                }
                Some(()) = asked.recv() => {
                    tracing::info!("policies come over xDS: there is nothing to read again");
                }
            }
        }
    }

    /// Takes a set as a whole, or says why not.
    pub(super) async fn consider(&mut self, set: Result<Set, Report>) -> Result<(), String> {
        let options = self.options.clone();
        let compile = move || {
            let Set { documents, version } = set?;
            config::compile(&documents, version, &options)
        };
        match spawn_blocking(compile).await {
            Ok(Ok(loaded)) => {
                self.take(loaded).await;
                Ok(())
            }
            Ok(Err(report)) => {
                let text = report.to_string();
                self.refuse(Fault::Report(report));
                Err(text)
            }
            Err(error) => {
                tracing::error!(%error, "policies could not be compiled");
                Err("a defect of the server: they could not be compiled".to_owned())
            }
        }
    }

    /// Loads once. What fails is logged, counted, and changes nothing.
    pub(super) async fn load(&mut self) {
        let options = self.options.clone();
        match spawn_blocking(move || config::load(&options)).await {
            Ok(Ok(loaded)) => self.take(loaded).await,
            Ok(Err(report)) => self.refuse(Fault::Report(report)),
            // Only a defect ends here; the next change tries again.
            Err(error) => tracing::error!(%error, "policies could not be loaded"),
        }
    }

    async fn take(&mut self, loaded: Loaded) {
        if self.last.version.as_deref() == Some(&loaded.version) {
            if self.last.fault.take().is_some() {
                self.metrics.config_load_success.inc();
                tracing::info!(version = %loaded.version, "policies are sound again");
            } else {
                tracing::info!(version = %loaded.version, "policies have not changed");
            }
        } else if self.is_lost(&loaded.rules) {
            self.refuse(Fault::NoRules);
        } else {
            self.install(loaded).await;
        }
    }

    /// Rules in force are not given up for none: an empty folder, or a file that holds only its
    /// first line yet, is most often a mistake.
    fn is_lost(&self, rules: &RuleSet) -> bool {
        match self.last.version {
            // A server that sends none means it.
            _ if self.xds.is_some() => false,
            Some(_) => rules.rules.is_empty(),
            None => rules.domains.is_empty() && !self.health.needs_no_domains(),
        }
    }

    async fn install(&mut self, loaded: Loaded) {
        self.announce(&loaded);
        let Loaded { rules, warnings, version, .. } = loaded;
        let has_domains = !rules.domains.is_empty();
        let facts = ConfigFacts {
            version: version.clone(),
            n_warnings: warnings.faults.len(),
            loaded_at: self.clock.now(),
        };
        if let Err(error) = self.put_in_force(rules, facts).await {
            tracing::error!(%error, "policies could not be put in force");
            return;
        }
        self.last = Last { version: Some(version), ..Last::default() };
        self.health.installed(has_domains).await;
    }

    /// With very many rules each step takes a while: not for request threads.
    async fn put_in_force(&self, rules: RuleSet, facts: ConfigFacts) -> Result<(), JoinError> {
        let limiter = Arc::clone(&self.limiter);
        if let Some(old) = spawn_blocking(move || limiter.install(rules)).await? {
            free(old).await?;
        }
        let (limiter, metrics) = (Arc::clone(&self.limiter), Arc::clone(&self.metrics));
        spawn_blocking(move || {
            if let Some(policies) = limiter.policies() {
                metrics.config_loaded(&policies.rules, &facts);
            }
        })
        .await
    }

    fn announce(&self, loaded: &Loaded) {
        let Loaded { rules, warnings, n_files, version, n_default_algorithm, .. } = loaded;
        let (n_rules, n_domains) = (rules.rules.len(), rules.domains.len());
        if !warnings.is_empty() {
            tracing::warn!("policies have warnings\n{warnings}");
        }
        tracing::info!(
            n_rules, n_domains, n_files, %version, from = %self.origin(), "policies are loaded"
        );
        let default = self.options.defaults.algorithm;
        if default != Algorithm::FixedWindow(Anchor::Epoch) {
            let algorithm = default.name();
            tracing::info!(n_rules = n_default_algorithm, algorithm, "rules by DEFAULT_ALGORITHM");
        }
    }

    fn refuse(&mut self, fault: Fault) {
        let is_new = self.last.fault.as_ref() != Some(&fault);
        if is_new {
            self.metrics.config_load_error.inc();
        }
        if is_new || self.last.asked {
            self.log(&fault);
        }
        self.last.fault = Some(fault);
    }

    fn log(&self, fault: &Fault) {
        let in_force = if self.last.version.is_some() {
            "those in force stay"
        } else {
            "nothing is in force: requests get UNAVAILABLE until they can be loaded"
        };
        match fault {
            Fault::Report(report) => tracing::error!("policies are faulty; {in_force}\n{report}"),
            Fault::NoRules => {
                tracing::error!(from = %self.origin(), "no policies are found; {in_force}");
            }
        }
    }

    /// Where they come from, in words.
    fn origin(&self) -> String {
        if let Some(server) = &self.xds {
            return format!("xDS server {server}");
        }
        let paths: Vec<String> =
            self.options.paths.iter().map(|path| path.display().to_string()).collect();
        paths.join(", ")
    }
}

/// Waits until no request holds these rules any more, so that none has to free them.
async fn free(old: Arc<Policies>) -> Result<(), JoinError> {
    let end = Instant::now() + UNDER_WAY;
    while Arc::strong_count(&old) > 1 && Instant::now() < end {
        sleep(Duration::from_millis(1)).await;
    }
    spawn_blocking(move || drop(old)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::limiter;
    use crate::settings;
    use crate::store::{MemoryConfig, MemoryStore, Store};
    use std::fs;
    use std::path::Path;
    use std::pin::pin;
    use tokio::time::timeout;

    const POLICY: &str =
        "domain: shop\ndescriptors: [{ key: user, rate_limit: { unlimited: true } }]\n";

    async fn reload(folder: &Path, ready_without_domains: bool) -> Reload {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let config = MemoryConfig { max_buckets: 10 };
        let store = Store::Memory(MemoryStore::new(config, Arc::clone(&clock)));
        let metrics = Metrics::new(10);
        let options = limiter::Options::default();
        let policies =
            settings::Policies { paths: vec![folder.into()], ..settings::Policies::default() };
        Reload {
            options: super::super::config_options(&policies),
            xds: None,
            limiter: Arc::new(Limiter::new(store, Arc::clone(&metrics), options)),
            metrics,
            health: Health::new(ready_without_domains, true).await.0,
            clock,
            last: Last::default(),
        }
    }

    #[tokio::test]
    async fn a_fault_that_is_mended_by_what_was_there_before_is_a_success() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        let mut reload = reload(folder.path(), false).await;
        for text in [POLICY, "domain: [", "domain: [", POLICY, POLICY] {
            fs::write(&file, text).unwrap();
            reload.load().await;
        }
        let metrics = &reload.metrics;
        assert_eq!((metrics.config_load_success.get(), metrics.config_load_error.get()), (2, 1));
    }

    #[tokio::test]
    async fn rules_in_force_are_not_given_up_for_a_file_that_is_only_begun() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        let mut reload = reload(folder.path(), true).await;
        for text in [POLICY, "domain: m\n"] {
            fs::write(&file, text).unwrap();
            reload.load().await;
        }
        assert_eq!(reload.metrics.config_load_error.get(), 1);
        assert_eq!(reload.limiter.policies().unwrap().rules.rules.len(), 1);
    }

    #[tokio::test]
    async fn a_faulty_policy_is_no_reason_to_be_ready_and_an_empty_folder_may_be_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        for (may_be_empty, text, is_ready) in
            [(true, Some("domain: ["), false), (true, None, true), (false, None, false)]
        {
            let mut reload = reload(folder.path(), may_be_empty).await;
            match text {
                Some(text) => fs::write(&file, text).unwrap(),
                None => drop(fs::remove_file(&file)),
            }
            reload.load().await;
            assert_eq!(reload.health.is_ready(), is_ready, "{text:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_in_force_is_freed_once_no_request_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let reload = reload(folder.path(), false).await;
        assert!(reload.limiter.install(RuleSet::default()).is_none());
        let held = reload.limiter.policies().unwrap();
        let old = reload.limiter.install(RuleSet::default()).unwrap();
        assert!(Arc::ptr_eq(&held, &old));
        let watched = Arc::downgrade(&old);
        let mut freed = pin!(free(old));
        assert!(timeout(UNDER_WAY / 2, freed.as_mut()).await.is_err());
        drop(held);
        freed.await.unwrap();
        assert!(watched.upgrade().is_none());
    }
}
