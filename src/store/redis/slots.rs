//! Hash slots, and which server serves which.

use super::node::Node;
use crc16::{State, XMODEM};
use std::sync::Arc;

/// How many hash slots a cluster has.
pub(super) const N_SLOTS: u16 = 16_384;

/// A server with the ranges of slots that it serves, ends included.
pub(super) type Served<T> = (T, Vec<(u16, u16)>);

/// The slot of every key with this hash tag.
pub(super) fn slot(tag: &str) -> u16 {
    State::<XMODEM>::calculate(tag.as_bytes()) % N_SLOTS
}

/// Which server serves which slot.
#[derive(Debug, Default)]
pub(super) struct Table {
    nodes: Vec<Arc<Node>>,
    /// For each slot its node, if any serves it. `None`: the only node serves all.
    slots: Option<Box<[Option<u16>]>>,
}

impl Table {
    /// One server for everything.
    pub(super) fn single(node: Arc<Node>) -> Self {
        Self { nodes: vec![node], slots: None }
    }

    /// A cluster's servers.
    pub(super) fn cluster(served: Vec<Served<Arc<Node>>>) -> Self {
        let mut slots = vec![None; usize::from(N_SLOTS)];
        let mut nodes = Vec::with_capacity(served.len());
        for (index, (node, ranges)) in (0..).zip(served) {
            for (first, last) in ranges {
                let range = usize::from(first)..usize::from(last.min(N_SLOTS - 1)) + 1;
                slots.get_mut(range).into_iter().flatten().for_each(|slot| *slot = Some(index));
            }
            nodes.push(node);
        }
        Self { nodes, slots: Some(slots.into()) }
    }

    /// The server of a slot.
    pub(super) fn node(&self, slot: u16) -> Option<&Arc<Node>> {
        match &self.slots {
            None => self.nodes.first(),
            Some(slots) => {
                let index = slots.get(usize::from(slot)).copied().flatten()?;
                self.nodes.get(usize::from(index))
            }
        }
    }

    /// Every server.
    pub(super) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_has_the_slot_that_redis_gives_it() {
        // As `CLUSTER KEYSLOT` answers.
        for (tag, expected) in [("123456789", 12_739), ("foo", 12_182), ("user1000", 3_443)] {
            assert_eq!(slot(tag), expected, "{tag}");
        }
    }
}
