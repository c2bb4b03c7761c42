//! What was decided for each limit, and who decided it.

use super::DecidedBy;
use crate::algorithm::Decision;
use crate::store::Decisions;
use smallvec::SmallVec;

/// A decision per item of the batch, in its order.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    decisions: Decisions,
    /// Who decided each; empty if it was the store every time.
    by: SmallVec<[DecidedBy; 4]>,
}

impl Verdicts {
    pub(super) fn of_store(decisions: Decisions) -> Self {
        Self { decisions, by: SmallVec::new() }
    }

    pub(super) fn push(&mut self, decision: Decision, by: DecidedBy) {
        self.decisions.push(decision);
        self.by.push(by);
    }

    /// Names who decided an item.
    pub(super) fn name(&mut self, item: usize, by: DecidedBy) {
        if self.by.is_empty() {
            self.by = SmallVec::from_elem(DecidedBy::Store, self.decisions.len());
        }
        self.by.get_mut(item).into_iter().for_each(|place| *place = by);
    }

    /// The verdicts on a descriptor's items.
    pub(super) fn of(
        &self,
        items: std::ops::Range<usize>,
    ) -> impl Iterator<Item = (&Decision, DecidedBy)> {
        let first = items.start;
        let decisions = self.decisions.get(items).unwrap_or_default();
        let by = move |at: usize| self.by.get(first + at).copied().unwrap_or(DecidedBy::Store);
        decisions.iter().enumerate().map(move |(at, decision)| (decision, by(at)))
    }
}
