//! The three windows as plain lists of hits that are added up anew each time.

use super::history::{Model, history, play};
use super::*;
use num_rational::BigRational;
use proptest::prelude::*;

fn fits(charge: Charge, used: u64, requests: u32) -> bool {
    let (used, requests) = (i128::from(used), i128::from(requests));
    match charge {
        Charge::Take(hits) => used + i128::from(hits) <= requests,
        Charge::Peek => used <= requests,
        Charge::Refund(_) => true,
    }
}

/// Every hit beside the start of the window it was counted in.
#[derive(Clone, Debug, Default)]
struct FixedModel<const FIRST_HIT: bool> {
    hits: Vec<(u64, i128)>,
}

impl<const FIRST_HIT: bool> FixedModel<FIRST_HIT> {
    fn fresh(limit: &Limit, now: u64) -> u64 {
        if FIRST_HIT { now } else { now / limit.window.0 * limit.window.0 }
    }

    fn open(&self, limit: &Limit, now: u64) -> Option<u64> {
        self.hits.last().map(|hit| hit.0).filter(|start| start + limit.window.0 > now)
    }

    fn count(&self, limit: &Limit, now: u64) -> u64 {
        let start = self.open(limit, now);
        let hits = self.hits.iter().filter(|hit| Some(hit.0) == start).map(|hit| hit.1);
        u64::try_from(hits.sum::<i128>()).unwrap()
    }
}

impl<const FIRST_HIT: bool> Model for FixedModel<FIRST_HIT> {
    fn take_over_clock(&mut self, limit: &Limit, now: u64) -> bool {
        if self.open(limit, now).is_none_or(|start| start <= now + limit.window.0) {
            return false;
        }
        let used = self.count(limit, now);
        self.hits = vec![(Self::fresh(limit, now), used.into())];
        true
    }

    fn admits(&self, limit: &Limit, charge: Charge, now: u64) -> bool {
        fits(charge, self.count(limit, now), limit.requests)
    }

    fn record(&mut self, limit: &Limit, hits: u64, now: u64) -> bool {
        let used = self.count(limit, now);
        if used > limit.requests.into() {
            return false;
        }
        let start = self.open(limit, now).unwrap_or(Self::fresh(limit, now));
        if self.open(limit, now).is_none() {
            self.hits.clear();
        }
        self.hits.push((start, hits.min(MAX_HITS - used).into()));
        true
    }

    fn refund(&mut self, limit: &Limit, hits: u64, now: u64) -> bool {
        let hits = hits.min(self.count(limit, now));
        if let Some(start) = self.open(limit, now).filter(|_| hits > 0) {
            self.hits.push((start, -i128::from(hits)));
        }
        hits > 0
    }

    fn remaining(&self, limit: &Limit, now: u64) -> u64 {
        u64::from(limit.requests).saturating_sub(self.count(limit, now))
    }

    fn used(&self, limit: &Limit, now: u64) -> u64 {
        self.count(limit, now)
    }

    fn resets_after(&self, limit: &Limit, now: u64, reset: u64) -> bool {
        match self.open(limit, now) {
            Some(start) => now + reset == start + limit.window.0,
            None if FIRST_HIT => reset == 0,
            None => {
                (now + reset).is_multiple_of(limit.window.0)
                    && (1..=limit.window.0).contains(&reset)
            }
        }
    }
}

/// Every hit beside its time.
#[derive(Clone, Debug, Default)]
struct LogModel {
    hits: Vec<(u64, u64)>,
}

impl LogModel {
    fn live(&self, limit: &Limit, now: u64) -> Vec<(u64, u64)> {
        let time = self.hits.iter().map(|hit| hit.0).chain([now]).max().unwrap();
        self.hits.iter().copied().filter(|hit| hit.0 + limit.window.0 > time).collect()
    }

    fn count(&self, limit: &Limit, now: u64) -> u64 {
        self.live(limit, now).iter().map(|hit| hit.1).sum()
    }
}

impl Model for LogModel {
    fn take_over_clock(&mut self, limit: &Limit, now: u64) -> bool {
        let ahead = self.hits.iter().any(|hit| hit.0 > now + limit.window.0);
        if ahead {
            self.hits = vec![(now, self.count(limit, now))];
        }
        ahead
    }

    fn admits(&self, limit: &Limit, charge: Charge, now: u64) -> bool {
        fits(charge, self.count(limit, now), limit.requests)
    }

    fn record(&mut self, limit: &Limit, hits: u64, now: u64) -> bool {
        let used = self.count(limit, now);
        let time = self.hits.iter().map(|hit| hit.0).chain([now]).max().unwrap();
        self.hits = self.live(limit, now);
        if used > limit.requests.into() {
            let newest = self.hits.last_mut().unwrap();
            *newest = (time, newest.1 + hits.min(MAX_HITS - used));
        } else {
            self.hits.push((time, hits.min(MAX_HITS - used)));
        }
        true
    }

    fn refund(&mut self, limit: &Limit, hits: u64, now: u64) -> bool {
        let mut left = hits.min(self.count(limit, now));
        if left == 0 {
            return false;
        }
        self.hits = self.live(limit, now);
        for hit in self.hits.iter_mut().rev() {
            let back = left.min(hit.1);
            hit.1 -= back;
            left -= back;
        }
        self.hits.retain(|hit| hit.1 > 0);
        true
    }

    fn remaining(&self, limit: &Limit, now: u64) -> u64 {
        u64::from(limit.requests).saturating_sub(self.count(limit, now))
    }

    fn resets_after(&self, limit: &Limit, now: u64, reset: u64) -> bool {
        match self.live(limit, now).iter().map(|hit| hit.0).min() {
            Some(oldest) => now + reset == oldest + limit.window.0,
            None => reset == 0,
        }
    }
}

/// Every hit beside the number of the window it was counted in.
#[derive(Clone, Debug, Default)]
struct CounterModel {
    hits: Vec<(u64, i128)>,
    newest: u64,
}

impl CounterModel {
    /// The number of the current window, the previous and the current count.
    fn counts(&self, limit: &Limit, now: u64) -> (u64, u64, u64) {
        let number = (now / limit.window.0).max(self.newest);
        let of = |number| {
            let hits = self.hits.iter().filter(|hit| hit.0 == number).map(|hit| hit.1);
            u64::try_from(hits.sum::<i128>()).unwrap()
        };
        // Even the very first window has one before it, when a clock stepped back into it.
        (number, of(number.wrapping_sub(1)), of(number))
    }

    fn count(&self, limit: &Limit, now: u64) -> u64 {
        let (number, previous, current) = self.counts(limit, now);
        let window = limit.window.0;
        let elapsed = now.saturating_sub(number * window);
        let share = BigRational::new((window - elapsed).into(), window.into());
        let used = share * BigRational::from_integer(previous.into())
            + BigRational::from_integer(current.into());
        u64::try_from(used.ceil().to_integer()).unwrap()
    }
}

impl Model for CounterModel {
    fn take_over_clock(&mut self, limit: &Limit, now: u64) -> bool {
        let ahead = !self.hits.is_empty() && self.newest * limit.window.0 > now + limit.window.0;
        if ahead {
            let (_, previous, current) = self.counts(limit, now);
            self.newest = now / limit.window.0;
            let before = self.newest.wrapping_sub(1);
            self.hits = vec![(self.newest, current.into()), (before, previous.into())];
        }
        ahead
    }

    fn admits(&self, limit: &Limit, charge: Charge, now: u64) -> bool {
        fits(charge, self.count(limit, now), limit.requests)
    }

    fn record(&mut self, limit: &Limit, hits: u64, now: u64) -> bool {
        let (number, _, current) = self.counts(limit, now);
        self.newest = number;
        self.hits.push((number, hits.min(MAX_STORED_HITS - current).into()));
        true
    }

    fn refund(&mut self, limit: &Limit, hits: u64, now: u64) -> bool {
        let (number, previous, current) = self.counts(limit, now);
        let from_current = hits.min(current);
        let from_previous = (hits - from_current).min(previous);
        if from_current + from_previous == 0 {
            return false;
        }
        self.newest = number;
        self.hits.push((number, -i128::from(from_current)));
        self.hits.push((number.wrapping_sub(1), -i128::from(from_previous)));
        true
    }

    fn remaining(&self, limit: &Limit, now: u64) -> u64 {
        u64::from(limit.requests).saturating_sub(self.count(limit, now))
    }

    fn resets_after(&self, limit: &Limit, now: u64, reset: u64) -> bool {
        let end = |windows: u64| windows * limit.window.0;
        match self.counts(limit, now) {
            (_, 0, 0) => reset == 0,
            (number, _, 0) => now + reset == end(number + 1),
            (number, ..) => now + reset == end(number + 2),
        }
    }
}

proptest! {
    #[test]
    fn a_fixed_window_agrees_with_a_list_of_hits(history in history()) {
        play::<FixedModel<false>>(FIXED, &history)?;
    }

    #[test]
    fn a_first_hit_window_agrees_with_a_list_of_hits(history in history()) {
        play::<FixedModel<true>>(FIRST_HIT, &history)?;
    }

    #[test]
    fn a_log_agrees_with_a_list_of_hits(history in history()) {
        play::<LogModel>(LOG, &history)?;
    }

    #[test]
    fn a_counter_agrees_with_a_list_of_hits(history in history()) {
        play::<CounterModel>(COUNTER, &history)?;
    }
}
