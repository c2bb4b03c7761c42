//! Texts with `*`, indexed by what stands before the first and after the last star, so that a
//! look-up does not slow down with their number.

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
    candidates: HashMap<Box<str>, Vec<Candidate>, ahash::RandomState>,
}

/// One pattern, in the order of the file.
#[derive(Debug)]
struct Candidate {
    place: Place,
    /// What must occur between prefix and suffix, in this order.
    middle: Box<[Box<str>]>,
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
        let middle: Box<[Box<str>]> =
            middle.split('*').filter(|piece| !piece.is_empty()).map(Box::from).collect();
        if middle.is_empty() && suffix.is_empty() {
            self.bare = self.bare.min(place);
            return;
        }
        let suffixes = self.suffixes.get_or_insert_default();
        insert_sorted(&mut suffixes.lengths, suffix.len());
        suffixes.candidates.entry(suffix.into()).or_default().push(Candidate { place, middle });
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
            for candidate in self.candidates.get(suffix).into_iter().flatten() {
                if candidate.place >= best {
                    break;
                }
                if candidate.matches(middle) {
                    best = best.min(resolve(candidate.place));
                }
            }
        }
        best
    }
}

impl Candidate {
    fn matches(&self, text: &str) -> bool {
        in_order(self.middle.iter().map(|piece| &**piece), text)
    }
}

/// Whether the pieces occur in a text one after the other. Taking each at its first occurrence
/// is enough, so the time is linear in the text.
fn in_order<'a>(mut pieces: impl Iterator<Item = &'a str>, text: &str) -> bool {
    let rest = pieces.try_fold(text, |rest, piece| rest.split_once(piece).map(|(_, rest)| rest));
    rest.is_some()
}

fn insert_sorted(lengths: &mut Vec<usize>, length: usize) {
    if let Err(at) = lengths.binary_search(&length) {
        lengths.insert(at, length);
    }
}
