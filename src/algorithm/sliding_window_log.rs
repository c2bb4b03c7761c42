//! Remembers every hit of the last window. Twin: `lua/sliding_window_log.lua`.
//!
//! State: entries (t, h), oldest first; u is the sum of the live ones.
//! ```text
//! T = max(now, newest t).   live: t + W > T.   newest t > now + W: one entry (now, u), written
//! take    h ≤ L − u: append (T, h).   Refused and count_denied: the same while u ≤ L, then the
//!         newest entry grows by h and moves to T: so a log holds at most L + 1 entries
//! peek    u ≤ L
//! refund  of min(h, u), newest entries first, the last one reduced
//! wait    t_i + W − now with the first i that Σ_{≤ i} h ≥ u + h − L, in other words that at most
//!         L − h hits follow; never when h > L
//! reset   t_oldest_live + W − now; none: 0
//! ```
//! Whoever writes drops what is not live.

use super::arithmetic::{capped, finite};
use super::{Charge, Decision, Limit, MAX_HITS, State};
use crate::clock::Micros;
use std::collections::VecDeque;

/// The hits of the last window, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    entries: VecDeque<Entry>,
    /// What `total` was before the first entry.
    base: u64,
}

/// What a take changes of a log, to undo it without a copy of the whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    length: usize,
    newest: Option<Entry>,
}

/// Hits of one charge. Sums wrap: only their differences count, which are at most `MAX_HITS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    at: u64,
    /// Sum of all hits up to and with these.
    total: u64,
}

pub(super) fn decide(
    state: Option<State>,
    limit: &Limit,
    charge: Charge,
    Micros(now): Micros,
) -> (Option<State>, Decision) {
    if let Some(State::SlidingWindowLog(mut log)) = state {
        let decision = log.decide(limit, charge, now);
        return (Some(State::SlidingWindowLog(log)), decision);
    }
    let mut log = Log::default();
    let decision = log.decide(limit, charge, now);
    if decision.written {
        return (Some(State::SlidingWindowLog(Box::new(log))), decision);
    }
    (state, decision)
}

impl Log {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Decides a take that may be undone until [`Log::drop_dead`] is called, which whoever keeps
    /// it owes if it was written. `None` if the clock was set back so far that entries join.
    pub(super) fn try_take(
        &mut self,
        limit: &Limit,
        hits: u64,
        Micros(now): Micros,
    ) -> Option<(Decision, Tail)> {
        let (_, window) = limit.rate();
        if self.newest() > now.saturating_add(window) {
            return None;
        }
        let tail = Tail { length: self.entries.len(), newest: self.entries.back().copied() };
        Some((self.charge(limit, Charge::Take(hits), now), tail))
    }

    /// Undoes a take.
    pub(super) fn restore(&mut self, tail: Tail) {
        self.entries.truncate(tail.length);
        if let (Some(newest), Some(before)) = (self.entries.back_mut(), tail.newest) {
            *newest = before;
        }
    }

    /// Drops what is not live.
    pub(super) fn drop_dead(&mut self, limit: &Limit, Micros(now): Micros) {
        let (_, window) = limit.rate();
        self.drop_dead_at(now.max(self.newest()), window);
    }

    fn decide(&mut self, limit: &Limit, charge: Charge, now: u64) -> Decision {
        let decision = self.charge(limit, charge, now);
        if decision.written {
            self.drop_dead(limit, Micros(now));
        }
        decision
    }

    fn charge(&mut self, limit: &Limit, charge: Charge, now: u64) -> Decision {
        let (requests, window) = limit.rate();
        let mut time = now.max(self.newest());
        let mut written = time > now.saturating_add(window);
        if written {
            self.join_at(now, self.used(time, window));
            time = now;
        }

        let mut used = self.used(time, window);
        let before = used;
        let allowed = match charge {
            Charge::Take(hits) => {
                let fits = hits <= requests.saturating_sub(used);
                if fits || limit.count_denied {
                    let hits = hits.min(MAX_HITS.saturating_sub(used));
                    self.record(time, hits, used > requests);
                    used = used.saturating_add(hits);
                    written = true;
                }
                fits
            }
            Charge::Peek => used <= requests,
            Charge::Refund(hits) => {
                let hits = hits.min(used);
                if hits > 0 {
                    self.drop_dead_at(time, window);
                    self.take_back(hits);
                    used = used.saturating_sub(hits);
                    written = true;
                }
                true
            }
        };

        let leaves = |at: u64| at.saturating_add(window).saturating_sub(now);
        let wait = match requests.checked_sub(charge.hits()) {
            Some(room) if !allowed => self.last_before(room).and_then(|at| finite(leaves(at))),
            _ => None,
        };
        let oldest = self.entries.get(self.n_dead(time, window));
        Decision {
            allowed,
            remaining: requests.saturating_sub(used),
            wait,
            reset: capped(oldest.map_or(0, |entry| leaves(entry.at))),
            before: requests.min(before),
            after: requests.min(used),
            written,
        }
    }

    fn newest(&self) -> u64 {
        self.entries.back().map_or(0, |entry| entry.at)
    }

    /// Sum of all hits that were ever recorded.
    fn total(&self) -> u64 {
        self.entries.back().map_or(self.base, |entry| entry.total)
    }

    fn n_dead(&self, time: u64, window: u64) -> usize {
        self.entries.partition_point(|entry| entry.at.saturating_add(window) <= time)
    }

    /// What `total` was before the entry at `index`.
    fn total_before(&self, index: usize) -> u64 {
        let last = index.checked_sub(1).and_then(|last| self.entries.get(last));
        last.map_or(self.base, |entry| entry.total)
    }

    /// u.
    fn used(&self, time: u64, window: u64) -> u64 {
        self.total().wrapping_sub(self.total_before(self.n_dead(time, window)))
    }

    /// When the first entry was made that at most `room` hits follow.
    fn last_before(&self, room: u64) -> Option<u64> {
        let following = |entry: &Entry| self.total().wrapping_sub(entry.total);
        let index = self.entries.partition_point(|entry| following(entry) > room);
        self.entries.get(index).map(|entry| entry.at)
    }

    fn drop_dead_at(&mut self, time: u64, window: u64) {
        let n_dead = self.n_dead(time, window);
        self.base = self.total_before(n_dead);
        self.entries.drain(..n_dead);
        if self.entries.capacity() > 64 && self.entries.len() < self.entries.capacity() / 8 {
            self.entries.shrink_to(self.entries.len().saturating_mul(2));
        }
    }

    fn record(&mut self, time: u64, hits: u64, over: bool) {
        let total = self.total().wrapping_add(hits);
        match self.entries.back_mut() {
            Some(newest) if over => *newest = Entry { at: time, total },
            _ => self.entries.push_back(Entry { at: time, total }),
        }
    }

    fn take_back(&mut self, hits: u64) {
        let mut rest = hits;
        while let Some(newest) = self.entries.pop_back() {
            let weight = newest.total.wrapping_sub(self.total());
            if weight > rest {
                let total = newest.total.wrapping_sub(rest);
                self.entries.push_back(Entry { total, ..newest });
                return;
            }
            rest = rest.saturating_sub(weight);
        }
    }

    fn join_at(&mut self, now: u64, used: u64) {
        let total = self.total();
        self.base = total.wrapping_sub(used);
        self.entries.clear();
        self.entries.push_back(Entry { at: now, total });
    }
}
