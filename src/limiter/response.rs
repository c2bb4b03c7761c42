//! What is answered.

use super::Policies;
use crate::rules::{FailureMode, Map, Rule, RuleId, RuleSet, Unit, merge};
use crate::store::StoreError;
use smallvec::SmallVec;
use std::sync::Arc;

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
    pub statuses: Statuses,
    /// The policies that decided; rule ids point into them.
    pub policies: Arc<Policies>,
}

/// One status per descriptor, in their order.
pub(super) type Statuses = SmallVec<[Status; 4]>;

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
    /// Its name. None rather than an empty one: a count that all threads share would be written
    /// at every request.
    pub name: Option<Arc<str>>,
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
    /// A refusal by the store that still held.
    DenyCache,
    /// The limit's failure mode, because the store could not.
    Fallback {
        /// The mode.
        mode: FailureMode,
        /// Why the store could not.
        reason: StoreError,
    },
}

impl Response {
    /// The rule that a status names.
    pub fn rule(&self, status: &Status) -> Option<&Rule> {
        self.policies.rules.rule(status.rule?)
    }
}

/// The `metadata` of all rules whose limits let their descriptors pass, in the order of the
/// descriptors; the first one wins.
pub fn passed_metadata(statuses: &[Status], rules: &RuleSet) -> Map {
    let passed = statuses.iter().filter(|status| status.code == Code::Ok && status.limit.is_some());
    let mut merged = Map::new();
    for found in passed.filter_map(|status| rules.rule(status.rule?)?.metadata.as_deref()) {
        merge(&mut merged, found);
    }
    merged
}

impl Status {
    /// Of a descriptor that nothing limits.
    pub(super) const NO_LIMIT: Self = Self {
        code: Code::Ok,
        rule: None,
        limit: None,
        remaining: 0,
        reset_seconds: None,
        refused: false,
        never_fits: false,
        quota: false,
        decided_by: DecidedBy::NoLimit,
    };
}
