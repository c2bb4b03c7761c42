//! Whole-number arithmetic that the five algorithms share. Twin: `lua/prelude.lua`.

use super::MAX_WAIT;
use crate::clock::Micros;

/// Quotient (at most `u64::MAX`, and that when `c` is 0) and remainder of `a · b / c`.
pub(super) fn mul_div(a: u64, b: u64, c: u64) -> (u64, u64) {
    let product = u128::from(a).saturating_mul(b.into());
    let Some(quotient) = product.checked_div(c.into()) else { return (u64::MAX, 0) };
    let remainder = product.saturating_sub(quotient.saturating_mul(c.into()));
    (u64::try_from(quotient).unwrap_or(u64::MAX), u64::try_from(remainder).unwrap_or(0))
}

/// Quotient, rounded up, of `a · b / c`.
pub(super) fn mul_div_up(a: u64, b: u64, c: u64) -> u64 {
    let (quotient, remainder) = mul_div(a, b, c);
    quotient.saturating_add(u64::from(remainder > 0))
}

/// How long `whole + fraction / window` hits take at `requests` per window, rounded up:
/// cdiv(whole · W + fraction, L).
pub(super) fn time_to_drip(whole: u64, fraction: u64, requests: u64, window: u64) -> u64 {
    let (quotient, remainder) = mul_div(window, whole, requests);
    quotient.saturating_add(mul_div_up(remainder.saturating_add(fraction), 1, requests))
}

/// A wait, unless it is so long that it counts as none.
pub(super) fn finite(wait: u64) -> Option<Micros> {
    Some(Micros(wait)).filter(|wait| *wait <= MAX_WAIT)
}

/// A reset, cut off where waits end.
pub(super) fn capped(reset: u64) -> Micros {
    Micros(reset).min(MAX_WAIT)
}
