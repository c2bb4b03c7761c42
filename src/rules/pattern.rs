//! Texts with `*`, indexed by what stands before the first and after the last star and then in
//! between, so that a look-up does not slow down with their number.

use super::middle::{Middles, in_order};
use std::collections::HashMap;

/// Place of a node among its siblings, in the order of the file.
pub(super) type Place = usize;

/// Above every place: nothing found yet.
pub(super) const NOWHERE: Place = Place::MAX;

/// Patterns, each with the place of the node that it stands for.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    prefix_lengths: Vec<usize>,
    prefixes: HashMap<Box<str>, Tails, ahash::RandomState>,
}

/// The patterns that share a prefix.
#[derive(Debug)]
struct Tails {
    /// The first that is nothing but the prefix and a star, else [`NOWHERE`].
    bare: Place,
    /// All others.
    suffixes: Option<Box<Suffixes>>,
}

#[derive(Debug, Default)]
struct Suffixes {
    lengths: Vec<usize>,
    middles: HashMap<Box<str>, Middles, ahash::RandomState>,
}

/// Whether a text is a pattern.
pub(super) fn is_pattern(text: &str) -> bool {
    text.contains('*')
}

/// Whether a pattern, or a plain text, matches the whole of a text.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let Some((prefix, rest)) = pattern.split_once('*') else { return pattern == text };
    let (middle, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
    text.strip_prefix(prefix)
        .and_then(|text| text.strip_suffix(suffix))
        .is_some_and(|text| in_order(middle.split('*'), text))
}

impl Patterns {
    /// Adds a pattern; places must come in ascending order.
    pub(super) fn insert(&mut self, place: Place, pattern: &str) {
        let (prefix, rest) = pattern.split_once('*').unwrap_or((pattern, ""));
        let (middle, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
        insert_sorted(&mut self.prefix_lengths, prefix.len());
        self.prefixes.entry(prefix.into()).or_default().insert(place, middle, suffix);
    }

    /// To be called when all are in.
    pub(super) fn finish(&mut self) {
        self.prefixes.values_mut().for_each(Tails::finish);
    }

    /// The lowest place below `best` that `resolve` gives for a pattern that matches, else `best`.
    /// What it gives is never below the place that it is given.
    pub(super) fn lowest(
        &self,
        text: &str,
        mut best: Place,
        resolve: &impl Fn(Place) -> Place,
    ) -> Place {
        for &length in &self.prefix_lengths {
            let Some((prefix, rest)) = text.split_at_checked(length) else {
                if length > text.len() {
                    break;
                }
                continue;
            };
            if let Some(tails) = self.prefixes.get(prefix) {
                best = tails.lowest(rest, best, resolve);
            }
        }
        best
    }
}

impl Default for Tails {
    fn default() -> Self {
        Self { bare: NOWHERE, suffixes: None }
    }
}

impl Tails {
    fn insert(&mut self, place: Place, middle: &str, suffix: &str) {
        if suffix.is_empty() && middle.split('*').all(str::is_empty) {
            self.bare = self.bare.min(place);
            return;
        }
        let suffixes = self.suffixes.get_or_insert_default();
        insert_sorted(&mut suffixes.lengths, suffix.len());
        suffixes.middles.entry(suffix.into()).or_default().insert(place, middle);
    }

    fn finish(&mut self) {
        if let Some(suffixes) = &mut self.suffixes {
            suffixes.middles.values_mut().for_each(Middles::finish);
        }
    }

    fn lowest(&self, text: &str, mut best: Place, resolve: &impl Fn(Place) -> Place) -> Place {
        if self.bare < best {
            best = best.min(resolve(self.bare));
        }
        match &self.suffixes {
            Some(suffixes) => suffixes.lowest(text, best, resolve),
            None => best,
        }
    }
}

impl Suffixes {
    fn lowest(&self, text: &str, mut best: Place, resolve: &impl Fn(Place) -> Place) -> Place {
        for &length in &self.lengths {
            let Some(start) = text.len().checked_sub(length) else { break };
            let Some((middle, suffix)) = text.split_at_checked(start) else { continue };
            if let Some(middles) = self.middles.get(suffix) {
                best = middles.lowest(middle, best, resolve);
            }
        }
        best
    }
}

fn insert_sorted(lengths: &mut Vec<usize>, length: usize) {
    if let Err(at) = lengths.binary_search(&length) {
        lengths.insert(at, length);
    }
}
