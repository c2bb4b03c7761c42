//! What a bucket decides. Pure: state, limit, charge and time go in, state and decision come out.
//!
//! Each algorithm file has a twin of the same name under `lua/`, statement by statement, and
//! `group` that of `lua/group.lua`.

#![warn(clippy::arithmetic_side_effects, clippy::as_conversions, clippy::float_arithmetic)]

mod arithmetic;
mod fixed_window;
mod group;
mod leaky_bucket;
mod sliding_window_counter;
mod sliding_window_log;
mod token_bucket;

#[cfg(test)]
mod tests;

pub use group::{Item, Member, decide_group};
pub use sliding_window_log::Log;

use crate::clock::Micros;

/// The most hits that one charge may carry; more on the wire saturate here (2^53 − 1).
pub const MAX_HITS: u64 = (1 << 53) - 1;

/// The most hits that a sliding counter or a bucket stores, as count or as debt (2^34).
pub const MAX_STORED_HITS: u64 = 1 << 34;

/// A wait above this counts as none, a reset above it reports this (2^53 − 1 µs).
pub const MAX_WAIT: Micros = Micros((1 << 53) - 1);

/// The most hits per window that a sliding log may allow: it keeps every one.
pub const MAX_LOG: u32 = 100_000;

/// The longest window: a year of 365 days.
pub const MAX_WINDOW: Micros = Micros::from_secs(365 * 86_400);

/// One of the five ways to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Counts in windows that stand side by side.
    FixedWindow(Anchor),
    /// Remembers every hit of the last window.
    SlidingWindowLog,
    /// Weighs the previous window's count into the current one.
    SlidingWindowCounter,
    /// Tokens drip in, a hit takes one; saves up to a burst.
    TokenBucket,
    /// Hits pour in, the level drains steadily; paces what passes.
    LeakyBucket,
}

/// Where a fixed window starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Anchor {
    /// At whole multiples of the window since the Unix epoch.
    #[default]
    Epoch,
    /// At the first hit.
    FirstHit,
}

/// What a bucket is measured against. The names in formulas are those of ARCHITECTURE.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// How it decides.
    pub algorithm: Algorithm,
    /// L: hits per window.
    pub requests: u32,
    /// W: the window, from one second to [`MAX_WINDOW`].
    pub window: Micros,
    /// B: a token bucket's capacity, how many may arrive at once in a leaky bucket; else unused.
    pub burst: u32,
    /// Whether a refused charge is recorded all the same.
    pub count_denied: bool,
}

/// What is asked of a bucket. Hits are at most [`MAX_HITS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// Admit these hits and count them, whole or not at all. Never 0.
    Take(u64),
    /// Say whether the bucket is not overdrawn; change nothing.
    Peek,
    /// Give these hits back.
    Refund(u64),
}

/// What a bucket remembers. One variant per algorithm; none of them reads another's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// See `fixed_window`.
    FixedWindow {
        /// When the window began.
        start: Micros,
        /// Hits counted in it.
        used: u64,
    },
    /// See `sliding_window_log`.
    SlidingWindowLog(Box<Log>),
    /// See `sliding_window_counter`.
    SlidingWindowCounter {
        /// Number of the current window, counted from the epoch.
        window: u64,
        /// Hits in the window before it.
        previous: u64,
        /// Hits in it.
        current: u64,
    },
    /// See `token_bucket`. The level is `whole + fraction / W` hits, below zero when in debt.
    TokenBucket {
        /// Whole hits.
        whole: i64,
        /// The rest in W-ths of a hit, `0 ≤ fraction < W`.
        fraction: u64,
        /// When the level was that.
        at: Micros,
    },
    /// See `leaky_bucket`. The level is `whole + fraction / W` hits.
    LeakyBucket {
        /// Whole hits.
        whole: u64,
        /// The rest in W-ths of a hit, `0 ≤ fraction < W`.
        fraction: u64,
        /// When the level was that.
        at: Micros,
    },
}

/// The answer of one bucket to one charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the charge may pass. A refund always may.
    pub allowed: bool,
    /// Hits that would still be admitted now.
    pub remaining: u64,
    /// When refused: how long until this very charge would be admitted, `None` if never.
    pub wait: Option<Micros>,
    /// How long until the bucket is as if unused.
    pub reset: Micros,
    /// Used before the charge: the counter of a fixed window, capacity − remaining elsewhere.
    pub before: u64,
    /// Used after it.
    pub after: u64,
    /// Whether the state was changed and must be stored.
    pub written: bool,
}

impl Anchor {
    /// Its word in policy files and keys.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Epoch => "epoch",
            Self::FirstHit => "first_hit",
        }
    }
}

impl Algorithm {
    /// Every algorithm, once.
    pub const ALL: [Self; 5] = [
        Self::FixedWindow(Anchor::Epoch),
        Self::SlidingWindowLog,
        Self::SlidingWindowCounter,
        Self::TokenBucket,
        Self::LeakyBucket,
    ];

    /// Its one spelling, the same in policy files, Lua, keys and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FixedWindow(_) => "fixed_window",
            Self::SlidingWindowLog => "sliding_window_log",
            Self::SlidingWindowCounter => "sliding_window_counter",
            Self::TokenBucket => "token_bucket",
            Self::LeakyBucket => "leaky_bucket",
        }
    }
}

impl Charge {
    /// h: the hits it speaks of, 0 for a peek.
    pub const fn hits(self) -> u64 {
        match self {
            Self::Take(hits) | Self::Refund(hits) => hits,
            Self::Peek => 0,
        }
    }
}

impl Limit {
    /// Whether it is a log that would keep more than any may.
    pub fn is_oversized_log(&self) -> bool {
        self.algorithm == Algorithm::SlidingWindowLog && self.requests > MAX_LOG
    }

    /// The capacity that metrics measure use against: B for the buckets, L for the windows.
    /// A bucket holds nothing if L is 0, else at least one hit.
    pub fn capacity(&self) -> u64 {
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket if self.requests > 0 => {
                self.burst.max(1).into()
            }
            Algorithm::TokenBucket
            | Algorithm::LeakyBucket
            | Algorithm::FixedWindow(_)
            | Algorithm::SlidingWindowLog
            | Algorithm::SlidingWindowCounter => self.requests.into(),
        }
    }

    /// The most hits that one charge may ever take: L for the windows, B for a token bucket, the
    /// larger of the two for a leaky one.
    pub fn most_at_once(&self) -> u64 {
        match self.algorithm {
            Algorithm::LeakyBucket if self.requests > 0 => {
                self.capacity().max(self.requests.into())
            }
            Algorithm::LeakyBucket
            | Algorithm::TokenBucket
            | Algorithm::FixedWindow(_)
            | Algorithm::SlidingWindowLog
            | Algorithm::SlidingWindowCounter => self.capacity(),
        }
    }

    /// (L, W), as formulas take them; W is never 0.
    fn rate(&self) -> (u64, u64) {
        (self.requests.into(), self.window.0.max(1))
    }
}

impl State {
    /// How many stored things it counts as towards a memory bound: a log's entries, else one.
    pub fn weight(&self) -> usize {
        match self {
            Self::SlidingWindowLog(log) => log.len().max(1),
            Self::FixedWindow { .. }
            | Self::SlidingWindowCounter { .. }
            | Self::TokenBucket { .. }
            | Self::LeakyBucket { .. } => 1,
        }
    }
}

/// Decides one charge. A bucket that has no state, or that of another algorithm, is fresh.
/// The state comes back `None` only if it went in so and nothing was to be recorded.
pub fn decide(
    state: Option<State>,
    limit: &Limit,
    charge: Charge,
    now: Micros,
) -> (Option<State>, Decision) {
    match limit.algorithm {
        Algorithm::FixedWindow(anchor) => fixed_window::decide(state, limit, anchor, charge, now),
        Algorithm::SlidingWindowLog => sliding_window_log::decide(state, limit, charge, now),
        Algorithm::SlidingWindowCounter => {
            sliding_window_counter::decide(state, limit, charge, now)
        }
        Algorithm::TokenBucket => token_bucket::decide(state, limit, charge, now),
        Algorithm::LeakyBucket => leaky_bucket::decide(state, limit, charge, now),
    }
}
