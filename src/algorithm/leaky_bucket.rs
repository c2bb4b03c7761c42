//! SKELETON

use super::{Charge, Decision, Limit, State};
use crate::clock::Micros;

pub(super) fn decide(
    _state: Option<State>,
    _limit: &Limit,
    _charge: Charge,
    _now: Micros,
) -> (Option<State>, Decision) {
    todo!()
}
