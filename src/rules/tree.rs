//! The compiled descriptor tree: exact values first, then patterns in file order, then the default.

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
        todo!("{nodes:?}")
    }

    /// The nodes in the order of the file.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }
}

impl Domain {
    /// The rule for a descriptor: the one that stands exactly where its last entry ends.
    pub fn find(&self, entries: &[Entry<'_>]) -> Option<Match<'_>> {
        todo!("{entries:?}")
    }
}

impl Node {
    /// The part of a request's value that buckets are counted by: the shared pattern, the value
    /// without its query, or the value.
    pub fn bucket_value<'a>(&'a self, value: &'a str) -> &'a str {
        todo!("{value}")
    }
}
