//! One bucket in memory: its state, and what eviction weighs it by.

use crate::algorithm::{Algorithm, Decision, Limit, State};
use crate::clock::Micros;
use std::cmp::Reverse;

/// A bucket. There may be millions: 48 bytes beside the key.
#[derive(Debug)]
pub(super) struct Bucket {
    /// `None` only while a decision has taken it out, under the shard's lock.
    pub(super) state: Option<State>,
    /// Of its key.
    pub(super) hash: u32,
    used_at: Ticks,
    expires_at: Expiry,
    share: Share,
}

/// What a decision says of how its bucket is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    /// When it was decided.
    pub(super) at: Micros,
    share: Share,
    /// When the bucket may be forgotten, if it was written.
    expires_at: Option<Expiry>,
}

/// Share of the capacity that is used, in 65,535ths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Share(u16);

/// Time in 65 ms steps, over and over again every nine years.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks(u32);

/// Whole seconds since the Unix epoch, until 2106.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Expiry(u32);

impl Bucket {
    pub(super) fn new(hash: u32, state: State, usage: &Use) -> Self {
        Self {
            state: Some(state),
            hash,
            used_at: Ticks::at(usage.at),
            expires_at: usage.expires_at.unwrap_or(Expiry(0)),
            share: usage.share,
        }
    }

    /// Takes the state that a decision left. Only a write makes it live longer.
    pub(super) fn put_back(&mut self, state: Option<State>, usage: &Use) {
        self.state = state;
        self.used_at = Ticks::at(usage.at);
        self.share = usage.share;
        self.expires_at = usage.expires_at.unwrap_or(self.expires_at);
    }

    /// What it counts towards the bound; 0 while its state is taken out.
    pub(super) fn weight(&self) -> usize {
        self.state.as_ref().map_or(0, State::weight)
    }

    /// Whether it is as if unused.
    pub(super) fn is_expired(&self, now: Micros) -> bool {
        Micros::from_secs(self.expires_at.0.into()) <= now
    }

    /// Smallest for the bucket that is missed least: the least used share, then the idlest.
    pub(super) fn worth(&self, now: Micros) -> impl Ord + use<> {
        (self.share, Reverse(Ticks::at(now).since(self.used_at)))
    }
}

impl Use {
    pub(super) fn of(decision: &Decision, limit: &Limit, now: Micros) -> Self {
        Self {
            at: now,
            share: Share::of(decision.after, limit.capacity()),
            expires_at: decision.written.then(|| Expiry::of(decision, limit, now)),
        }
    }

    /// The use by two items of one group: the later counts, what either wrote stays.
    pub(super) fn after(self, earlier: Option<Self>) -> Self {
        let expires_at = self.expires_at.max(earlier.and_then(|earlier| earlier.expires_at));
        Self { expires_at, ..self }
    }
}

impl Share {
    /// None of no capacity: such a bucket refuses whatever it holds, so nobody misses it.
    /// Capacities fit 32 bits, so that nothing overflows.
    fn of(used: u64, capacity: u64) -> Self {
        let share = (used.min(capacity) * u64::from(u16::MAX)).checked_div(capacity);
        Self(share.and_then(|share| u16::try_from(share).ok()).unwrap_or_default())
    }
}

impl Ticks {
    #[expect(clippy::cast_possible_truncation, reason = "it starts anew")]
    const fn at(time: Micros) -> Self {
        Self((time.0 >> 16) as u32)
    }

    /// Zero if `earlier` is a little later after all.
    fn since(self, earlier: Self) -> i32 {
        self.0.wrapping_sub(earlier.0).cast_signed().max(0)
    }
}

impl Expiry {
    /// A second after the bucket is as if unused; a log's newest entry leaves after a window.
    fn of(decision: &Decision, limit: &Limit, now: Micros) -> Self {
        let left = match limit.algorithm {
            Algorithm::SlidingWindowLog => limit.window,
            Algorithm::FixedWindow(_)
            | Algorithm::SlidingWindowCounter
            | Algorithm::TokenBucket
            | Algorithm::LeakyBucket => decision.reset,
        };
        let at = now.saturating_add(left).saturating_add(Micros::SECOND).ceil_secs();
        Self(u32::try_from(at).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_takes_48_bytes() {
        assert_eq!(size_of::<Bucket>(), 48);
    }

    #[test]
    fn a_share_is_in_proportion_and_none_when_nothing_is_allowed() {
        assert_eq!(Share::of(0, 10), Share(0));
        assert_eq!(Share::of(5, 10), Share(32_767));
        assert_eq!(Share::of(10, 10), Share(u16::MAX));
        assert_eq!(Share::of(u64::MAX, 10), Share(u16::MAX));
        assert_eq!(Share::of(0, 0), Share(0));
        assert_eq!(Share::of(5, 0), Share(0));
    }

    #[test]
    fn idleness_survives_a_wrap_and_a_step_back() {
        let wrap = Micros(1 << 48);
        let before = Micros(wrap.0 - Micros::SECOND.0);
        assert_eq!(Ticks::at(wrap).since(Ticks::at(before)), 16);
        assert_eq!(Ticks::at(before).since(Ticks::at(wrap)), 0);
    }
}
