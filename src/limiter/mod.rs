//! The use case: match the descriptors, charge their buckets, combine the decisions.

mod account;
mod ask;
mod buckets;
mod charges;
mod combine;
mod denials;
mod dump;
mod failure;
mod hot;
mod plan;
mod policies;
mod request;
mod response;
mod shadow;
mod verdicts;

pub use buckets::BucketView;
pub use denials::DenialLog;
pub use dump::dump;
pub use failure::{Share, StandIn, StandInOptions};
pub use hot::Hottest;
pub use policies::Policies;
pub use request::{Descriptor, Override, Request};
pub use response::{Code, DecidedBy, Response, Status, StatusLimit, passed_metadata};
pub use shadow::ShadowSwitch;

use crate::rules::{Domain, FailureMode, RuleSet};
use crate::store::{MemoryStore, Store, StoreError};
use crate::telemetry::Metrics;
use arc_swap::ArcSwapOption;
use charges::Charges;
use combine::Decided;
use hot::Hot;
use plan::Plan;
use response::Statuses;
use std::sync::Arc;
use tokio::time::Instant;
use verdicts::Verdicts;

/// Answers requests from the policies that are loaded now.
#[derive(Debug)]
pub struct Limiter {
    policies: ArcSwapOption<Policies>,
    store: Store,
    stand_in: Option<StandIn>,
    metrics: Arc<Metrics>,
    options: Options,
    shadow: ShadowSwitch,
    denial_log: DenialLog,
    hot: Hot,
}

/// Process settings of the limiter.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `SHADOW_MODE`: decide and count, but answer OK.
    pub shadow_mode: bool,
    /// `QUOTA_MODE`: every limited descriptor counts as quota.
    pub quota_mode: bool,
    /// `NEAR_LIMIT_RATIO`: share of a capacity from which hits count as near.
    pub near_limit_ratio: f32,
    /// `STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT`: the whole request is one group.
    pub stop_when_over_limit: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            shadow_mode: false,
            quota_mode: false,
            near_limit_ratio: 0.8,
            stop_when_over_limit: false,
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The request names no domain.
    #[error("rate limit domain must not be empty")]
    EmptyDomain,
    /// The request holds no descriptor.
    #[error("rate limit descriptor list must not be empty")]
    NoDescriptors,
    /// No policies were ever loaded.
    #[error("no rate limit configuration loaded")]
    NoPolicies,
    /// An override's window is longer than a year.
    #[error("the window of a limit override must be at most a year")]
    OverrideTooLong,
    /// An override makes a log larger than any may be.
    #[error(
        "sliding_window_log keeps every request of a window: a limit override for it must be at most {0}"
    )]
    OverrideTooLarge(u32),
    /// The store could not decide.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Limiter {
    /// A limiter without policies yet. If the store fails, so do its requests.
    pub fn new(store: Store, metrics: Arc<Metrics>, options: Options) -> Self {
        Self {
            policies: ArcSwapOption::empty(),
            store,
            stand_in: None,
            metrics,
            options,
            shadow: ShadowSwitch::default(),
            denial_log: DenialLog::new(0),
            hot: Hot::default(),
        }
    }

    /// The same, where some refusals are logged.
    #[must_use]
    pub fn with_denial_log(self, denial_log: DenialLog) -> Self {
        Self { denial_log, ..self }
    }

    /// The same, where something stands in for the store when it fails.
    #[must_use]
    pub fn with_stand_in(self, stand_in: StandIn) -> Self {
        for mode in FailureMode::ALL {
            self.metrics.declare_fallback(mode, StoreError::ALL.map(StoreError::reason));
        }
        Self { stand_in: Some(stand_in), ..self }
    }

    /// Takes these rules from the next request on. Gives back those before: whoever drops them last
    /// frees them all, which should not be a request.
    pub fn install(&self, rules: RuleSet) -> Option<Arc<Policies>> {
        self.policies.swap(Some(Arc::new(Policies::new(rules, &self.metrics))))
    }

    /// The policies in force.
    pub fn policies(&self) -> Option<Arc<Policies>> {
        self.policies.load_full()
    }

    /// The switch that lets every request pass for a while.
    pub fn shadow(&self) -> &ShadowSwitch {
        &self.shadow
    }

    /// Whether every request may pass: by setting, or for a while.
    pub fn is_in_shadow(&self) -> bool {
        self.options.shadow_mode || self.shadow.left().is_some()
    }

    /// The buckets and hash slots that are asked most, at most so many of each.
    pub fn hottest(&self, at_most: usize) -> Hottest {
        self.hot.hottest(at_most)
    }

    /// Where the buckets are.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Answers a request. All of it by the policies that are in force when it arrives. `gives_up`
    /// is when the caller does.
    pub async fn decide(
        &self,
        request: &Request<'_>,
        gives_up: Option<Instant>,
    ) -> Result<Response, Error> {
        request.check()?;
        let policies = self.policies.load_full().ok_or(Error::NoPolicies)?;
        let statuses = match policies.rules.domains.get(request.domain) {
            None => self.count_unknown_domain(request),
            Some(domain) => match self.in_memory() {
                Some(memory) => self.decide_at_once(memory, domain, &policies, request)?,
                None => Box::pin(self.ask_and_wait(domain, &policies, request, gives_up)).await?,
            },
        };
        let response = Response { code: self.overall(&statuses), statuses, policies };
        self.log_denial(request.domain, &response);
        Ok(response)
    }

    fn count_unknown_domain(&self, request: &Request<'_>) -> Statuses {
        self.metrics.unknown_domain_requests.inc();
        request.descriptors.iter().map(|_| Status::NO_LIMIT).collect()
    }

    /// The store that answers without being waited for, and so needs none to stand in for it.
    fn in_memory(&self) -> Option<&MemoryStore> {
        match (&self.store, &self.stand_in) {
            (Store::Memory(memory), None) => Some(memory),
            _ => None,
        }
    }

    /// No future: what one keeps is copied several times on its way to where it is polled.
    fn decide_at_once(
        &self,
        memory: &MemoryStore,
        domain: &Domain,
        policies: &Policies,
        request: &Request<'_>,
    ) -> Result<Statuses, Error> {
        let mut plan = Plan::default();
        plan.fill(&policies.rules, domain, request)?;
        let Charges { batch, items } = Charges::of(domain, request, &plan, self.options, true);
        self.hot.note(&batch, &self.store);
        let verdicts = Verdicts::of_store(memory.decide(&batch));
        Ok(self
            .combine(&Decided { domain, policies, request, plan: &plan, items: &items }, &verdicts))
    }

    async fn ask_and_wait(
        &self,
        domain: &Domain,
        policies: &Policies,
        request: &Request<'_>,
        gives_up: Option<Instant>,
    ) -> Result<Statuses, Error> {
        let mut plan = Plan::default();
        plan.fill(&policies.rules, domain, request)?;
        let spans_tags = self.store.spans_tags();
        let Charges { batch, items } =
            Charges::of(domain, request, &plan, self.options, spans_tags);
        self.hot.note(&batch, &self.store);
        let verdicts = if batch.items.is_empty() {
            Verdicts::default()
        } else {
            self.ask(Arc::new(batch), &plan, &items, gives_up).await?
        };
        Ok(self
            .combine(&Decided { domain, policies, request, plan: &plan, items: &items }, &verdicts))
    }
}

#[cfg(test)]
mod tests;
