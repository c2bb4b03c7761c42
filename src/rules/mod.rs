//! What applies to a request. Pure: compiled policies, matching, bucket keys, metric labels.

mod denied;
mod explain;
pub mod idempotency;
mod index;
mod key;
mod labels;
mod lease;
mod limit;
mod metadata;
mod middle;
mod pattern;
mod tree;
#[cfg(test)]
mod tests;

pub use explain::{Explanation, Hint, How, Outcome, RuleAt, Step, explain};
pub use key::{KeyRange, write_key};
pub use labels::Labels;
pub use lease::OnLeaseExpired;
pub use limit::{Defaults, FailureMode, LimitParts, RuleLimit, Unit};
pub use metadata::{Map, Value, merge};
pub use tree::{Level, Match, Node};

use std::collections::HashMap;
use std::sync::Arc;

/// All policies that are loaded together. Requests see one rule set or another, never a mixture.
#[derive(Debug, Default)]
pub struct RuleSet {
    /// By name.
    pub domains: HashMap<Box<str>, Domain, ahash::RandomState>,
    /// Every rule of every domain, in the order of the files.
    pub rules: Vec<Rule>,
}

/// Place of a rule in [`RuleSet::rules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub u32);

/// A namespace of policies.
#[derive(Debug)]
pub struct Domain {
    /// Its name.
    pub name: Box<str>,
    /// Top-level descriptors.
    pub root: Level,
    /// Descriptor keys whose values form the hash tag; empty: the whole descriptor does.
    pub hash_tag: Box<[Box<str>]>,
    /// What a request that one limit refuses does to the others of the same tag.
    pub consume: Consume,
    /// What limits are made of where rule or request name nothing.
    pub defaults: Defaults,
    /// Body of a refusal.
    pub denied: Option<DeniedBody>,
}

/// Whether a request refused by one limit still consumes the others with the same tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consume {
    /// Each descriptor decides for itself.
    #[default]
    Each,
    /// All or none.
    AllOrNothing,
}

/// Body of a refusal, with `{rule}`, `{limit}` and `{reset}` still to be filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeniedBody {
    /// The template.
    pub template: Box<str>,
    /// Its content type, if not Envoy's `text/plain`.
    pub content_type: Option<Box<str>>,
}

/// A descriptor node that carries a limit.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "three are flags of the policy, in any mixture")]
pub struct Rule {
    /// Where it stands.
    pub source: Source,
    /// Dotted path as in metrics and `/rlconfig`: `domain.key_value.key`.
    pub path: Box<str>,
    /// What it allows.
    pub allows: Allows,
    /// Decide and count, but never refuse.
    pub shadow_mode: bool,
    /// Refuse only together with all other quota rules of the request.
    pub quota_mode: bool,
    /// Whether its metrics name every value of the request.
    pub detailed_metric: bool,
    /// Returned in dynamic metadata when it passes.
    pub metadata: Option<Arc<Map>>,
    /// Its metric labels, from the policy alone.
    pub labels: Labels,
    /// Whether its series are labelled anew for each request instead, with values of it.
    pub labels_vary: bool,
}

/// What a rule allows.
#[derive(Debug)]
pub enum Allows {
    /// Everything.
    Unlimited {
        /// Its name, empty if none.
        name: Arc<str>,
        /// Names of limits that this one removes from the request.
        replaces: Box<[Box<str>]>,
    },
    /// What all of these allow: never empty.
    Limits(Box<[RuleLimit]>),
}

/// A place in a policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Path as it was read.
    pub file: Arc<str>,
    /// From 1.
    pub line: u32,
}

/// One entry of a request's descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its key.
    pub key: &'a str,
    /// Its value, possibly empty.
    pub value: &'a str,
}

impl RuleSet {
    /// The rule with that id, if it is of this set.
    pub fn rule(&self, id: RuleId) -> Option<&Rule> {
        self.rules.get(usize::try_from(id.0).ok()?)
    }

    /// Every domain, by name.
    pub fn sorted_domains(&self) -> Vec<&Domain> {
        let mut domains: Vec<_> = self.domains.values().collect();
        domains.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        domains
    }
}
