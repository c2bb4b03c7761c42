//! The series of rules. Kept and written by hand: with 10,000 rules they are 70,000 lines, which
//! the general encoder takes too long over, and a request only adds to atomics it already holds.

use crate::rules::Labels;
use indexmap::IndexMap;
use prometheus::IntCounter;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

/// The series of one label set, in hits.
#[derive(Debug, Default)]
pub struct RuleSeries {
    /// `ratelimit_service_rate_limit_total_hits`
    pub total_hits: Counter,
    /// `…_over_limit`
    pub over_limit: Counter,
    /// `…_near_limit`
    pub near_limit: Counter,
    /// `…_within_limit`
    pub within_limit: Counter,
    /// `…_shadow_mode`
    pub shadow_mode: Counter,
    /// `…_over_limit_with_local_cache`
    pub over_limit_with_local_cache: Counter,
    /// `…_total_negative_hits`
    pub total_negative_hits: Counter,
}

/// All label sets, in the order in which they were first seen.
#[derive(Debug)]
pub(super) struct RuleSeriesSet {
    max: usize,
    table: RwLock<Table>,
}

#[derive(Debug, Default)]
struct Table {
    series: IndexMap<Labels, Series, ahash::RandomState>,
    n_of_requests: usize,
    n_shown_at_zero: usize,
}

#[derive(Clone, Debug)]
struct Series {
    lines: Arc<Lines>,
    made_by: Maker,
    /// Whether it is shown before its first hit.
    shown_at_zero: bool,
}

/// What is written of a label set. Shared apart from its counters, whose owners say whether a rule
/// is still in force.
#[derive(Debug)]
struct Lines {
    /// `{domain="…",…}`, escaped.
    labels: Box<str>,
    counters: Arc<RuleSeries>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Maker {
    Rule,
    Request,
    /// What is beyond the cap of requests.
    Overflow,
}

/// How many label sets are copied before a request that brings a new one gets its turn.
const SLICE: usize = 256;

pub(super) struct Family {
    pub(super) name: &'static str,
    help: &'static str,
    counter: fn(&RuleSeries) -> &Counter,
}

pub(super) const FAMILIES: [Family; 7] = [
    Family { name: "total_hits", help: "Hits asked for.", counter: |s| &s.total_hits },
    Family { name: "over_limit", help: "Hits over the limit.", counter: |s| &s.over_limit },
    Family {
        name: "near_limit",
        help: "Hits above NEAR_LIMIT_RATIO of the limit, and not over it.",
        counter: |s| &s.near_limit,
    },
    Family {
        name: "within_limit",
        help: "Hits admitted, near ones included.",
        counter: |s| &s.within_limit,
    },
    Family {
        name: "shadow_mode",
        help: "Hits over the limit that shadow_mode let pass.",
        counter: |s| &s.shadow_mode,
    },
    Family {
        name: "over_limit_with_local_cache",
        help: "Hits refused without asking the store.",
        counter: |s| &s.over_limit_with_local_cache,
    },
    Family {
        name: "total_negative_hits",
        help: "Hits given back.",
        counter: |s| &s.total_negative_hits,
    },
];

impl Counter {
    /// Adds one.
    pub fn inc(&self) {
        self.inc_by(1);
    }

    /// Adds `n`.
    pub fn inc_by(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// What was added up so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl RuleSeries {
    fn is_zero(&self) -> bool {
        FAMILIES.iter().all(|family| (family.counter)(self).get() == 0)
    }
}

impl RuleSeriesSet {
    pub(super) fn new(max: usize) -> Self {
        Self { max, table: RwLock::default() }
    }

    /// Cap of label sets that rules show at zero, of those that requests make, and of those that
    /// are remembered of rules no longer in force.
    pub(super) fn max(&self) -> usize {
        self.max
    }

    pub(super) fn of_rule(&self, labels: &Labels) -> Arc<RuleSeries> {
        self.write().of_rule(labels, self.max)
    }

    pub(super) fn of_request(&self, labels: &Labels, overflow: &IntCounter) -> Arc<RuleSeries> {
        if let Some(series) = self.read().series.get(labels) {
            return Arc::clone(&series.lines.counters);
        }
        if self.read().n_of_requests < self.max {
            return self.write().of_request(labels);
        }
        overflow.inc();
        let other =
            Labels { key1: "_other".into(), key2: "".into(), key3: "".into(), ..labels.clone() };
        if let Some(series) = self.read().series.get(&other) {
            return Arc::clone(&series.lines.counters);
        }
        self.write().get_or_insert(&other, Maker::Overflow)
    }

    /// Forgets the oldest of the rules that nobody holds any more, beyond as many as the cap; the
    /// others keep their counts, should they come back. One thread at a time, which no request
    /// waits for: what is kept is put together aside.
    pub(super) fn forget_old(&self) {
        let known = self.copy();
        let n_known = known.len();
        let mut kept = Table::of_kept(known, self.max);
        let mut table = self.write();
        kept.add_new(&table, n_known);
        let old = std::mem::replace(&mut *table, kept);
        drop(table);
        drop(old);
    }

    fn copy(&self) -> Vec<(Labels, Series)> {
        let mut copy = Vec::new();
        loop {
            let table = self.read();
            let slice = table.series.iter().skip(copy.len()).take(SLICE);
            copy.extend(slice.map(|(labels, series)| (labels.clone(), series.clone())));
            if copy.len() >= table.series.len() {
                return copy;
            }
        }
    }

    /// How every label set stands, in the order of [`FAMILIES`].
    pub(super) fn totals(&self) -> Vec<(Labels, [u64; FAMILIES.len()])> {
        let of = |series: &Series| {
            FAMILIES.each_ref().map(|family| (family.counter)(&series.lines.counters).get())
        };
        self.copy().into_iter().map(|(labels, series)| (labels, of(&series))).collect()
    }

    pub(super) fn render(&self, text: &mut String) {
        // Written without the lock: a request that brings new labels would wait for all of it, and
        // every other one for that request.
        let known: Vec<Series> = self.read().series.values().cloned().collect();
        let shown: Vec<&Lines> =
            known.iter().filter(|series| series.is_shown()).map(|series| &*series.lines).collect();
        text.reserve(
            FAMILIES.len() * shown.iter().map(|lines| lines.labels.len() + 64).sum::<usize>(),
        );
        for family in &FAMILIES {
            render_family(text, family, &shown);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn of_rule(&mut self, labels: &Labels, max: usize) -> Arc<RuleSeries> {
        let counters = self.get_or_insert(labels, Maker::Rule);
        let show = self.n_shown_at_zero < max;
        if let Some(series) = self.series.get_mut(labels) {
            self.n_of_requests -= usize::from(series.made_by == Maker::Request);
            self.n_shown_at_zero += usize::from(show && !series.shown_at_zero);
            series.made_by = Maker::Rule;
            series.shown_at_zero |= show;
        }
        counters
    }

    fn of_request(&mut self, labels: &Labels) -> Arc<RuleSeries> {
        self.n_of_requests += usize::from(!self.series.contains_key(labels));
        self.get_or_insert(labels, Maker::Request)
    }

    fn get_or_insert(&mut self, labels: &Labels, made_by: Maker) -> Arc<RuleSeries> {
        let series = self.series.entry(labels.clone()).or_insert_with(|| Series {
            lines: Arc::new(Lines { labels: label_text(labels), counters: Arc::default() }),
            made_by,
            shown_at_zero: false,
        });
        Arc::clone(&series.lines.counters)
    }

    /// Without the oldest unheld ones beyond `max`; what is shown at zero is chosen anew.
    fn of_kept(mut known: Vec<(Labels, Series)>, max: usize) -> Self {
        let n_unheld = known.iter().filter(|(_, series)| series.is_unheld()).count();
        let mut n_surplus = n_unheld.saturating_sub(max);
        known.retain(|(_, series)| {
            let forget = n_surplus > 0 && series.is_unheld();
            n_surplus -= usize::from(forget);
            !forget
        });
        let mut n_shown_at_zero = 0;
        let rules = known.iter_mut().map(|(_, series)| series);
        for series in rules.filter(|series| series.made_by == Maker::Rule) {
            series.shown_at_zero = n_shown_at_zero < max && !series.is_unheld();
            n_shown_at_zero += usize::from(series.shown_at_zero);
        }
        Self { series: known.into_iter().collect(), n_of_requests: 0, n_shown_at_zero }
    }

    /// Takes over what came to `table` after its first `n_known`.
    fn add_new(&mut self, table: &Self, n_known: usize) {
        let new = table.series.iter().skip(n_known);
        self.series.extend(new.map(|(labels, series)| (labels.clone(), series.clone())));
        self.n_of_requests = table.n_of_requests;
    }
}

impl Series {
    fn is_shown(&self) -> bool {
        self.shown_at_zero || !self.lines.counters.is_zero()
    }

    /// Whether it is of a rule that is no longer in force.
    fn is_unheld(&self) -> bool {
        self.made_by == Maker::Rule && Arc::strong_count(&self.lines.counters) == 1
    }
}

fn render_family(text: &mut String, family: &Family, shown: &[&Lines]) {
    let Family { name, help, counter } = family;
    let name = format!("ratelimit_service_rate_limit_{name}");
    push(text, format_args!("# HELP {name} {help}\n# TYPE {name} counter\n"));
    for Lines { labels, counters } in shown {
        push(text, format_args!("{name}{labels} {}\n", counter(counters).get()));
    }
}

fn label_text(labels: &Labels) -> Box<str> {
    let mut text = String::from("{");
    push_labels(&mut text, labels);
    text.push('}');
    text.into()
}

/// `domain="…",key1="…",key2="…",key3="…"`
pub(super) fn push_labels(text: &mut String, labels: &Labels) {
    let Labels { domain, key1, key2, key3 } = labels;
    push_label(text, "domain", domain);
    for (name, value) in [("key1", key1), ("key2", key2), ("key3", key3)] {
        text.push(',');
        push_label(text, name, value);
    }
}

/// `name="value"`, escaped.
pub(super) fn push_label(text: &mut String, name: &str, value: &str) {
    text.push_str(name);
    text.push_str("=\"");
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
    text.push('"');
}

/// Appends formatted text; a `String` takes all of it.
pub(super) fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(arguments);
}
