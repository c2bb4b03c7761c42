//! Patterns of one prefix and one suffix, told apart by what must stand in between.

use super::pattern::Place;
use aho_corasick::AhoCorasick;
use smallvec::SmallVec;

/// Patterns in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Middles {
    /// Those that need nothing in between.
    free: Vec<Place>,
    others: Vec<Middle>,
    /// Finds the longest piece of each of the others, if they are many.
    finder: Option<AhoCorasick>,
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
            self.finder = AhoCorasick::new(self.others.iter().map(Middle::longest)).ok();
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
            None => self.lowest_tried(text, free, resolve),
        }
    }

    fn lowest_tried(
        &self,
        text: &str,
        mut best: Place,
        resolve: &impl Fn(Place) -> Place,
    ) -> Place {
        for middle in &self.others {
            if middle.place >= best {
                break;
            }
            if middle.matches(text) {
                best = best.min(resolve(middle.place));
            }
        }
        best
    }

    fn lowest_found(
        &self,
        finder: &AhoCorasick,
        text: &str,
        mut best: Place,
        resolve: &impl Fn(Place) -> Place,
    ) -> Place {
        // A text that repeats a piece must not have its pattern tried again.
        let mut tried: SmallVec<[Place; 8]> = SmallVec::new();
        for found in finder.find_overlapping_iter(text) {
            let Some(middle) = self.others.get(found.pattern().as_usize()) else { continue };
            if middle.place >= best || tried.contains(&middle.place) {
                continue;
            }
            tried.push(middle.place);
            if middle.matches(text) {
                best = best.min(resolve(middle.place));
            }
        }
        best
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
