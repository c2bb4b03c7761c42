//! Rules in force, with the metric series that they count in.

use crate::rules::{Domain, RuleId, RuleSet};
use crate::telemetry::{Metrics, RuleSeries};
use prometheus::IntCounter;
use std::collections::HashMap;
use std::sync::Arc;

/// Rules with the series they count in.
#[derive(Debug)]
pub struct Policies {
    /// The rules.
    pub rules: RuleSet,
    /// One per rule of fixed labels, in the order of the rules.
    series: Box<[Option<Arc<RuleSeries>>]>,
    /// Descriptors that nothing limits, by domain.
    unmatched: HashMap<Box<str>, IntCounter, ahash::RandomState>,
}

impl Policies {
    pub(super) fn new(rules: RuleSet, metrics: &Metrics) -> Self {
        let series = (rules.rules.iter())
            .map(|rule| (!rule.labels_vary).then(|| metrics.rule_series(&rule.labels)));
        let unmatched = rules.domains.keys();
        Self {
            series: series.collect(),
            unmatched: unmatched
                .map(|name| (name.clone(), metrics.unmatched_descriptors(name)))
                .collect(),
            rules,
        }
    }

    /// The series of a rule whose labels are the same for every request.
    pub(super) fn series(&self, rule: RuleId) -> Option<&RuleSeries> {
        self.series.get(usize::try_from(rule.0).ok()?)?.as_deref()
    }

    pub(super) fn count_unmatched(&self, domain: &Domain) {
        if let Some(counter) = self.unmatched.get(&domain.name) {
            counter.inc();
        }
    }
}
