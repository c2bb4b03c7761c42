//! SKELETON

use super::{Anchor, Charge, Decision, Limit, State};
use crate::clock::Micros;

pub(super) fn decide(
    _state: Option<State>,
    _limit: &Limit,
    _anchor: Anchor,
    _charge: Charge,
    _now: Micros,
) -> (Option<State>, Decision) {
    todo!()
}
