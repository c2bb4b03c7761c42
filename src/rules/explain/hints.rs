//! Near misses: what an operator may have meant.

use super::super::pattern::matches;
use super::{Domain, Entry, Level, Node, RuleAt, RuleId, RuleSet, Walk, entry_text, node_text};

/// Something close to a descriptor that does not answer it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// A node further back would lead to a rule, but another goes before it.
    NotAsked {
        /// The node that was taken.
        taken: String,
        /// The node that was not asked.
        other: String,
        /// The rule that it leads to.
        rule: RuleAt,
    },
    /// The same entries in this order have a rule.
    Order(Vec<String>, RuleAt),
    /// Without this entry there is a rule.
    Extra(String, RuleAt),
    /// A node differs from the entry in letter case only.
    LetterCase(String, String),
    /// A node differs from the entry in the white space around key or value only.
    WhiteSpace(String, String),
    /// The entry's key is known there, with these values only.
    OtherValues(String, Vec<String>),
    /// The entry's key is unknown there; the one that is spelt most alike.
    SimilarKey(String, String),
    /// The entry's key is unknown there; these are known.
    OtherKeys(String, Vec<String>),
}

/// A request with more entries is not tried in other orders.
const MAX_REORDERED: usize = 6;

/// Two names at least as alike as this may have been mistaken for one another.
const ALIKE: f64 = 0.8;

/// Finds near misses of a descriptor whose way is known.
pub(super) fn hints(
    rules: &RuleSet,
    domain: &Domain,
    entries: &[Entry<'_>],
    walk: &Walk<'_>,
    has_rule: bool,
) -> Vec<Hint> {
    let mut hints = Vec::new();
    if !has_rule {
        hints.extend(not_asked(rules, domain, entries, walk));
        hints.extend(other_order(rules, domain, entries));
        hints.extend(extra_entry(rules, domain, entries));
    }
    for (at, (level, &entry)) in walk.levels.iter().zip(entries).enumerate() {
        let is_exact =
            walk.nodes.get(at).is_some_and(|node| node.value.is_some() && !node.is_wildcard());
        if !is_exact {
            hints.extend(misspelt(level, entry));
        }
    }
    if let Some((level, entry)) = unanswered(entries, walk).filter(|_| hints.is_empty()) {
        hints.push(others(level, entry));
    }
    hints
}

/// The entry that no node answers, and the level that was asked.
fn unanswered<'a, 'e>(entries: &[Entry<'e>], walk: &Walk<'a>) -> Option<(&'a Level, Entry<'e>)> {
    let at = walk.nodes.len();
    let level = walk.levels.get(at).filter(|level| !level.nodes().is_empty())?;
    Some((level, *entries.get(at)?))
}

fn not_asked(
    rules: &RuleSet,
    domain: &Domain,
    entries: &[Entry<'_>],
    walk: &Walk<'_>,
) -> Option<Hint> {
    let path = any_path(&domain.root, entries)?;
    let rule = RuleAt::find(rules, path.last()?.rule?)?;
    let mut pairs = walk.nodes.iter().zip(&path);
    let (taken, other) = pairs.find(|&(&taken, &other)| !std::ptr::eq(taken, other))?;
    Some(Hint::NotAsked { taken: node_text(taken), other: node_text(other), rule })
}

/// Nodes that match the entries and end at a rule, whatever goes before them.
fn any_path<'a>(level: &'a Level, entries: &[Entry<'_>]) -> Option<Vec<&'a Node>> {
    let (&entry, rest) = entries.split_first()?;
    level.nodes().iter().filter(|node| is_match(node, entry)).find_map(|node| {
        if rest.is_empty() {
            return node.rule.map(|_| vec![node]);
        }
        let mut path = any_path(&node.children, rest)?;
        path.insert(0, node);
        Some(path)
    })
}

fn is_match(node: &Node, entry: Entry<'_>) -> bool {
    let value = node.request_value(entry.value);
    matches(&node.key, entry.key) && node.value.as_ref().is_none_or(|own| matches(own, value))
}

fn other_order(rules: &RuleSet, domain: &Domain, entries: &[Entry<'_>]) -> Option<Hint> {
    let entries = Some(entries).filter(|entries| entries.len() <= MAX_REORDERED)?;
    let (order, rule) = ordered(&domain.root, entries)?;
    Some(Hint::Order(order.into_iter().map(entry_text).collect(), RuleAt::find(rules, rule)?))
}

/// An order of the entries that has a rule.
fn ordered<'e>(level: &Level, entries: &[Entry<'e>]) -> Option<(Vec<Entry<'e>>, RuleId)> {
    (0..entries.len()).find_map(|at| {
        let mut rest = entries.to_vec();
        let first = rest.remove(at);
        let node = level.find(first)?;
        if rest.is_empty() {
            return Some((vec![first], node.rule?));
        }
        let (mut order, rule) = ordered(&node.children, &rest)?;
        order.insert(0, first);
        Some((order, rule))
    })
}

fn extra_entry(rules: &RuleSet, domain: &Domain, entries: &[Entry<'_>]) -> Option<Hint> {
    (0..entries.len()).rev().find_map(|at| {
        let mut fewer = entries.to_vec();
        let extra = fewer.remove(at);
        let matched = domain.find(&fewer)?;
        Some(Hint::Extra(entry_text(extra), RuleAt::find(rules, matched.rule)?))
    })
}

fn misspelt(level: &Level, entry: Entry<'_>) -> Option<Hint> {
    let (mut by_space, mut by_case) = (None, None);
    for node in level.nodes().iter().filter(|node| !node.is_wildcard()) {
        let value = node.request_value(entry.value);
        let own = node.value.as_deref().unwrap_or(value);
        if (&*node.key, own) == (entry.key, value) {
            continue;
        }
        if node.key.trim() == entry.key.trim() && own.trim() == value.trim() {
            by_space.get_or_insert(node);
        } else if same_letters(&node.key, entry.key) && same_letters(own, value) {
            by_case.get_or_insert(node);
        }
    }
    let sent = entry_text(entry);
    match (by_space, by_case) {
        (Some(node), _) => Some(Hint::WhiteSpace(sent, node_text(node))),
        (None, Some(node)) => Some(Hint::LetterCase(sent, node_text(node))),
        (None, None) => None,
    }
}

fn same_letters(a: &str, b: &str) -> bool {
    a.trim().to_lowercase() == b.trim().to_lowercase()
}

/// What the level holds instead.
fn others(level: &Level, entry: Entry<'_>) -> Hint {
    let key = entry.key.to_owned();
    let values = level.nodes().iter().filter(|node| *node.key == *entry.key);
    let values: Vec<_> = values.filter_map(|node| node.value.as_deref()).collect();
    if !values.is_empty() {
        return Hint::OtherValues(key, alike_first(values, entry.value));
    }
    let mut keys: Vec<_> = level.nodes().iter().map(|node| &*node.key).collect();
    keys.sort_unstable();
    keys.dedup();
    let keys = alike_first(keys, entry.key);
    let nearest = keys.first().filter(|name| strsim::jaro_winkler(name, &key) >= ALIKE).cloned();
    match nearest {
        Some(nearest) => Hint::SimilarKey(key, nearest),
        None => Hint::OtherKeys(key, keys),
    }
}

/// The most alike first, otherwise in their order.
fn alike_first(names: Vec<&str>, name: &str) -> Vec<String> {
    let mut rated: Vec<_> =
        names.into_iter().map(|other| (strsim::jaro_winkler(other, name), other)).collect();
    rated.sort_by(|a, b| b.0.total_cmp(&a.0));
    rated.into_iter().map(|(_, other)| other.to_owned()).collect()
}
