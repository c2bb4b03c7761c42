//! The use case: match the descriptors, charge their buckets, combine the decisions.

mod account;
mod combine;

use crate::algorithm::Charge;
use crate::rules::{Entry, RuleId, RuleSet, Unit};
use crate::store::Store;
use crate::telemetry::{Metrics, RuleSeries};
use arc_swap::ArcSwapOption;
use smallvec::SmallVec;
use std::sync::Arc;

/// Answers requests from the policies that are loaded now.
#[derive(Debug)]
pub struct Limiter {
    policies: ArcSwapOption<Policies>,
    store: Store,
    metrics: Arc<Metrics>,
    options: Options,
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

/// Rules with the series they count in.
#[derive(Debug)]
pub struct Policies {
    /// The rules.
    pub rules: RuleSet,
    /// One per rule of fixed labels, in the order of the rules.
    series: Box<[Option<Arc<RuleSeries>>]>,
}

/// May these pass now?
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Names the policies.
    pub domain: &'a str,
    /// What is limited.
    pub descriptors: SmallVec<[Descriptor<'a>; 4]>,
}

/// One thing that is limited.
#[derive(Clone, Debug)]
pub struct Descriptor<'a> {
    /// What it is, from the general to the special.
    pub entries: SmallVec<[Entry<'a>; 4]>,
    /// What it costs.
    pub charge: Charge,
    /// A limit that takes the place of the policies'.
    pub limit_override: Option<Override>,
}

/// A limit that a request brings along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Override {
    /// Hits per window.
    pub requests: u32,
    /// Unit of the window.
    pub unit: Unit,
    /// The window is unit × this; 0 means 1.
    pub unit_multiplier: u32,
}

/// Whether something may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// It may.
    Ok,
    /// It may not.
    OverLimit,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct Response {
    /// Whether the request may pass.
    pub code: Code,
    /// One per descriptor, in their order.
    pub statuses: SmallVec<[Status; 4]>,
    /// The policies that decided; rule ids point into them.
    pub policies: Arc<Policies>,
}

/// The answer to one descriptor.
#[derive(Clone, Debug)]
pub struct Status {
    /// Whether it may pass; shadow rules always say so.
    pub code: Code,
    /// The rule that matched, if one did.
    pub rule: Option<RuleId>,
    /// The limit that the other fields speak of.
    pub limit: Option<StatusLimit>,
    /// Hits that would still be admitted; `u32::MAX` when unlimited.
    pub remaining: u32,
    /// Whole seconds, at least 1: when refused (also in shadow) until the charge would be
    /// admitted, else until the bucket is as if unused.
    pub reset_seconds: Option<u64>,
    /// Whether its limit said no, whatever `code` says.
    pub refused: bool,
    /// Whether it can never be admitted as it is.
    pub never_fits: bool,
    /// Whether it counts as quota.
    pub quota: bool,
    /// Who decided.
    pub decided_by: DecidedBy,
}

/// The limit that a status speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusLimit {
    /// Hits per window.
    pub requests: u32,
    /// Unit of the window.
    pub unit: Unit,
    /// The window is unit × this.
    pub unit_multiplier: u32,
    /// Its name, empty if none.
    pub name: Arc<str>,
}

/// Who decided a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedBy {
    /// No limit applies.
    NoLimit,
    /// The rule says unlimited.
    Unlimited,
    /// The store.
    Store,
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
}

impl Limiter {
    /// A limiter without policies yet.
    pub fn new(store: Store, metrics: Arc<Metrics>, options: Options) -> Self {
        Self { policies: ArcSwapOption::empty(), store, metrics, options }
    }

    /// Takes these rules from the next request on.
    pub fn install(&self, rules: RuleSet) {
        todo!("{rules:?}")
    }

    /// The policies in force.
    pub fn policies(&self) -> Option<Arc<Policies>> {
        self.policies.load_full()
    }

    /// Answers a request.
    pub async fn decide(&self, request: &Request<'_>) -> Result<Response, Error> {
        todo!("{request:?}")
    }
}
