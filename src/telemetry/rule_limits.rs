//! `tidegate_rule_limit`: what each rule allows, to be joined with its hits.

use super::rule_series::{push, push_label, push_labels};
use crate::rules::{Allows, Rule, RuleLimit, RuleSet};
use std::collections::HashSet;

/// The lines of the gauge, as they are written.
#[derive(Debug, Default)]
pub(super) struct RuleLimits {
    lines: String,
}

const NAME: &str = "tidegate_rule_limit";

impl RuleLimits {
    /// At most `max` lines; of two limits with the same labels the first.
    pub(super) fn of(rules: &RuleSet, max: usize) -> Self {
        let mut seen = HashSet::new();
        let mut lines = String::new();
        for (rule, limit) in rules.rules.iter().flat_map(limits_of).take(max) {
            let labels = label_text(rule, limit);
            if seen.insert(labels.clone()) {
                push(&mut lines, format_args!("{NAME}{labels} {}\n", limit.limit.requests));
            }
        }
        Self { lines }
    }

    pub(super) fn render(&self, text: &mut String) {
        push(text, format_args!("# HELP {NAME} Hits that a limit allows per window.\n"));
        push(text, format_args!("# TYPE {NAME} gauge\n{}", self.lines));
    }
}

fn limits_of(rule: &Rule) -> impl Iterator<Item = (&Rule, &RuleLimit)> {
    let limits = match &rule.allows {
        Allows::Unlimited { .. } => &[],
        Allows::Limits(limits) => &limits[..],
    };
    limits.iter().map(move |limit| (rule, limit))
}

fn label_text(rule: &Rule, limit: &RuleLimit) -> String {
    let mut text = String::from("{");
    push_labels(&mut text, &rule.labels);
    text.push(',');
    push_label(&mut text, "name", &limit.name);
    text.push(',');
    push_label(&mut text, "algorithm", limit.limit.algorithm.name());
    push(&mut text, format_args!(",window_seconds=\"{}\"}}", limit.limit.window.ceil_secs()));
    text
}
