//! SKELETON

use super::{Charge, Decision, Limit, State};
use crate::clock::Micros;

/// The hits of the last window, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {}

impl Log {
    /// Number of entries.
    pub fn len(&self) -> usize {
        todo!()
    }
}

pub(super) fn decide(
    _state: Option<State>,
    _limit: &Limit,
    _charge: Charge,
    _now: Micros,
) -> (Option<State>, Decision) {
    todo!()
}
