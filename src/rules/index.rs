//! Finds the node of an entry among its siblings.

use super::Entry;
use super::pattern::{NOWHERE, Patterns, Place, is_pattern};
use super::tree::{Node, without_query};
use indexmap::IndexMap;
use std::collections::HashMap;

/// The places of sibling nodes.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Nodes whose key is plain. Most levels hold one key, which an `IndexMap` finds unhashed.
    keys: IndexMap<Box<str>, Values, ahash::RandomState>,
    /// Nodes whose key is a pattern.
    key_patterns: Option<Box<KeyPatterns>>,
}

/// Nodes of one key, or of one key pattern.
#[derive(Debug)]
struct Values {
    strip_query: bool,
    exact: HashMap<Box<str>, Place, ahash::RandomState>,
    patterns: Option<Box<Patterns>>,
    /// The node without a value, else [`NOWHERE`].
    default: Place,
}

#[derive(Debug, Default)]
struct KeyPatterns {
    /// Each stands at the place of its first node.
    patterns: Patterns,
    /// By that place.
    values: HashMap<Place, Values, ahash::RandomState>,
}

impl Index {
    pub(super) fn new(nodes: &[Node]) -> Self {
        let mut index = Self::default();
        let mut first_places = HashMap::new();
        for (place, node) in nodes.iter().enumerate() {
            if is_pattern(&node.key) {
                let first = *first_places.entry(&*node.key).or_insert(place);
                index.key_patterns.get_or_insert_default().insert(first, place, node);
            } else {
                index.keys.entry(node.key.clone()).or_default().insert(place, node);
            }
        }
        index.keys.values_mut().for_each(Values::finish);
        if let Some(key_patterns) = &mut index.key_patterns {
            key_patterns.finish();
        }
        index
    }

    /// The place of the node that answers an entry: that of its exact key and value, else the
    /// first pattern that matches, else its key's default.
    pub(super) fn find(&self, entry: Entry<'_>) -> Option<Place> {
        let values = self.keys.get(entry.key);
        let mut found = NOWHERE;
        if let Some(values) = values {
            let value = values.counted(entry.value);
            if let Some(&place) = values.exact.get(value) {
                return Some(place);
            }
            found = values.first_pattern(value, found);
        }
        if let Some(patterns) = &self.key_patterns {
            found = patterns.lowest(entry, found);
        }
        if found == NOWHERE {
            found = values?.default;
        }
        (found != NOWHERE).then_some(found)
    }
}

impl Default for Values {
    fn default() -> Self {
        Self { strip_query: false, exact: HashMap::default(), patterns: None, default: NOWHERE }
    }
}

impl Values {
    fn insert(&mut self, place: Place, node: &Node) {
        self.strip_query |= node.strip_query;
        match &node.value {
            None => self.default = self.default.min(place),
            Some(value) if is_pattern(value) => {
                self.patterns.get_or_insert_default().insert(place, value);
            }
            Some(value) => {
                self.exact.entry(value.clone()).or_insert(place);
            }
        }
    }

    fn finish(&mut self) {
        if let Some(patterns) = &mut self.patterns {
            patterns.finish();
        }
    }

    fn counted<'a>(&self, value: &'a str) -> &'a str {
        if self.strip_query { without_query(value) } else { value }
    }

    fn first_pattern(&self, value: &str, best: Place) -> Place {
        match &self.patterns {
            Some(patterns) => patterns.lowest(value, best, &|place| place),
            None => best,
        }
    }

    /// The first node that matches a value, of whichever sort it is.
    fn first(&self, value: &str) -> Place {
        let exact = self.exact.get(value).copied().unwrap_or(NOWHERE);
        self.first_pattern(value, exact.min(self.default))
    }
}

impl KeyPatterns {
    fn insert(&mut self, first: Place, place: Place, node: &Node) {
        if first == place {
            self.patterns.insert(place, &node.key);
        }
        self.values.entry(first).or_default().insert(place, node);
    }

    fn finish(&mut self) {
        self.patterns.finish();
        self.values.values_mut().for_each(Values::finish);
    }

    fn lowest(&self, entry: Entry<'_>, best: Place) -> Place {
        self.patterns.lowest(entry.key, best, &|first| {
            self.values.get(&first).map_or(NOWHERE, |values| values.first(entry.value))
        })
    }
}
