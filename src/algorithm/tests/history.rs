//! Random histories of one bucket, and the model that each is played against.

use super::*;
use proptest::prelude::*;
use std::fmt::Debug;

/// The same algorithm, written another way.
pub(super) trait Model: Clone + Debug + Default {
    /// What the clock's rule makes of what is stored; says whether that changed it.
    fn take_over_clock(&mut self, limit: &Limit, now: u64) -> bool;
    /// Whether the charge fits.
    fn admits(&self, limit: &Limit, charge: Charge, now: u64) -> bool;
    /// Records hits; refused ones only come here if they count. Says whether that writes.
    fn record(&mut self, limit: &Limit, hits: u64, now: u64) -> bool;
    /// Gives hits back; says whether that writes.
    fn refund(&mut self, limit: &Limit, hits: u64, now: u64) -> bool;
    /// Hits that would still be admitted.
    fn remaining(&self, limit: &Limit, now: u64) -> u64;
    /// Use as metrics see it.
    fn used(&self, limit: &Limit, now: u64) -> u64 {
        limit.capacity().saturating_sub(self.remaining(limit, now))
    }
    /// Whether `reset` is right.
    fn resets_after(&self, limit: &Limit, now: u64, reset: u64) -> bool;
}

/// How time goes on before a charge.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// By so many twelfths of a window and microseconds.
    Window(i64, i64),
    /// By the time of so many hits and microseconds.
    Hits(u32, i64),
    /// To the end of the last wait, or so many microseconds off.
    Wait(i64),
    /// To the end of the last reset, or so many microseconds off.
    Reset(i64),
}

/// How many hits.
#[derive(Clone, Copy, Debug)]
enum Hits {
    Some(u64),
    /// So many quarters of the limit and some.
    OfLimit(u64, i64),
    /// So many quarters of the burst and some.
    OfBurst(u64, i64),
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    Take(Hits),
    Peek,
    Refund(Hits),
}

#[derive(Clone, Debug)]
struct Move {
    step: Step,
    ask: Ask,
    change: Option<(u32, u32, bool)>,
}

/// What happens to one bucket.
#[derive(Clone, Debug)]
pub(super) struct History {
    start: u64,
    window: u64,
    first: (u32, u32, bool),
    moves: Vec<Move>,
}

fn nudge() -> impl Strategy<Value = i64> {
    prop_oneof![4 => Just(0), 2 => -1..=1_i64, 1 => -1_000_000..1_000_000_i64]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Window(0, 0)),
        4 => (0..=12_i64, nudge()).prop_map(|(twelfths, by)| Step::Window(twelfths, by)),
        1 => (12..=60_i64, nudge()).prop_map(|(twelfths, by)| Step::Window(twelfths, by)),
        1 => (-12..=0_i64, nudge()).prop_map(|(twelfths, by)| Step::Window(twelfths, by)),
        1 => (-40..=-11_i64, nudge()).prop_map(|(twelfths, by)| Step::Window(twelfths, by)),
        4 => (0..4_u32, nudge()).prop_map(|(hits, by)| Step::Hits(hits, by)),
        4 => (-1..=1_i64).prop_map(Step::Wait),
        1 => (-1..=1_i64).prop_map(Step::Reset),
    ]
}

fn hits() -> impl Strategy<Value = Hits> {
    prop_oneof![
        4 => (1..4_u64).prop_map(Hits::Some),
        3 => (0..=4_u64, -2..=2_i64).prop_map(|(quarters, by)| Hits::OfLimit(quarters, by)),
        2 => (0..=4_u64, -2..=2_i64).prop_map(|(quarters, by)| Hits::OfBurst(quarters, by)),
        1 => prop_oneof![
            Just(MAX_HITS),
            Just(MAX_STORED_HITS),
            (1..=MAX_HITS),
            (MAX_STORED_HITS - 9..MAX_STORED_HITS + 9),
        ].prop_map(Hits::Some),
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        7 => hits().prop_map(Ask::Take),
        2 => Just(Ask::Peek),
        1 => hits().prop_map(Ask::Refund),
    ]
}

pub(super) fn requests() -> impl Strategy<Value = u32> {
    prop_oneof![
        8 => 1..12_u32,
        1 => Just(0),
        2 => 10..2_000_u32,
        1 => Just(u32::MAX),
        1 => any::<u32>(),
    ]
}

fn window() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => prop::sample::select(vec![1, 7, 10, 60, 3_600, 86_400, 604_800, 31_536_000_u64]),
        1 => 1..=31_536_000_u64,
    ]
    .prop_map(|seconds| seconds * 1_000_000)
}

pub(super) fn history() -> impl Strategy<Value = History> {
    let limits = || (requests(), requests(), any::<bool>());
    let change = prop_oneof![9 => Just(None), 1 => limits().prop_map(Some)];
    let moves = (step(), ask(), change).prop_map(|(step, ask, change)| Move { step, ask, change });
    let start = prop_oneof![
        Just(0),
        Just(1_790_000_000_000_000),
        0..(1_u64 << 51),
        (0..90_u64).prop_map(|s| s * 1_000_000),
    ];
    (start, window(), limits(), prop::collection::vec(moves, 1..40))
        .prop_map(|(start, window, first, moves)| History { start, window, first, moves })
}

impl Hits {
    fn of(self, limit: &Limit) -> u64 {
        let share = |whole: u32, quarters: u64, by: i64| {
            (u64::from(whole) * quarters / 4).saturating_add_signed(by).clamp(1, MAX_HITS)
        };
        match self {
            Self::Some(hits) => hits,
            Self::OfLimit(quarters, by) => share(limit.requests, quarters, by),
            Self::OfBurst(quarters, by) => share(limit.burst, quarters, by),
        }
    }
}

impl Step {
    fn from(self, now: u64, limit: &Limit, last: Option<&Decision>) -> u64 {
        let window = i64::try_from(limit.window.0).unwrap();
        let after = |time: Option<Micros>, by: i64| match time {
            // Beyond the year 2100 clocks are not asked to go.
            Some(time) if time.0 < 1 << 52 => now.saturating_add(time.0).saturating_add_signed(by),
            _ => now,
        };
        let next = match self {
            Self::Window(twelfths, by) => now.saturating_add_signed(window * twelfths / 12 + by),
            Self::Hits(hits, by) => {
                let drip = limit.window.0 * u64::from(hits) / u64::from(limit.requests.max(1));
                now.saturating_add(drip).saturating_add_signed(by)
            }
            Self::Wait(by) => after(last.and_then(|last| last.wait), by),
            Self::Reset(by) => after(last.map(|last| last.reset), by),
        };
        next.min(1 << 56)
    }
}

/// Plays a history on the bucket and on its model, and compares all they say.
pub(super) fn play<M: Model>(algorithm: Algorithm, history: &History) -> Result<(), TestCaseError> {
    let (mut now, mut state, mut model, mut last) = (history.start, None, M::default(), None);
    let mut limit = Limit {
        algorithm,
        requests: history.first.0,
        window: Micros(history.window),
        burst: history.first.1,
        count_denied: history.first.2,
    };
    for step in &history.moves {
        if let Some((requests, burst, count_denied)) = step.change {
            limit = Limit { requests, burst, count_denied, ..limit };
        }
        now = step.step.from(now, &limit, last.as_ref());
        let charge = match step.ask {
            Ask::Take(hits) => Charge::Take(hits.of(&limit)),
            Ask::Peek => Charge::Peek,
            Ask::Refund(hits) => Charge::Refund(hits.of(&limit)),
        };
        let (next, decision) = decide(state.clone(), &limit, charge, Micros(now));
        let told = format!("{charge:?} at {now} of {limit:?}: {decision:?}\n{state:?}\n{model:?}");
        check(&mut model, &limit, charge, now, &decision)
            .map_err(|error| TestCaseError::fail(format!("{error}\n{told}")))?;
        prop_assert!(decision.written || next == state, "unwritten but changed: {}", told);
        prop_assert!(next.is_some() || state.is_none());
        check_wait(next.as_ref(), &model, &limit, charge, now, &decision)
            .map_err(|error| TestCaseError::fail(format!("{error}\n{told}")))?;
        (state, last) = (next, Some(decision));
    }
    Ok(())
}

fn check<M: Model>(
    model: &mut M,
    limit: &Limit,
    charge: Charge,
    now: u64,
    decision: &Decision,
) -> Result<(), TestCaseError> {
    let mut written = model.take_over_clock(limit, now);
    let (allowed, before) = (model.admits(limit, charge, now), model.used(limit, now));
    written |= match charge {
        Charge::Take(hits) => (allowed || limit.count_denied) && model.record(limit, hits, now),
        Charge::Peek => false,
        Charge::Refund(hits) => model.refund(limit, hits, now),
    };
    prop_assert_eq!(decision.allowed, allowed, "allowed");
    prop_assert_eq!(decision.before, before, "before");
    prop_assert_eq!(decision.after, model.used(limit, now), "after");
    prop_assert_eq!(decision.remaining, model.remaining(limit, now), "remaining");
    prop_assert_eq!(decision.written, written, "written");
    prop_assert!(model.resets_after(limit, now, decision.reset.0), "reset");
    Ok(())
}

/// Every finite wait is right to the microsecond, and none means never.
fn check_wait<M: Model>(
    state: Option<&State>,
    model: &M,
    limit: &Limit,
    charge: Charge,
    now: u64,
    decision: &Decision,
) -> Result<(), TestCaseError> {
    let passes = |now| decide(state.cloned(), limit, charge, Micros(now)).1.allowed;
    let fits = |now| model.admits(limit, charge, now);
    match decision.wait {
        _ if decision.allowed => prop_assert_eq!(decision.wait, None),
        Some(Micros(wait)) => {
            prop_assert!(wait > 0 && wait <= MAX_WAIT.0);
            prop_assert!(passes(now + wait) && fits(now + wait), "refused after its wait");
            prop_assert!(!passes(now + wait - 1) && !fits(now + wait - 1), "admitted too early");
        }
        None => prop_assert!(!fits(now + MAX_WAIT.0) && !passes(now + MAX_WAIT.0), "a wait exists"),
    }
    Ok(())
}
