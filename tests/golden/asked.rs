//! Requests at random, of the kind that a policy file has an answer to: its keys and values, and
//! others beside them.

use crate::reference::{File, Node};
use fastrand::Rng;

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) domain: String,
    pub(crate) hits: u32,
    pub(crate) descriptors: Vec<Descriptor>,
}

#[derive(Clone, Debug)]
pub(crate) struct Descriptor {
    pub(crate) entries: Vec<(String, String)>,
    pub(crate) hits: Option<u64>,
    /// Requests and the number of the unit.
    pub(crate) limit: Option<(u32, i32)>,
}

const VALUES: [&str; 12] = [
    "ann",
    "bob",
    "",
    "c",
    "b_c",
    "10.1.2.3",
    "10.9.8.7",
    "shop.example.com",
    "/api/v2",
    "/a:b",
    "docs/x",
    "azc",
];

const KEYS: [&str; 4] = ["a", "a_b", "user", "nothing"];

/// What a star may stand for.
const FILLINGS: [&str; 4] = ["", "1", "b", "x/y"];

/// A request for the rules of a file.
pub(crate) fn request(rng: &mut Rng, file: &File) -> Asked {
    let domain = if rng.u8(..25) == 0 { "nowhere" } else { &file.domain };
    let n_descriptors = [1, 1, 2, 2, 3, 4][rng.usize(..6)];
    Asked {
        domain: domain.to_owned(),
        hits: [0, 0, 1, 2, 5][rng.usize(..5)],
        descriptors: (0..n_descriptors).map(|_| descriptor(rng, file)).collect(),
    }
}

fn descriptor(rng: &mut Rng, file: &File) -> Descriptor {
    let entries = entries(rng, &file.descriptors);
    let hits = [None, None, None, Some(0), Some(1), Some(4)][rng.usize(..6)];
    let overrides = !entries.is_empty() && rng.u8(..12) == 0;
    let limit = overrides.then(|| (rng.u32(..12), rng.i32(1..=7)));
    Descriptor { entries, hits, limit }
}

fn entries(rng: &mut Rng, nodes: &[Node]) -> Vec<(String, String)> {
    let mut entries = Vec::new();
    let mut level = nodes;
    while !level.is_empty() && rng.u8(..20) > 0 {
        let node = &level[rng.usize(..level.len())];
        entries.push(entry(rng, node));
        level = &node.descriptors;
    }
    if rng.u8(..15) == 0 {
        entries.push((KEYS[rng.usize(..KEYS.len())].to_owned(), value(rng)));
    }
    entries
}

fn entry(rng: &mut Rng, node: &Node) -> (String, String) {
    let key = if rng.u8(..30) == 0 { KEYS[rng.usize(..KEYS.len())] } else { &node.key };
    let named = !node.value.is_empty() && rng.u8(..6) > 0;
    let value = if named { filled(rng, &node.value) } else { value(rng) };
    (key.to_owned(), value)
}

fn value(rng: &mut Rng) -> String {
    VALUES[rng.usize(..VALUES.len())].to_owned()
}

fn filled(rng: &mut Rng, pattern: &str) -> String {
    pattern.split('*').collect::<Vec<_>>().join(FILLINGS[rng.usize(..FILLINGS.len())])
}
