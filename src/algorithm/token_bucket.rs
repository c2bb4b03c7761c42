//! Tokens drip in, a hit takes one; saves up to a burst. Twin: `lua/token_bucket.lua`.
//!
//! State (n, r, t): the level is x = nW + r, n `whole` (below zero when in debt) and
//! r `fraction`, 0 ≤ r < W, at t `at`.
//! ```text
//! B is 0 if L = 0, else at least 1.   none: x = BW at now.   T = max(now, t)
//! t > now + W: t = now, written.   x = min(BW, x + (T − t)L)
//! take    x ≥ hW: x −= hW.   Refused and count_denied: the same, down to −2^34·W
//! peek    x ≥ 0
//! refund  x = min(BW, x + hW)
//! wait    (T − now) + cdiv(hW − x, L), never when h > B
//! reset   x < BW: (T − now) + cdiv(BW − x, L);  else 0
//! ```

use super::arithmetic::{capped, finite, mul_div, time_to_drip};
use super::{Charge, Decision, Limit, MAX_STORED_HITS, State};
use crate::clock::Micros;

pub(super) fn decide(
    state: Option<State>,
    limit: &Limit,
    charge: Charge,
    Micros(now): Micros,
) -> (Option<State>, Decision) {
    let (requests, window) = limit.rate();
    let burst = limit.capacity();
    let (mut whole, mut fraction, mut at) = match state {
        Some(State::TokenBucket { whole, fraction, at: Micros(at) }) => (whole, fraction, at),
        _ => (signed(burst), 0, now),
    };
    let mut written = at > now.saturating_add(window);
    if written {
        at = now;
    }
    let time = now.max(at);
    let (drips, rest) = mul_div(time.saturating_sub(at), requests, window);
    (whole, fraction) = filled(whole, fraction.saturating_add(rest), drips, burst, window);

    let before = remaining(whole);
    let hits = charge.hits();
    let allowed = match charge {
        Charge::Take(_) => {
            let fits = whole >= signed(hits);
            if fits || limit.count_denied {
                (whole, fraction) = taken(whole, fraction, hits);
                written = true;
            }
            fits
        }
        Charge::Peek => whole >= 0,
        Charge::Refund(_) => {
            if whole < signed(burst) && hits > 0 {
                (whole, fraction) = filled(whole, fraction, hits, burst, window);
                written = true;
            }
            true
        }
    };

    // hW − x = (h − n − 1)W + (W − r), with h − n ≥ 1 because x < hW.
    let time_until = |hits: u64| {
        let missing = signed(hits).abs_diff(whole).saturating_sub(1);
        let drip = time_to_drip(missing, window.saturating_sub(fraction), requests, window);
        time.saturating_sub(now).saturating_add(drip)
    };
    let after = remaining(whole);
    let wait = if allowed || hits > burst { None } else { finite(time_until(hits)) };
    let reset = if whole < signed(burst) { time_until(burst) } else { 0 };
    let decision = Decision {
        allowed,
        remaining: after,
        wait,
        reset: capped(reset),
        before: burst.saturating_sub(before),
        after: burst.saturating_sub(after),
        written,
    };
    let state = if written {
        Some(State::TokenBucket { whole, fraction, at: Micros(time) })
    } else {
        state
    };
    (state, decision)
}

/// min(BW, x + hW), where the fraction may have reached a whole hit.
fn filled(whole: i64, fraction: u64, hits: u64, burst: u64, window: u64) -> (i64, u64) {
    let carry = fraction >= window;
    let whole = whole.saturating_add_unsigned(hits).saturating_add_unsigned(carry.into());
    let fraction = if carry { fraction.saturating_sub(window) } else { fraction };
    if whole >= signed(burst) { (signed(burst), 0) } else { (whole, fraction) }
}

/// max(−2^34·W, x − hW).
fn taken(whole: i64, fraction: u64, hits: u64) -> (i64, u64) {
    let whole = whole.saturating_sub_unsigned(hits);
    let floor = signed(MAX_STORED_HITS).saturating_neg();
    if whole < floor { (floor, 0) } else { (whole, fraction) }
}

/// max(0, ⌊x/W⌋).
fn remaining(whole: i64) -> u64 {
    u64::try_from(whole).unwrap_or(0)
}

fn signed(hits: u64) -> i64 {
    i64::try_from(hits).unwrap_or(i64::MAX)
}
