//! Patterns of one prefix and one suffix, told apart by what must stand in between.

use super::pattern::Place;
use aho_corasick::AhoCorasick;
use smallvec::SmallVec;
use std::collections::HashMap;

/// Patterns in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Middles {
    /// Those that need nothing in between.
    free: Vec<Place>,
    others: Vec<Middle>,
    /// Of the others, if they are many.
    finder: Option<Finder>,
}

/// Finds patterns by their longest pieces.
#[derive(Debug)]
struct Finder {
    /// Each piece once.
    pieces: AhoCorasick,
    /// By piece: the indices of its patterns, in the order of the file.
    patterns: Vec<Vec<usize>>,
}

#[derive(Debug)]
struct Middle {
    place: Place,
    /// What must occur, in this order; at least one.
    pieces: Box<[Box<str>]>,
}

/// So many are tried one after the other.
const FEW: usize = 8;

impl Middles {
    /// Adds a pattern, given what stands between its first and its last star; places must come in
    /// ascending order.
    pub(super) fn insert(&mut self, place: Place, middle: &str) {
        let pieces = middle.split('*').filter(|piece| !piece.is_empty());
        let pieces: Box<[Box<str>]> = pieces.map(Box::from).collect();
        if pieces.is_empty() {
            self.free.push(place);
        } else {
            self.others.push(Middle { place, pieces });
        }
    }

    /// To be called when all are in. Many patterns without a finder are slow, never wrong.
    pub(super) fn finish(&mut self) {
        if self.others.len() > FEW {
            self.finder = Finder::of(&self.others);
        }
    }

    /// As [`Patterns::lowest`](super::pattern::Patterns::lowest).
    pub(super) fn lowest(
        &self,
        text: &str,
        best: Place,
        resolve: &impl Fn(Place) -> Place,
    ) -> Place {
        let free = self
            .free
            .iter()
            .fold(best, |best, &place| if place < best { best.min(resolve(place)) } else { best });
        match &self.finder {
            Some(finder) => self.lowest_found(finder, text, free, resolve),
            None => lowest_tried(self.others.iter(), text, free, resolve),
        }
    }

    fn lowest_found(
        &self,
        finder: &Finder,
        text: &str,
        mut best: Place,
        resolve: &impl Fn(Place) -> Place,
    ) -> Place {
        // A text that repeats a piece must not have its patterns tried again.
        let mut tried: SmallVec<[bool; 64]> = SmallVec::from_elem(false, finder.patterns.len());
        for found in finder.pieces.find_overlapping_iter(text) {
            let piece = found.pattern().as_usize();
            let (Some(tried), Some(patterns)) = (tried.get_mut(piece), finder.patterns.get(piece))
            else {
                continue;
            };
            if !std::mem::replace(tried, true) {
                let middles = patterns.iter().filter_map(|&index| self.others.get(index));
                best = lowest_tried(middles, text, best, resolve);
            }
        }
        best
    }
}

fn lowest_tried<'a>(
    middles: impl Iterator<Item = &'a Middle>,
    text: &str,
    mut best: Place,
    resolve: &impl Fn(Place) -> Place,
) -> Place {
    for middle in middles {
        if middle.place >= best {
            break;
        }
        if middle.matches(text) {
            best = best.min(resolve(middle.place));
        }
    }
    best
}

impl Finder {
    fn of(middles: &[Middle]) -> Option<Self> {
        let mut pieces = Vec::new();
        let mut patterns: Vec<Vec<usize>> = Vec::new();
        let mut known = HashMap::new();
        for (index, middle) in middles.iter().enumerate() {
            let piece = *known.entry(middle.longest()).or_insert_with_key(|longest| {
                pieces.push(*longest);
                patterns.push(Vec::new());
                patterns.len() - 1
            });
            patterns.get_mut(piece)?.push(index);
        }
        Some(Self { pieces: AhoCorasick::new(pieces).ok()?, patterns })
    }
}

impl Middle {
    fn longest(&self) -> &str {
        self.pieces.iter().max_by_key(|piece| piece.len()).map_or("", |piece| piece)
    }

    fn matches(&self, text: &str) -> bool {
        in_order(self.pieces.iter().map(|piece| &**piece), text)
    }
}

/// Whether the pieces occur in a text one after the other. Taking each at its first occurrence
/// is enough, so the time is linear in the text.
pub(super) fn in_order<'a>(mut pieces: impl Iterator<Item = &'a str>, text: &str) -> bool {
    let rest = pieces.try_fold(text, |rest, piece| rest.split_once(piece).map(|(_, rest)| rest));
    rest.is_some()
}

#[cfg(test)]
mod tests {
    use super::super::pattern::NOWHERE;
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn patterns_of_one_piece_are_found_at_once_and_tried_once_in_file_order() {
        let mut middles = Middles::default();
        for place in 0..20 {
            middles.insert(place, if place % 2 == 0 { "*piece*a*" } else { "*b*piece*" });
        }
        middles.finish();
        let finder = middles.finder.as_ref().unwrap();
        assert_eq!((finder.pieces.patterns_len(), finder.patterns.len()), (1, 1));
        let tried = RefCell::new(Vec::new());
        let resolve = |place| {
            tried.borrow_mut().push(place);
            NOWHERE
        };
        assert_eq!(middles.lowest("bpieceapiecebpiecea", NOWHERE, &resolve), NOWHERE);
        assert_eq!(tried.into_inner(), (0..20).collect::<Vec<_>>());
    }
}
