//! Counts in windows that stand side by side. Twin: `lua/fixed_window.lua`.
//!
//! State (s, u): `start` of the window and hits `used` in it; `fresh` is the start for now.
//! ```text
//! fresh   ⌊now/W⌋·W (epoch: s is a multiple of W, always) or now (first_hit)
//! none, or now ≥ s + W: s = fresh, u = 0.   s > now + W: s = fresh, u is kept, written
//! take    h ≤ L − u: u += h.   Refused, count_denied and u ≤ L: the same, once
//! peek    u ≤ L
//! refund  u = max(0, u − h)
//! wait    s + W − now, never when h > L
//! reset   s + W − now; first_hit without a window: 0
//! ```

use super::arithmetic::{capped, finite, mul_div};
use super::{Anchor, Charge, Decision, Limit, MAX_HITS, State};
use crate::clock::Micros;

pub(super) fn decide(
    state: Option<State>,
    limit: &Limit,
    anchor: Anchor,
    charge: Charge,
    Micros(now): Micros,
) -> (Option<State>, Decision) {
    let (requests, window) = limit.rate();
    let fresh = match anchor {
        Anchor::Epoch => now.saturating_sub(mul_div(now, 1, window).1),
        Anchor::FirstHit => now,
    };
    let stored = live(state.as_ref(), window, now);
    let (mut start, mut used) = stored.unwrap_or((fresh, 0));
    let mut written = start > now.saturating_add(window);
    if written {
        start = fresh;
    }

    let before = used;
    let allowed = match charge {
        Charge::Take(hits) => {
            let fits = hits <= requests.saturating_sub(used);
            if fits || (limit.count_denied && used <= requests) {
                used = used.saturating_add(hits).min(MAX_HITS);
                written = true;
            }
            fits
        }
        Charge::Peek => used <= requests,
        Charge::Refund(hits) => {
            used = used.saturating_sub(hits);
            written |= used < before;
            true
        }
    };

    let left = start.saturating_add(window).saturating_sub(now);
    let unused = anchor == Anchor::FirstHit && stored.is_none() && !written;
    let decision = Decision {
        allowed,
        remaining: requests.saturating_sub(used),
        wait: finite(left).filter(|_| !allowed && charge.hits() <= requests),
        reset: capped(if unused { 0 } else { left }),
        before,
        after: used,
        written,
    };
    let state =
        if written { Some(State::FixedWindow { start: Micros(start), used }) } else { state };
    (state, decision)
}

/// (s, u) of a window that is not over.
fn live(state: Option<&State>, window: u64, now: u64) -> Option<(u64, u64)> {
    match state {
        Some(State::FixedWindow { start: Micros(start), used })
            if now < start.saturating_add(window) =>
        {
            Some((*start, *used))
        }
        _ => None,
    }
}
