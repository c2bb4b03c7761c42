//! Why a rule answers a descriptor, and why the near misses do not.

mod hints;
mod text;

pub use hints::Hint;

use super::{
    Allows, Domain, Entry, Level, Node, Rule, RuleId, RuleLimit, RuleSet, Source, write_key,
};

/// What `tidegate explain` says of one descriptor.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// How each entry was answered, up to the first that was not.
    pub steps: Vec<Step>,
    /// What applies.
    pub outcome: Outcome,
    /// What is close to the descriptor but does not answer it.
    pub hints: Vec<Hint>,
}

/// One entry and the node that answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The entry, as `key=value`.
    pub entry: String,
    /// The node, as `key` or `key=value`; `None` if no node does.
    pub node: Option<String>,
    /// Why that node.
    pub how: How,
}

/// Why a node answers an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Its key and value are those of the entry.
    Exact,
    /// It is the first pattern in the file that matches.
    Pattern {
        /// Its place among the patterns of its level, from 1.
        place: usize,
        /// How many patterns there are.
        of: usize,
    },
    /// It takes any value that nothing else takes.
    Default,
    /// No node answers.
    Nothing,
}

/// What applies to a descriptor.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A rule with limits.
    Limited {
        /// The rule.
        rule: RuleAt,
        /// Whether it only counts and never refuses.
        shadow_mode: bool,
        /// Whether it refuses only together with the request's other quota rules.
        quota_mode: bool,
        /// Its limits, with the bucket that this descriptor is counted in.
        limits: Vec<(RuleLimit, String)>,
    },
    /// A rule that lets everything pass.
    Unlimited(RuleAt),
    /// The last entry's node exists to have no limit.
    Whitelisted,
    /// Rules stand deeper: the nodes that one more entry could reach.
    TooShort(Vec<String>),
    /// Nothing stands below the last node: the number of entries that the tree holds here.
    TooDeep(usize),
    /// No node of that level answers the last step's entry.
    NoMatch,
    /// There is no entry.
    Empty,
}

/// A rule and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleAt {
    /// As in metrics: `domain.key_value`.
    pub path: String,
    /// Where it stands.
    pub source: Source,
}

/// Explains the match of `entries` in a domain of the rule set.
pub fn explain(rules: &RuleSet, domain: &Domain, entries: &[Entry<'_>]) -> Explanation {
    let walk = Walk::new(domain, entries);
    let outcome = outcome(rules, domain, entries, &walk);
    let has_rule = matches!(outcome, Outcome::Limited { .. } | Outcome::Unlimited(_));
    let hints = hints::hints(rules, domain, entries, &walk, has_rule);
    Explanation { steps: walk.steps(entries), outcome, hints }
}

/// The way of a descriptor down the tree: the levels it came through and the nodes it took.
struct Walk<'a> {
    levels: Vec<&'a Level>,
    nodes: Vec<&'a Node>,
}

impl<'a> Walk<'a> {
    fn new(domain: &'a Domain, entries: &[Entry<'_>]) -> Self {
        let mut walk = Self { levels: Vec::new(), nodes: Vec::new() };
        let mut level = &domain.root;
        for &entry in entries {
            walk.levels.push(level);
            let Some(node) = level.find(entry) else { break };
            walk.nodes.push(node);
            level = &node.children;
        }
        walk
    }

    fn steps(&self, entries: &[Entry<'_>]) -> Vec<Step> {
        let levels = self.levels.iter().zip(entries).enumerate();
        levels.map(|(at, (level, entry))| step(level, entry, self.nodes.get(at).copied())).collect()
    }
}

fn step(level: &Level, entry: &Entry<'_>, node: Option<&Node>) -> Step {
    let how = node.map_or(How::Nothing, |node| how(level, node));
    Step { entry: entry_text(*entry), node: node.map(node_text), how }
}

fn how(level: &Level, node: &Node) -> How {
    if node.is_wildcard() {
        let patterns: Vec<_> = level.nodes().iter().filter(|node| node.is_wildcard()).collect();
        let before = patterns.iter().take_while(|&&pattern| !std::ptr::eq(pattern, node)).count();
        return How::Pattern { place: before + 1, of: patterns.len() };
    }
    if node.value.is_some() { How::Exact } else { How::Default }
}

fn outcome(rules: &RuleSet, domain: &Domain, entries: &[Entry<'_>], walk: &Walk<'_>) -> Outcome {
    let Some(last) = walk.nodes.last() else {
        return if entries.is_empty() { Outcome::Empty } else { Outcome::NoMatch };
    };
    let ends_here = walk.nodes.len() == entries.len();
    let is_leaf = last.children.nodes().is_empty();
    let rule = last.rule.and_then(|id| rules.rule(id));
    match (ends_here, rule) {
        (true, Some(rule)) => answer(rule, domain, entries, &walk.nodes),
        (true, None) if is_leaf => Outcome::Whitelisted,
        (true, None) => Outcome::TooShort(last.children.nodes().iter().map(node_text).collect()),
        (false, _) if is_leaf => Outcome::TooDeep(walk.nodes.len()),
        (false, _) => Outcome::NoMatch,
    }
}

fn answer(rule: &Rule, domain: &Domain, entries: &[Entry<'_>], nodes: &[&Node]) -> Outcome {
    let Allows::Limits(limits) = &rule.allows else { return Outcome::Unlimited(RuleAt::new(rule)) };
    let counted = nodes
        .iter()
        .zip(entries)
        .map(|(node, entry)| Entry { key: entry.key, value: node.bucket_value(entry.value) });
    let bucket = |limit: &RuleLimit| {
        let mut key = String::new();
        write_key(&mut key, domain, counted.clone(), &limit.kind);
        key
    };
    Outcome::Limited {
        rule: RuleAt::new(rule),
        shadow_mode: rule.shadow_mode,
        quota_mode: rule.quota_mode,
        limits: limits.iter().map(|limit| (limit.clone(), bucket(limit))).collect(),
    }
}

impl RuleAt {
    fn new(rule: &Rule) -> Self {
        Self { path: rule.path.as_ref().to_owned(), source: rule.source.clone() }
    }

    fn find(rules: &RuleSet, id: RuleId) -> Option<Self> {
        rules.rule(id).map(Self::new)
    }
}

fn entry_text(entry: Entry<'_>) -> String {
    format!("{}={}", entry.key, entry.value)
}

fn node_text(node: &Node) -> String {
    match &node.value {
        Some(value) => format!("{}={value}", node.key),
        None => node.key.as_ref().to_owned(),
    }
}
