//! Weighs the previous window's count into the current one. Twin:
//! `lua/sliding_window_counter.lua`.
//!
//! State (k, p, c): number of the window, hits in the `previous` and in the `current` one.
//! ```text
//! K = ⌊now/W⌋;  none: (K, 0, 0);  K = k+1: (K, c, 0);  K > k+1: (K, 0, 0);  K ≤ k: keep
//! k > K+1, that is kW > now + W: (K, p, c), written
//! e = max(0, now − kW) `elapsed`;  a = max(0, kW − now) `ahead`
//! u = c + cdiv(p(W − e), W);  room = L − u
//! take    h ≤ room: c += h.   Refused and count_denied: the same
//! peek    room ≥ 0
//! refund  c, then p
//! wait    never when h > L
//!         c + h ≤ L: a + W − ⌊(L − c − h)W/p⌋ − e
//!         else:      a + (W − e) + W − ⌊(L − h)W/c⌋
//! reset   c > 0: a + 2W − e;  c = 0, p > 0: a + W − e;  else 0
//! ```

use super::arithmetic::{capped, finite, mul_div, mul_div_up};
use super::{Charge, Decision, Limit, MAX_STORED_HITS, State};
use crate::clock::Micros;

pub(super) fn decide(
    state: Option<State>,
    limit: &Limit,
    charge: Charge,
    Micros(now): Micros,
) -> (Option<State>, Decision) {
    let (requests, window) = limit.rate();
    let (number, offset) = mul_div(now, 1, window);
    let (mut k, mut previous, mut current) = read(state.as_ref(), number);
    let mut written = k > number.saturating_add(1);
    if written {
        k = number;
    }
    let (elapsed, ahead) =
        if k == number { (offset, 0) } else { (0, window.saturating_sub(offset)) };
    let rest = window.saturating_sub(elapsed);

    let used = |previous, current: u64| current.saturating_add(mul_div_up(rest, previous, window));
    let before = used(previous, current);
    let allowed = match charge {
        Charge::Take(hits) => {
            let fits = hits <= requests.saturating_sub(before);
            if fits || limit.count_denied {
                current = current.saturating_add(hits).min(MAX_STORED_HITS);
                written = true;
            }
            fits
        }
        Charge::Peek => before <= requests,
        Charge::Refund(hits) => {
            let rest = hits.saturating_sub(current);
            written |= hits.min(current) > 0 || rest.min(previous) > 0;
            current = current.saturating_sub(hits);
            previous = previous.saturating_sub(rest);
            true
        }
    };

    let after = used(previous, current);
    let hits = charge.hits();
    let wait = if allowed || hits > requests {
        None
    } else if current.saturating_add(hits) <= requests {
        let room = requests.saturating_sub(current).saturating_sub(hits);
        finite(ahead.saturating_add(rest).saturating_sub(mul_div(window, room, previous).0))
    } else {
        let room = requests.saturating_sub(hits);
        let next = window.saturating_sub(mul_div(window, room, current).0);
        finite(ahead.saturating_add(rest).saturating_add(next))
    };
    let reset = match (previous, current) {
        (0, 0) => 0,
        (_, 0) => ahead.saturating_add(rest),
        _ => ahead.saturating_add(rest).saturating_add(window),
    };
    let decision = Decision {
        allowed,
        remaining: requests.saturating_sub(after),
        wait,
        reset: capped(reset),
        before: requests.min(before),
        after: requests.min(after),
        written,
    };
    let state = if written {
        Some(State::SlidingWindowCounter { window: k, previous, current })
    } else {
        state
    };
    (state, decision)
}

/// (k, p, c) as of window `number`, or of a later one.
fn read(state: Option<&State>, number: u64) -> (u64, u64, u64) {
    match state {
        Some(State::SlidingWindowCounter { window, previous, current }) => {
            match number.checked_sub(*window) {
                None | Some(0) => (*window, *previous, *current),
                Some(1) => (number, *current, 0),
                Some(_) => (number, 0, 0),
            }
        }
        _ => (number, 0, 0),
    }
}
