//! The compiled descriptor tree: exact values first, then patterns in file order, then the default.

use super::index::Index;
use super::pattern::is_pattern;
use super::{Domain, Entry, RuleId};
use smallvec::SmallVec;

/// One descriptor of a policy.
#[derive(Debug, Default)]
pub struct Node {
    /// Its key; may hold `*`.
    pub key: Box<str>,
    /// Its value or pattern; `None` matches any value.
    pub value: Option<Box<str>>,
    /// The rule that answers when the request ends here.
    pub rule: Option<RuleId>,
    /// Whether all values that match its pattern share one bucket.
    pub share_threshold: bool,
    /// Whether its metric label holds the request's value.
    pub value_to_metric: bool,
    /// Whether the part of the value from `?` on is ignored.
    pub strip_query: bool,
    /// What stands below it.
    pub children: Level,
}

/// The nodes under one parent, indexed.
#[derive(Debug, Default)]
pub struct Level {
    nodes: Box<[Node]>,
    index: Option<Box<Index>>,
}

/// A rule that answers a descriptor.
#[derive(Clone, Debug)]
pub struct Match<'a> {
    /// The rule.
    pub rule: RuleId,
    /// The node that each entry matched, in order.
    pub nodes: SmallVec<[&'a Node; 4]>,
}

impl Level {
    /// Indexes nodes, in the order of the file. No two may have the same key and value.
    pub fn new(nodes: Vec<Node>) -> Self {
        let index = (!nodes.is_empty()).then(|| Box::new(Index::new(&nodes)));
        Self { nodes: nodes.into(), index }
    }

    /// The nodes in the order of the file.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node that answers an entry. There is no way back from it: if it leads nowhere, its
    /// siblings are not asked.
    pub fn find(&self, entry: Entry<'_>) -> Option<&Node> {
        self.nodes.get(self.index.as_ref()?.find(entry)?)
    }
}

impl Domain {
    /// The rule for a descriptor: the one that stands exactly where its last entry ends.
    pub fn find(&self, entries: &[Entry<'_>]) -> Option<Match<'_>> {
        let mut nodes = SmallVec::new();
        let mut level = &self.root;
        for &entry in entries {
            let node = level.find(entry)?;
            level = &node.children;
            nodes.push(node);
        }
        let rule = nodes.last().and_then(|node: &&Node| node.rule)?;
        Some(Match { rule, nodes })
    }
}

impl Node {
    /// Whether its key or value holds `*`: it is found as a pattern only, in file order.
    pub fn is_wildcard(&self) -> bool {
        is_pattern(&self.key) || self.value.as_deref().is_some_and(is_pattern)
    }

    /// Whether every value that matches it counts in one bucket.
    pub(super) fn is_shared(&self) -> bool {
        self.share_threshold && self.is_wildcard()
    }

    /// The part of a request's value that buckets are counted by: the shared pattern, the value
    /// without its query, or the value.
    pub fn bucket_value<'a>(&'a self, value: &'a str) -> &'a str {
        if self.is_shared() {
            self.value.as_deref().unwrap_or("*")
        } else {
            self.request_value(value)
        }
    }

    /// A request's value, without its query if that is ignored.
    pub(super) fn request_value<'a>(&self, value: &'a str) -> &'a str {
        if self.strip_query { without_query(value) } else { value }
    }
}

/// What stands before the first `?`.
pub(super) fn without_query(value: &str) -> &str {
    value.split_once('?').map_or(value, |(path, _)| path)
}
