//! Hits pour in, the level drains steadily; paces what passes. Twin: `lua/leaky_bucket.lua`.
//!
//! State (n, r, t): the level is y = nW + r, n `whole` and r `fraction`, 0 ≤ r < W, at t `at`.
//! A heavy charge occupies h drain intervals.
//! ```text
//! B is 0 if L = 0, else at least 1.   none: y = 0 at now.   T = max(now, t)
//! t > now + W: t = now, written.   y = max(0, y − (T − t)L)
//! take    h ≤ max(L, B) and y ≤ (B − 1)W: y += hW.   Refused and count_denied: the same,
//!         up to 2^34·W
//! peek    y ≤ BW
//! refund  y = max(0, y − hW)
//! remaining  max(0, ⌊(BW − y)/W⌋): 1-hit requests that pass now
//! wait    (T − now) + cdiv(y − (B − 1)W, L), never when h > max(L, B)
//!         peek: (T − now) + cdiv(y − BW, L)
//! reset   y > 0: (T − now) + cdiv(y, L);  else 0
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
        Some(State::LeakyBucket { whole, fraction, at: Micros(at) }) => (whole, fraction, at),
        _ => (0, 0, now),
    };
    let mut written = at > now.saturating_add(window);
    if written {
        at = now;
    }
    let time = now.max(at);
    let drained = mul_div(time.saturating_sub(at), requests, window);
    (whole, fraction) = without((whole, fraction), drained, window);

    let remaining =
        |whole, fraction| burst.saturating_sub(whole).saturating_sub(u64::from(fraction > 0));
    let before = remaining(whole, fraction);
    let hits = charge.hits();
    let most = requests.max(burst);
    // The level from which on the charge passes, in whole hits.
    let target = if charge == Charge::Peek { burst } else { burst.saturating_sub(1) };
    let low = (whole, fraction) <= (target, 0);
    let allowed = match charge {
        Charge::Take(_) => {
            let fits = hits <= most && low;
            if fits || limit.count_denied {
                (whole, fraction) = poured(whole, fraction, hits);
                written = true;
            }
            fits
        }
        Charge::Peek => low,
        Charge::Refund(_) => {
            written |= hits > 0 && (whole, fraction) > (0, 0);
            (whole, fraction) = without((whole, fraction), (hits, 0), window);
            true
        }
    };

    let time_until = |target: u64| {
        let drip = time_to_drip(whole.saturating_sub(target), fraction, requests, window);
        time.saturating_sub(now).saturating_add(drip)
    };
    let after = remaining(whole, fraction);
    let wait = if allowed || hits > most { None } else { finite(time_until(target)) };
    let reset = if (whole, fraction) > (0, 0) { time_until(0) } else { 0 };
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
        Some(State::LeakyBucket { whole, fraction, at: Micros(time) })
    } else {
        state
    };
    (state, decision)
}

/// max(0, y − z), both as whole hits and a fraction.
fn without(y: (u64, u64), z: (u64, u64), window: u64) -> (u64, u64) {
    if y <= z {
        return (0, 0);
    }
    match y.1.checked_sub(z.1) {
        Some(fraction) => (y.0.saturating_sub(z.0), fraction),
        None => (
            y.0.saturating_sub(z.0).saturating_sub(1),
            window.saturating_sub(z.1).saturating_add(y.1),
        ),
    }
}

/// min(2^34·W, y + hW).
fn poured(whole: u64, fraction: u64, hits: u64) -> (u64, u64) {
    let whole = whole.saturating_add(hits);
    if whole >= MAX_STORED_HITS { (MAX_STORED_HITS, 0) } else { (whole, fraction) }
}
