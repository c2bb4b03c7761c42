//! The rules in force as text, a line per limit, for `/rlconfig`.

use super::plan::limits;
use crate::algorithm::Algorithm;
use crate::rules::{Rule, RuleLimit, RuleSet};
use std::fmt::Write;

/// A line per limit, in the order of the files: as the old server writes it, then what is new.
pub fn dump(rules: &RuleSet) -> String {
    let mut text = String::new();
    for rule in &rules.rules {
        let limits = limits(rule);
        if limits.is_empty() {
            write_line(&mut text, rule, None);
        }
        for limit in limits {
            write_line(&mut text, rule, Some(limit));
        }
    }
    text
}

fn write_line(text: &mut String, rule: &Rule, limit: Option<&RuleLimit>) {
    let unit = limit.map_or("UNKNOWN".to_owned(), |limit| limit.unit.name().to_uppercase());
    let requests = limit.map_or(0, |limit| limit.limit.requests);
    push(
        text,
        format_args!(
            "{}: unit={unit} requests_per_unit={requests}, shadow_mode: {}, quota_mode: {}",
            rule.path, rule.shadow_mode, rule.quota_mode
        ),
    );
    match limit {
        None => text.push_str(", unlimited: true"),
        Some(limit) => write_rest(text, limit),
    }
    text.push('\n');
}

fn write_rest(text: &mut String, limit: &RuleLimit) {
    let RuleLimit { limit: measure, unit_multiplier, failure_mode, .. } = limit;
    let algorithm = measure.algorithm;
    push(text, format_args!(", algorithm: {}", algorithm.name()));
    match algorithm {
        Algorithm::FixedWindow(anchor) => push(text, format_args!(", window: {}", anchor.name())),
        Algorithm::TokenBucket | Algorithm::LeakyBucket => {
            push(text, format_args!(", burst: {}", measure.burst));
        }
        Algorithm::SlidingWindowLog | Algorithm::SlidingWindowCounter => {}
    }
    push(text, format_args!(", unit_multiplier: {unit_multiplier}"));
    push(text, format_args!(", count_denied: {}", measure.count_denied));
    push(text, format_args!(", failure_mode: {}", failure_mode.name()));
    if !limit.name.is_empty() {
        push(text, format_args!(", name: {}", limit.name));
    }
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    _ = text.write_fmt(arguments);
}
