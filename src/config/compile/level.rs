//! The descriptors under one parent, and what they must not say twice.

use super::fields::{At, Field, Fields, Sink};
use super::path::Path;
use crate::config::raw::shown;
use crate::config::source::SourceFile;
use crate::rules::{Defaults, Node, Rule};
use std::collections::HashMap;

/// Deeper descriptors are a mistake.
const MAX_DEPTH: usize = 64;

/// The walk through the descriptors of one document.
#[derive(Debug)]
pub(super) struct Walk<'a, 'w> {
    pub(super) sink: Sink<'a>,
    /// The domain's, over the process's.
    pub(super) defaults: Defaults,
    /// Whether the domain names the algorithm, rather than the process.
    pub(super) domain_names_algorithm: bool,
    pub(super) path: Path,
    pub(super) rules: &'w mut Vec<Rule>,
    /// How many rules took the process's algorithm.
    pub(super) n_default_algorithm: usize,
}

/// What stands under one parent so far.
#[derive(Debug, Default)]
pub(super) struct Seen<'a> {
    /// By key and value: the joined text would confuse (`a`, `b_c`) with (`a_b`, `c`).
    pairs: HashMap<(&'a str, &'a str), First<'a>, ahash::RandomState>,
    /// By key: whether queries are stripped, and who said so first.
    strip_query: HashMap<&'a str, (bool, At<'a>), ahash::RandomState>,
}

/// A descriptor that another one may repeat.
#[derive(Clone, Copy, Debug)]
struct First<'a> {
    at: At<'a>,
    has_limit: bool,
}

impl<'a, 'w> Walk<'a, 'w> {
    pub(super) fn new(
        file: &'a SourceFile,
        domain: &str,
        defaults: Defaults,
        domain_names_algorithm: bool,
        rules: &'w mut Vec<Rule>,
    ) -> Self {
        Self {
            sink: Sink::new(file),
            defaults,
            domain_names_algorithm,
            path: Path::new(domain),
            rules,
            n_default_algorithm: 0,
        }
    }

    /// Compiles a list of descriptors.
    pub(super) fn level(&mut self, list: Option<Field<'a>>, seen: &mut Seen<'a>) -> Vec<Node> {
        let items = self.sink.list(list);
        if let Some(first) = items.first()
            && self.path.depth() >= MAX_DEPTH
        {
            let message = format!("descriptors are nested more than {MAX_DEPTH} deep");
            self.sink.error(first.place, message);
            return Vec::new();
        }
        items.iter().filter_map(|item| self.descriptor(item, seen)).collect()
    }

    /// Whether the descriptor (whose path is the current one) stands under its parent already.
    pub(super) fn is_duplicate(
        &mut self,
        key: Field<'a>,
        pair: (&'a str, &'a str),
        fields: &Fields<'a>,
        seen: &mut Seen<'a>,
    ) -> bool {
        let has_limit = fields.get("rate_limit").is_some();
        let first = First { at: self.sink.at(key.key_place), has_limit };
        let Some(first) = seen.pairs.insert(pair, first) else { return false };
        seen.pairs.insert(pair, first);
        let advice = if has_limit && first.has_limit {
            "to put several limits on one descriptor, list them under its `rate_limit` \
             (`- unit: …` for each)"
        } else {
            "put what belongs to it under one descriptor"
        };
        let message = format!(
            "duplicate descriptor composite key '{}': it stands at {} already; {advice}",
            shown(self.path.text()),
            self.sink.words_for(first.at)
        );
        self.sink.error(key.key_place, message);
        true
    }

    /// Nodes of one key must agree: a value is stripped before it is known which one it matches.
    pub(super) fn check_strip_query(
        &mut self,
        node: &Node,
        key: (Field<'a>, &'a str),
        field: Option<Field<'a>>,
        seen: &mut Seen<'a>,
    ) {
        let (key_field, key) = key;
        let place = field.map_or(key_field.key_place, |field| field.key_place);
        if node.strip_query && key.contains('*') {
            self.sink.error(place, "`strip_query` cannot be used on a key that contains `*`");
            return;
        }
        if node.strip_query && node.value.as_ref().is_some_and(|value| value.contains('?')) {
            self.sink.warn(
                place,
                "this descriptor never matches: its value contains `?`, and `strip_query` takes \
                 that away from the request's value",
            );
        }
        let at = self.sink.at(place);
        let (first, first_at) = *seen.strip_query.entry(key).or_insert((node.strip_query, at));
        if first != node.strip_query {
            let message = format!(
                "`strip_query` must be the same for all descriptors of key `{}` here: it is {first} \
                 for the one at {}",
                shown(key),
                self.sink.words_for(first_at)
            );
            self.sink.error(place, message);
        }
    }
}
