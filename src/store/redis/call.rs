//! One script call: the charges of several requests packed for Lua, and its answer taken apart.
//!
//! `lua/single.lua` and `lua/group.lua` say what the packed text and the rows look like.

use super::script::{Needs, number};
use crate::algorithm::{Algorithm, Anchor, Charge, Decision, Limit};
use crate::clock::Micros;
use crate::store::{Batch, Outcomes, StoreError};
use ahash::AHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// Charges of one request that go into one call together.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) batch: Arc<Batch>,
    /// Which groups of the batch.
    pub(super) groups: SmallVec<[usize; 4]>,
}

/// A call, ready to be sent.
#[derive(Debug)]
pub(super) struct Call<'u> {
    pub(super) needs: Needs,
    /// The distinct buckets.
    pub(super) keys: Vec<&'u str>,
    /// All charges.
    pub(super) packed: Vec<u8>,
    /// For each part of the answer: whose rows it holds, as unit and item of the unit.
    parts: Vec<Part>,
}

type Part = SmallVec<[(usize, usize); 2]>;
type Charges = SmallVec<[(Charge, Limit); 1]>;

const ROW: usize = 36;
const NO_WAIT: u64 = 1 << 53;

impl<'u> Call<'u> {
    /// Packs units in their order.
    pub(super) fn new(units: &'u [Unit]) -> Self {
        let groups = units.iter().any(|unit| unit.groups.iter().any(|g| !is_single(unit, *g)));
        let mut call = Self {
            needs: Needs { groups, ..Needs::default() },
            keys: Vec::new(),
            packed: Vec::with_capacity(units.len() * 48),
            parts: Vec::new(),
        };
        if groups {
            call.pack_groups(units);
        } else {
            call.pack_singles(units);
        }
        call
    }

    fn pack_singles(&mut self, units: &'u [Unit]) {
        let mut buckets: AHashMap<&'u str, usize> = AHashMap::with_capacity(units.len());
        let mut charges: Vec<(Algorithm, Charges)> = Vec::new();
        for (u, unit) in units.iter().enumerate() {
            for (i, (charge, item)) in unit.singles().enumerate() {
                let key = unit.batch.key(item);
                let bucket = *buckets.entry(key).or_insert_with(|| {
                    self.keys.push(key);
                    self.parts.push(Part::new());
                    charges.push((item.limit.algorithm, Charges::new()));
                    self.keys.len() - 1
                });
                if let (Some(part), Some((_, charges))) =
                    (self.parts.get_mut(bucket), charges.get_mut(bucket))
                {
                    part.push((u, i));
                    charges.push((charge, item.limit));
                }
            }
        }
        for (algorithm, charges) in charges {
            self.needs.add(algorithm);
            self.packed.push(number(algorithm));
            self.pack_uint(charges.len() as u64, 2);
            for (charge, limit) in charges {
                self.pack_charge(charge);
                self.packed.push(u8::from(limit.count_denied));
                self.pack_limit(&limit);
            }
        }
    }

    fn pack_groups(&mut self, units: &'u [Unit]) {
        let mut buckets: AHashMap<&'u str, usize> = AHashMap::with_capacity(units.len());
        for (u, unit) in units.iter().enumerate() {
            let mut n_items = 0;
            for group in &unit.groups {
                let range = unit.batch.groups.get(*group).cloned().unwrap_or_default();
                let members = unit.batch.members.get(range).unwrap_or_default();
                let mut part = Part::new();
                self.pack_uint(members.len() as u64, 2);
                for member in members {
                    self.pack_charge(member.charge);
                    self.packed.push(u8::from(member.votes));
                    let items = unit.batch.items.get(member.items.clone()).unwrap_or_default();
                    self.pack_uint(items.len() as u64, 2);
                    for item in items {
                        let key = unit.batch.key(item);
                        let bucket = *buckets.entry(key).or_insert_with(|| {
                            self.keys.push(key);
                            self.keys.len()
                        });
                        self.needs.add(item.limit.algorithm);
                        self.pack_uint(bucket as u64, 2);
                        self.packed.push(number(item.limit.algorithm));
                        let post_paid = u8::from(item.post_paid) << 1;
                        self.packed.push(u8::from(item.limit.count_denied) | post_paid);
                        self.pack_limit(&item.limit);
                        part.push((u, n_items));
                        n_items += 1;
                    }
                }
                self.parts.push(part);
            }
        }
    }

    fn pack_charge(&mut self, charge: Charge) {
        self.packed.push(match charge {
            Charge::Take(_) => 0,
            Charge::Peek => 1,
            Charge::Refund(_) => 2,
        });
        self.pack_uint(charge.hits(), 7);
    }

    fn pack_limit(&mut self, limit: &Limit) {
        let burst = match limit.algorithm {
            Algorithm::FixedWindow(anchor) => u64::from(anchor == Anchor::FirstHit),
            Algorithm::TokenBucket | Algorithm::LeakyBucket => limit.capacity(),
            Algorithm::SlidingWindowLog | Algorithm::SlidingWindowCounter => 0,
        };
        self.pack_uint(limit.requests.into(), 4);
        self.pack_uint(limit.window.0, 6);
        self.pack_uint(burst, 4);
    }

    /// The low `n_bytes` of a number, big-endian.
    fn pack_uint(&mut self, number: u64, n_bytes: usize) {
        let bytes = number.to_be_bytes();
        self.packed.extend_from_slice(bytes.get(bytes.len() - n_bytes..).unwrap_or_default());
    }

    /// Deals out an answer: for each unit what became of its items.
    pub(super) fn outcomes(&self, units: &[Unit], answer: &[Vec<u8>]) -> Vec<Outcomes> {
        let mut outcomes: Vec<Outcomes> = units
            .iter()
            .map(|unit| SmallVec::from_elem(Err(StoreError::Unintelligible), unit.n_items()))
            .collect();
        for (part, text) in self.parts.iter().zip(answer) {
            let failure = text.strip_prefix(b"!").map(failure);
            for (row, (unit, item)) in part.iter().enumerate() {
                let outcome = match &failure {
                    Some(failure) => Err(*failure),
                    None => unpack_row(text, row).ok_or(StoreError::Unintelligible),
                };
                if let Some(slot) = outcomes.get_mut(*unit).and_then(|o| o.get_mut(*item)) {
                    *slot = outcome;
                }
            }
        }
        outcomes
    }
}

fn unpack_row(text: &[u8], row: usize) -> Option<Decision> {
    let row = text.get(row * ROW..(row + 1) * ROW)?;
    let field = |index: usize| {
        let bytes = row.get(1 + index * 7..8 + index * 7)?;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    let (flags, wait) = (row.first()?, field(1)?);
    Some(Decision {
        allowed: flags & 1 == 1,
        remaining: field(0)?,
        wait: (wait < NO_WAIT).then_some(Micros(wait)),
        reset: Micros(field(2)?),
        before: field(3)?,
        after: field(4)?,
        written: flags & 2 == 2,
    })
}

/// What an error text of Redis means.
pub(super) fn failure(text: &[u8]) -> StoreError {
    let is = |word: &str| text.windows(word.len()).any(|part| part == word.as_bytes());
    match () {
        () if is("WRONGTYPE") => StoreError::WrongType,
        () if is("READONLY") => StoreError::ReadOnly,
        () if is("OOM") => StoreError::OutOfMemory,
        () if is("NOPERM") || is("NOAUTH") || is("WRONGPASS") => StoreError::NotAllowed,
        () if is("LOADING") => StoreError::Loading,
        () if is("BUSY") => StoreError::Busy,
        () if is("CLUSTERDOWN") || is("TRYAGAIN") || is("MASTERDOWN") => StoreError::ClusterDown,
        () => StoreError::Unintelligible,
    }
}

fn is_single(unit: &Unit, group: usize) -> bool {
    let range = unit.batch.groups.get(group).cloned().unwrap_or_default();
    match unit.batch.members.get(range).unwrap_or_default() {
        [member] => member.items.len() == 1,
        _ => false,
    }
}

impl Unit {
    /// The members of all groups, in order.
    fn members(&self) -> impl Iterator<Item = &crate::store::BatchMember> {
        self.groups.iter().flat_map(|group| {
            let range = self.batch.groups.get(*group).cloned().unwrap_or_default();
            self.batch.members.get(range).unwrap_or_default()
        })
    }

    /// Charge and limit of groups that have one of each.
    fn singles(&self) -> impl Iterator<Item = (Charge, &crate::store::BatchItem)> {
        self.members()
            .filter_map(|member| Some((member.charge, self.batch.items.get(member.items.start)?)))
    }

    /// How many outcomes it gets.
    pub(super) fn n_items(&self) -> usize {
        self.members().map(|member| member.items.len()).sum()
    }
}
