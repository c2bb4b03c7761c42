//! The way from a domain to the descriptor that is being read.

use crate::rules::{Labels, Node};
use std::ops::Range;

/// `domain.key_value.key`, and what each level means for metrics.
#[derive(Debug)]
pub(super) struct Path {
    text: String,
    domain: usize,
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    /// Its part of the text.
    range: Range<usize>,
    /// Whether requests come here with different values.
    varies: bool,
    /// Whether the policy wants those values in the metrics.
    value_to_metric: bool,
}

impl Path {
    pub(super) fn new(domain: &str) -> Self {
        Self { text: domain.to_owned(), domain: domain.len(), steps: Vec::new() }
    }

    /// How many levels it has.
    pub(super) fn depth(&self) -> usize {
        self.steps.len()
    }

    /// The dotted text of all of it.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Goes down to a child.
    pub(super) fn push(&mut self, node: &Node) {
        self.text.push('.');
        let start = self.text.len();
        self.text.push_str(&node.label());
        self.steps.push(Step {
            range: start..self.text.len(),
            varies: if node.is_wildcard() { !node.share_threshold } else { node.value.is_none() },
            value_to_metric: node.value_to_metric,
        });
    }

    /// Goes back up.
    pub(super) fn pop(&mut self) {
        if let Some(step) = self.steps.pop() {
            self.text.truncate(step.range.start.saturating_sub(1));
        }
    }

    /// The metric labels of a rule here, from the policy alone.
    pub(super) fn labels(&self) -> Labels {
        let levels = self.steps.iter().filter_map(|step| self.text.get(step.range.clone()));
        Labels::new(self.text.get(..self.domain).unwrap_or_default(), levels)
    }

    /// Whether the labels of a rule here are to differ from request to request.
    pub(super) fn labels_vary(&self, detailed_metric: bool) -> bool {
        self.steps.iter().any(|step| step.varies && (step.value_to_metric || detailed_metric))
    }
}
