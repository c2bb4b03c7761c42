//! Tests of the rules, and the small trees they are made on.

mod explanations;
mod keys;
mod labels;
mod limits;
mod matching;
mod patterns;
mod sets;

use super::*;
use crate::algorithm::{Algorithm, Anchor};

/// A descriptor of a policy, before it is compiled.
pub(super) struct Sketch {
    node: Node,
    allows: Option<Allows>,
    detailed: bool,
    children: Vec<Sketch>,
}

pub(super) fn key(key: &str) -> Sketch {
    let node = Node { key: key.into(), ..Node::default() };
    Sketch { node, allows: None, detailed: false, children: Vec::new() }
}

pub(super) fn pair(name: &str, value: &str) -> Sketch {
    let mut sketch = key(name);
    sketch.node.value = Some(value.into());
    sketch
}

impl Sketch {
    pub(super) fn per(self, requests: u32, unit: Unit) -> Self {
        self.limits([defaults().limit(requests, unit, 1).unwrap()])
    }

    pub(super) fn limits(mut self, limits: impl IntoIterator<Item = RuleLimit>) -> Self {
        self.allows = Some(Allows::Limits(limits.into_iter().collect()));
        self
    }

    pub(super) fn unlimited(mut self) -> Self {
        self.allows = Some(Allows::Unlimited { name: Arc::default(), replaces: Box::default() });
        self
    }

    pub(super) fn detailed(mut self) -> Self {
        self.detailed = true;
        self
    }

    pub(super) fn value_to_metric(mut self) -> Self {
        self.node.value_to_metric = true;
        self
    }

    pub(super) fn shared(mut self) -> Self {
        self.node.share_threshold = true;
        self
    }

    pub(super) fn strip_query(mut self) -> Self {
        self.node.strip_query = true;
        self
    }

    pub(super) fn over(mut self, children: impl IntoIterator<Item = Self>) -> Self {
        self.children = children.into_iter().collect();
        self
    }

    fn compile(self, path: &str, rules: &mut Vec<Rule>) -> Node {
        let path = format!("{path}.{}", self.node.label());
        let rule = self.allows.map(|allows| {
            let id = RuleId(rules.len().try_into().unwrap());
            rules.push(rule(&path, allows, self.detailed, id.0 + 1));
            id
        });
        let children = self.children.into_iter().map(|child| child.compile(&path, rules)).collect();
        Node { rule, children: Level::new(children), ..self.node }
    }
}

fn rule(path: &str, allows: Allows, detailed_metric: bool, line: u32) -> Rule {
    Rule {
        source: Source { file: "rules.yaml".into(), line },
        path: path.into(),
        allows,
        shadow_mode: false,
        quota_mode: false,
        detailed_metric,
        metadata: None,
        labels: Labels::new(path, std::iter::empty()),
        labels_vary: false,
    }
}

pub(super) fn defaults() -> Defaults {
    Defaults::default()
}

pub(super) fn rule_set(name: &str, roots: impl IntoIterator<Item = Sketch>) -> RuleSet {
    let mut set = RuleSet::default();
    let roots = roots.into_iter().map(|root| root.compile(name, &mut set.rules)).collect();
    set.domains.insert(name.into(), Domain { root: Level::new(roots), ..domain(name) });
    set
}

pub(super) fn domain(name: &str) -> Domain {
    Domain {
        name: name.into(),
        root: Level::default(),
        hash_tag: Box::default(),
        consume: Consume::default(),
        defaults: defaults(),
        denied: None,
    }
}

/// `key=value` each.
pub(super) fn entries<'a>(pairs: &[&'a str]) -> Vec<Entry<'a>> {
    let entry = |pair: &&'a str| pair.split_once('=').unwrap();
    pairs.iter().map(entry).map(|(key, value)| Entry { key, value }).collect()
}

impl RuleSet {
    pub(super) fn only_domain(&self) -> &Domain {
        self.domains.values().next().unwrap()
    }

    /// The path of the rule that answers.
    fn path_for(&self, pairs: &[&str]) -> Option<&str> {
        let matched = self.only_domain().find(&entries(pairs))?;
        Some(&self.rule(matched.rule)?.path)
    }

    /// What the buckets of a descriptor are counted by.
    fn bucket_values(&self, pairs: &[&str]) -> Vec<String> {
        let entries = entries(pairs);
        let matched = self.only_domain().find(&entries).unwrap();
        let pairs = matched.nodes.iter().zip(&entries);
        pairs.map(|(node, entry)| node.bucket_value(entry.value).to_owned()).collect()
    }
}
