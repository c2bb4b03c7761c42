//! The two buckets as exact fractions.

use super::history::{Model, history, play};
use super::*;
use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;

fn whole(hits: impl Into<BigInt>) -> BigRational {
    BigRational::from_integer(hits.into())
}

fn floor_at_zero(level: &BigRational) -> u64 {
    u64::try_from(level.floor().to_integer()).unwrap_or(0)
}

/// What flows in the time between, in hits.
fn flow(limit: &Limit, from: u64, to: u64) -> BigRational {
    let elapsed = to.saturating_sub(from);
    BigRational::new(BigInt::from(elapsed) * limit.requests, limit.window.0.into())
}

fn burst(limit: &Limit) -> u32 {
    if limit.requests == 0 { 0 } else { limit.burst.max(1) }
}

/// Whether `empty` becomes true exactly after `reset`.
fn turns_after(now: u64, reset: u64, empty: impl Fn(u64) -> bool) -> bool {
    match reset {
        0 => empty(now),
        _ if reset == MAX_WAIT.0 => !empty(now + reset - 1),
        _ => empty(now + reset) && !empty(now + reset - 1),
    }
}

/// What both buckets store: an amount at a time.
#[derive(Clone, Debug, Default)]
struct Stored(Option<(BigRational, u64)>);

impl Stored {
    fn take_over_clock(&mut self, limit: &Limit, now: u64) -> bool {
        match &mut self.0 {
            Some((_, at)) if *at > now + limit.window.0 => {
                *at = now;
                true
            }
            _ => false,
        }
    }

    fn set(&mut self, level: BigRational, now: u64) {
        let at = self.0.as_ref().map_or(now, |stored| stored.1.max(now));
        self.0 = Some((level, at));
    }
}

/// The level counts tokens.
#[derive(Clone, Debug, Default)]
struct TokenModel(Stored);

impl TokenModel {
    fn level(&self, limit: &Limit, now: u64) -> BigRational {
        let full = whole(burst(limit));
        match &self.0.0 {
            Some((level, at)) => full.min(level + flow(limit, *at, now)),
            None => full,
        }
    }
}

impl Model for TokenModel {
    fn take_over_clock(&mut self, limit: &Limit, now: u64) -> bool {
        let taken_over = self.0.take_over_clock(limit, now);
        if taken_over {
            // What a lowered burst cannot hold is gone with the first write.
            self.0.set(self.level(limit, now), now);
        }
        taken_over
    }

    fn admits(&self, limit: &Limit, charge: Charge, now: u64) -> bool {
        match charge {
            Charge::Take(hits) => self.level(limit, now) >= whole(hits),
            Charge::Peek => self.level(limit, now) >= whole(0),
            Charge::Refund(_) => true,
        }
    }

    fn record(&mut self, limit: &Limit, hits: u64, now: u64) -> bool {
        let level = self.level(limit, now) - whole(hits);
        self.0.set(level.max(-whole(MAX_STORED_HITS)), now);
        true
    }

    fn refund(&mut self, limit: &Limit, hits: u64, now: u64) -> bool {
        let level = self.level(limit, now);
        let full = whole(burst(limit));
        let changes = level < full;
        if changes {
            self.0.set(full.min(level + whole(hits)), now);
        }
        changes
    }

    fn remaining(&self, limit: &Limit, now: u64) -> u64 {
        floor_at_zero(&self.level(limit, now))
    }

    fn resets_after(&self, limit: &Limit, now: u64, reset: u64) -> bool {
        turns_after(now, reset, |now| self.level(limit, now) == whole(burst(limit)))
    }
}

/// The level counts hits that have not drained yet.
#[derive(Clone, Debug, Default)]
struct LeakyModel(Stored);

impl LeakyModel {
    fn level(&self, limit: &Limit, now: u64) -> BigRational {
        match &self.0.0 {
            Some((level, at)) => whole(0).max(level - flow(limit, *at, now)),
            None => whole(0),
        }
    }
}

impl Model for LeakyModel {
    fn take_over_clock(&mut self, limit: &Limit, now: u64) -> bool {
        self.0.take_over_clock(limit, now)
    }

    fn admits(&self, limit: &Limit, charge: Charge, now: u64) -> bool {
        let level = self.level(limit, now);
        match charge {
            Charge::Take(hits) => {
                let fits = hits <= limit.requests.max(burst(limit)).into();
                fits && level + whole(1) <= whole(burst(limit))
            }
            Charge::Peek => level <= whole(burst(limit)),
            Charge::Refund(_) => true,
        }
    }

    fn record(&mut self, limit: &Limit, hits: u64, now: u64) -> bool {
        let level = self.level(limit, now) + whole(hits);
        self.0.set(level.min(whole(MAX_STORED_HITS)), now);
        true
    }

    fn refund(&mut self, limit: &Limit, hits: u64, now: u64) -> bool {
        let level = self.level(limit, now);
        let changes = level > whole(0);
        if changes {
            self.0.set(whole(0).max(level - whole(hits)), now);
        }
        changes
    }

    fn remaining(&self, limit: &Limit, now: u64) -> u64 {
        floor_at_zero(&(whole(burst(limit)) - self.level(limit, now)))
    }

    fn resets_after(&self, limit: &Limit, now: u64, reset: u64) -> bool {
        turns_after(now, reset, |now| self.level(limit, now) == whole(0))
    }
}

proptest! {
    #[test]
    fn a_token_bucket_agrees_with_exact_fractions(history in history()) {
        play::<TokenModel>(TOKEN, &history)?;
    }

    #[test]
    fn a_leaky_bucket_agrees_with_exact_fractions(history in history()) {
        play::<LeakyModel>(LEAKY, &history)?;
    }
}
