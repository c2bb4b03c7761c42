//! What the algorithms must decide: reported faults as tables, random histories against models
//! that are written another way.

#![allow(
    clippy::arithmetic_side_effects,
    reason = "tests run with overflow checks, and a failed test should panic"
)]

mod buckets;
mod groups;
mod history;
mod reports;
mod windows;

use super::*;

/// A limit as policy files make it.
fn limit(algorithm: Algorithm, requests: u32, seconds: u64) -> Limit {
    let burst = if algorithm == Algorithm::TokenBucket { requests } else { 1 };
    let count_denied = matches!(algorithm, Algorithm::FixedWindow(_));
    Limit { algorithm, requests, window: Micros::from_secs(seconds), burst, count_denied }
}

const FIXED: Algorithm = Algorithm::FixedWindow(Anchor::Epoch);
const FIRST_HIT: Algorithm = Algorithm::FixedWindow(Anchor::FirstHit);
const LOG: Algorithm = Algorithm::SlidingWindowLog;
const COUNTER: Algorithm = Algorithm::SlidingWindowCounter;
const TOKEN: Algorithm = Algorithm::TokenBucket;
const LEAKY: Algorithm = Algorithm::LeakyBucket;

/// A bucket on a clock that counts milliseconds.
#[derive(Clone, Debug)]
struct Bucket {
    limit: Limit,
    state: Option<State>,
}

impl Bucket {
    fn new(algorithm: Algorithm, requests: u32, seconds: u64) -> Self {
        Self { limit: limit(algorithm, requests, seconds), state: None }
    }

    fn with_burst(self, burst: u32) -> Self {
        Self { limit: Limit { burst, ..self.limit }, ..self }
    }

    fn with_count_denied(self, count_denied: bool) -> Self {
        Self { limit: Limit { count_denied, ..self.limit }, ..self }
    }

    fn decide(&mut self, ms: u64, charge: Charge) -> Decision {
        let (state, decision) = decide(self.state.take(), &self.limit, charge, millis(ms));
        self.state = state;
        decision
    }

    fn take(&mut self, ms: u64, hits: u64) -> Decision {
        self.decide(ms, Charge::Take(hits))
    }

    fn allows(&mut self, ms: u64, hits: u64) -> bool {
        self.take(ms, hits).allowed
    }

    fn peek(&mut self, ms: u64) -> Decision {
        self.decide(ms, Charge::Peek)
    }

    fn refund(&mut self, ms: u64, hits: u64) -> Decision {
        self.decide(ms, Charge::Refund(hits))
    }

    /// How many of `n` single hits pass.
    fn admitted(&mut self, ms: u64, n: usize) -> usize {
        (0..n).filter(|_| self.allows(ms, 1)).count()
    }

    /// How many entries its log holds.
    fn n_entries(&self) -> usize {
        self.state.as_ref().map_or(0, State::weight)
    }
}

const fn millis(ms: u64) -> Micros {
    Micros(ms * 1000)
}

const fn secs(seconds: u64) -> Micros {
    Micros::from_secs(seconds)
}
