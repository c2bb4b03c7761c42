//! The metric labels of a rule: its path, level by level.

use super::{Entry, Match, Node};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt::Write;

/// Label values; `key3` joins all levels from the third on with dots and may be empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels {
    /// The domain.
    pub domain: Box<str>,
    /// The first level.
    pub key1: Box<str>,
    /// The second level, or empty.
    pub key2: Box<str>,
    /// All further levels, or empty.
    pub key3: Box<str>,
}

/// A level that a request made is cut above these bytes; a digest keeps different ones apart.
const MAX_LEVEL: usize = 128;

impl Labels {
    /// Labels of a path: one text per level, `key`, `key_value` or `key_pattern`.
    pub fn new<'a>(domain: &str, mut levels: impl Iterator<Item = &'a str>) -> Self {
        let mut level = || levels.next().unwrap_or_default();
        Self {
            domain: sanitised(domain).into(),
            key1: sanitised(level()).into(),
            key2: sanitised(level()).into(),
            key3: levels.map(sanitised).collect::<Vec<_>>().join(".").into(),
        }
    }

    /// Labels of a request for a rule whose labels depend on its values; `detailed` is the rule's
    /// `detailed_metric`. A shared pattern goes before that, and that before `value_to_metric`.
    pub fn of_match(
        domain: &str,
        matched: &Match<'_>,
        entries: &[Entry<'_>],
        detailed: bool,
    ) -> Self {
        let any_shared = matched.nodes.iter().any(|node| node.is_shared());
        let levels: Vec<_> = (matched.nodes.iter().zip(entries))
            .map(|(node, &entry)| match (node.is_shared(), detailed) {
                (true, _) => node.label(),
                (false, true) => detailed_label(node, entry, !any_shared),
                (false, false) => node.label_of(entry),
            })
            .collect();
        Self::new(domain, levels.iter().map(|level| &**level))
    }

    /// Labels of a limit that a request brought along: the keys of its entries, never their values.
    pub fn of_override(domain: &str, entries: &[Entry<'_>]) -> Self {
        let levels: Vec<_> = entries.iter().map(|entry| capped(entry.key.into())).collect();
        let labels = Self::new(domain, levels.iter().map(|level| &**level));
        Self { key3: capped(Cow::Owned(labels.key3.into())).into(), ..labels }
    }
}

impl Node {
    /// Its level in the labels of every request: `key`, `key_value` or `key_pattern`.
    pub fn label(&self) -> Cow<'_, str> {
        match &self.value {
            Some(value) => joined(&self.key, value),
            None => Cow::Borrowed(&self.key),
        }
    }

    /// Whether its level in the labels depends on the request (of a rule without
    /// `detailed_metric`).
    pub fn label_varies(&self) -> bool {
        self.value_to_metric && !self.is_shared() && (self.value.is_none() || self.is_wildcard())
    }

    fn label_of<'a>(&'a self, entry: Entry<'a>) -> Cow<'a, str> {
        if self.label_varies() {
            capped(joined(entry.key, self.request_value(entry.value)))
        } else {
            self.label()
        }
    }
}

/// As the old server, which joins an empty value too unless a level is shared.
fn detailed_label<'a>(node: &Node, entry: Entry<'a>, join_empty: bool) -> Cow<'a, str> {
    let value = node.request_value(entry.value);
    if value.is_empty() && join_empty {
        return capped(Cow::Owned(format!("{}_", entry.key)));
    }
    capped(joined(entry.key, value))
}

fn joined<'a>(key: &'a str, value: &str) -> Cow<'a, str> {
    if value.is_empty() { Cow::Borrowed(key) } else { Cow::Owned(format!("{key}_{value}")) }
}

/// At most [`MAX_LEVEL`] bytes: a beginning and a digest of all.
fn capped(level: Cow<'_, str>) -> Cow<'_, str> {
    if level.len() <= MAX_LEVEL {
        return level;
    }
    let digest = Sha256::digest(level.as_bytes());
    let mut capped = level.into_owned();
    let end = (0..=MAX_LEVEL - 17).rev().find(|&end| capped.is_char_boundary(end));
    capped.truncate(end.unwrap_or_default());
    capped.push('~');
    for byte in digest.iter().take(8) {
        // Writing to a string cannot fail.
        _ = write!(capped, "{byte:02x}");
    }
    Cow::Owned(capped)
}

/// As the old server names its metrics: no `:`, no `|`, no dots in what looks like an IPv4
/// address. Other dots stay.
fn sanitised(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let length = ipv4_length(rest.as_bytes()).unwrap_or(next.len_utf8());
        let (part, after) = rest.split_at(length);
        let is_ipv4 = length > next.len_utf8();
        clean.extend(part.chars().map(|c| match c {
            ':' | '|' => '_',
            '.' if is_ipv4 => '_',
            c => c,
        }));
        rest = after;
    }
    clean
}

/// The length of the address that a text begins with: four groups of one to three digits.
fn ipv4_length(text: &[u8]) -> Option<usize> {
    let mut rest = text;
    for group in 0..4 {
        if group > 0 {
            rest = rest.strip_prefix(b".")?;
        }
        let n_digits = rest.iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
        rest = rest.get(n_digits..).filter(|_| n_digits > 0)?;
    }
    Some(text.len() - rest.len())
}
