//! `rate_limit`: one limit, or a list of limits on one descriptor.

use super::fields::{Field, Fields, Sink};
use super::level::Walk;
use super::settings::{ALGORITHMS, ANCHORS, FAILURE_MODES};
use crate::algorithm::Algorithm;
use crate::config::nearest::{hint, nearest};
use crate::config::raw::{Place, Raw, RawValue, shown};
use crate::config::shape::Level;
use crate::rules::{Allows, Defaults, LimitParts, RuleLimit, Unit};
use std::sync::Arc;

/// One item of a list of limits.
#[derive(Debug)]
struct Item {
    place: Place,
    allows: One,
    /// Whether its algorithm is the process's default.
    default_algorithm: bool,
}

#[derive(Debug)]
enum One {
    Unlimited(Names),
    Limit(Box<RuleLimit>),
}

/// What a limit is called, and whom it removes.
#[derive(Debug)]
struct Names {
    name: Arc<str>,
    replaces: Box<[Box<str>]>,
}

/// A rule's algorithm, and who chose it.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    algorithm: Algorithm,
    /// Whether the rule itself names it.
    by_rule: bool,
}

/// A bucket that takes longer to fill than this is a mistake (100 years of 365 days).
const MAX_FILL_SECONDS: u128 = 100 * 365 * 86_400;

/// Entries of a log: more than the first are dear, more than the second too dear.
const DEAR_LOG: u32 = 10_000;
const MAX_LOG: u32 = 100_000;
/// What Redis needs for an entry, in bytes.
const LOG_ENTRY_BYTES: u64 = 118;

/// Keys that mean nothing beside `unlimited: true`.
const OF_LIMITED: &[&str] = &[
    "requests_per_unit",
    "unit_multiplier",
    "algorithm",
    "burst",
    "window",
    "count_denied",
    "failure_mode",
    "version",
];

impl<'a> Walk<'a, '_> {
    /// What a `rate_limit` allows; none if it is faulty.
    pub(super) fn allows(&mut self, field: Field<'a>) -> Option<Allows> {
        let raws = match &field.value.value {
            RawValue::List(items) if items.is_empty() => {
                self.sink.error(field.value.place, "the list of limits is empty");
                return None;
            }
            RawValue::List(items) => items.as_slice(),
            RawValue::Null
            | RawValue::Bool(..)
            | RawValue::Integer(..)
            | RawValue::Float(_)
            | RawValue::Text(_)
            | RawValue::Map(_) => std::slice::from_ref(field.value),
        };
        let items: Vec<Item> = raws.iter().filter_map(|raw| self.item(raw)).collect();
        self.check_list(&items);
        if items.len() < raws.len() {
            return None;
        }
        self.n_default_algorithm += usize::from(items.iter().any(|item| item.default_algorithm));
        together(items)
    }

    fn item(&mut self, raw: &'a Raw) -> Option<Item> {
        let fields = self.sink.fields(raw, Level::RateLimit)?;
        let place = fields.place;
        let names = self.sink.names(&fields);
        if self.sink.flag(fields.get("unlimited")) == Some(true) {
            self.sink.check_unlimited(&fields);
            return Some(Item { place, allows: One::Unlimited(names), default_algorithm: false });
        }
        let chosen = self.algorithm(&fields);
        let limit = self.limit(&fields, names, chosen)?;
        let default_algorithm = !chosen?.by_rule && !self.domain_names_algorithm;
        Some(Item { place, allows: One::Limit(Box::new(limit)), default_algorithm })
    }

    /// Reads all of a limit before it gives up, so that every fault is found.
    fn limit(
        &mut self,
        fields: &Fields<'a>,
        names: Names,
        chosen: Option<Chosen>,
    ) -> Option<RuleLimit> {
        let unit = self.sink.unit(fields);
        let requests = self.sink.requests(fields);
        let multiplier = match fields.get("unit_multiplier") {
            Some(field) => self.sink.count(Some(field)),
            None => Some(1),
        };
        let defaults = self.laid_over(fields, chosen);
        let (unit, multiplier) = (unit?, multiplier?);
        let Names { name, replaces } = names;
        let (requests, defaults) = (requests?, defaults?);
        let parts =
            LimitParts { requests, unit, unit_multiplier: multiplier, defaults, name, replaces };
        let Some(limit) = parts.build() else {
            self.sink.window_too_long(fields, unit, multiplier);
            return None;
        };
        self.sink.check_fill(fields, &limit);
        self.sink.check_log(fields, &limit);
        Some(limit)
    }

    /// None if the rule names one that does not exist.
    fn algorithm(&mut self, fields: &Fields<'a>) -> Option<Chosen> {
        let named = fields.get("algorithm");
        let algorithm = match named {
            Some(_) => self.sink.word(named, &ALGORITHMS)?,
            None => self.defaults.algorithm,
        };
        Some(Chosen { algorithm, by_rule: named.is_some() })
    }

    /// The defaults with what the rule itself names laid over them.
    fn laid_over(&mut self, fields: &Fields<'a>, chosen: Option<Chosen>) -> Option<Defaults> {
        let sink = &mut self.sink;
        let failure_mode = sink.word(fields.get("failure_mode"), &FAILURE_MODES);
        let count_denied = sink.flag(fields.get("count_denied"));
        let version = sink.text(fields.get("version")).filter(|version| !version.is_empty());
        let burst = sink.burst(fields.get("burst"));
        let anchor = sink.word(fields.get("window"), &ANCHORS);
        let chosen = chosen?;
        sink.check_meaning(fields, chosen);
        let algorithm = match (chosen.algorithm, anchor) {
            (Algorithm::FixedWindow(_), Some(anchor)) => Algorithm::FixedWindow(anchor),
            (algorithm, _) => algorithm,
        };
        let inherited = &self.defaults;
        Some(Defaults {
            algorithm,
            failure_mode: failure_mode.unwrap_or(inherited.failure_mode),
            burst: burst.or(inherited.burst).filter(|_| has_burst(algorithm)),
            count_denied: count_denied.or(inherited.count_denied),
            version: version.map(Into::into).or_else(|| inherited.version.clone()),
        })
    }

    /// What the items of a list must not be to each other.
    fn check_list(&mut self, items: &[Item]) {
        for (index, item) in items.iter().enumerate() {
            let before = items.get(..index).unwrap_or_default();
            if items.len() > 1 && matches!(item.allows, One::Unlimited(_)) {
                self.sink
                    .error(item.place, "`unlimited` must stand alone, not beside other limits");
            }
            if let Some(twin) = before.iter().find(|other| item.shares_bucket_with(other)) {
                let message = format!(
                    "this limit would share a bucket with the one at line {}: limits of one \
                     descriptor must differ in algorithm, window or version",
                    twin.place.line
                );
                self.sink.error(item.place, message);
            }
            let siblings = items.iter().enumerate().filter(|(other, _)| *other != index);
            if let Some((_, sibling)) = siblings.into_iter().find(|(_, it)| item.replaces(it)) {
                let message = format!(
                    "`replaces` never removes a limit of the same descriptor, such as `{}`",
                    shown(sibling.name())
                );
                self.sink.warn(item.place, message);
            }
        }
    }
}

impl<'a> Sink<'a> {
    fn names(&mut self, fields: &Fields<'a>) -> Names {
        let name = self.text(fields.get("name")).unwrap_or_default();
        let mut replaces = Vec::new();
        for item in self.list(fields.get("replaces")) {
            let Some(fields) = self.fields(item, Level::Replaces) else { continue };
            let field = fields.get("name");
            let place = field.map_or(fields.place, |field| field.value.place);
            match self.text(field) {
                None if field.is_some() => {}
                None | Some("") => self.error(
                    place,
                    "should not have an empty replaces entry, expected `- name: other_limit`",
                ),
                Some(replaced) if replaced == name => {
                    self.error(place, "replaces should not contain name of same descriptor");
                }
                Some(replaced) => replaces.push(replaced.into()),
            }
        }
        Names { name: name.into(), replaces: replaces.into() }
    }

    fn check_unlimited(&mut self, fields: &Fields<'a>) {
        if let Some(field) = fields.get("unit") {
            let unit = field.value.literal().unwrap_or_default();
            if find_unit(unit).is_some() {
                self.error(
                    field.key_place,
                    "should not specify rate limit unit when unlimited: remove `unit`, or \
                     `unlimited`",
                );
            } else {
                self.warn(field.key_place, "`unit` has no effect beside `unlimited: true`");
            }
        }
        for field in fields.those_of(OF_LIMITED) {
            let message = format!("`{}` has no effect beside `unlimited: true`", field.key.name);
            self.warn(field.key_place, message);
        }
    }

    fn unit(&mut self, fields: &Fields<'a>) -> Option<Unit> {
        let field = fields.get("unit");
        let Some(field) = field else {
            if !fields.misspells("unit") {
                let words = unit_words();
                let message = format!("invalid rate limit unit '': no `unit`, expected {words}");
                self.error(fields.place, message);
            }
            return None;
        };
        let Some(word) = field.value.literal() else {
            self.unexpected(field, "");
            return None;
        };
        let unit = find_unit(word);
        if unit.is_none() {
            let nearest = nearest(word, Unit::ALL.iter().map(|unit| unit.name()));
            let message = format!(
                "invalid rate limit unit '{}', expected {}{}",
                shown(word),
                unit_words(),
                hint(nearest)
            );
            self.error(field.value.place, message);
        }
        unit
    }

    fn requests(&mut self, fields: &Fields<'a>) -> Option<u32> {
        let field = fields.get("requests_per_unit");
        if field.is_none() {
            if !fields.misspells("requests_per_unit") {
                self.warn(
                    fields.place,
                    "`requests_per_unit` is missing and counts as 0: every request is refused; \
                     write `requests_per_unit: 0` if you mean that",
                );
            }
            return Some(0);
        }
        self.count(field)
    }

    /// A burst of at least 1.
    pub(super) fn burst(&mut self, field: Option<Field<'a>>) -> Option<u32> {
        let burst = self.count(field)?;
        if burst == 0 {
            self.unexpected(field?, "");
        }
        (burst > 0).then_some(burst)
    }

    /// Keys of other algorithms: an error where the rule itself names its algorithm.
    fn check_meaning(&mut self, fields: &Fields<'a>, chosen: Chosen) {
        let Chosen { algorithm, by_rule } = chosen;
        let meaningless: &[(&str, &str)] = match algorithm {
            Algorithm::FixedWindow(_) => &[("burst", "token_bucket and leaky_bucket")],
            Algorithm::SlidingWindowLog | Algorithm::SlidingWindowCounter => {
                &[("burst", "token_bucket and leaky_bucket"), ("window", "fixed_window")]
            }
            Algorithm::TokenBucket | Algorithm::LeakyBucket => &[("window", "fixed_window")],
        };
        for (name, of) in meaningless {
            let Some(field) = fields.get(name) else { continue };
            let algorithm = algorithm.name();
            if by_rule {
                let message = format!("`{name}` means nothing for {algorithm}, only for {of}");
                self.error(field.key_place, message);
            } else {
                let message = format!(
                    "`{name}` has no effect: it is for {of}, and this rule's algorithm is \
                     {algorithm} by default; name the `algorithm` here"
                );
                self.warn(field.key_place, message);
            }
        }
    }

    fn window_too_long(&mut self, fields: &Fields<'a>, unit: Unit, multiplier: u32) {
        let field = fields.get("unit_multiplier").or_else(|| fields.get("unit"));
        let place = field.map_or(fields.place, |field| field.value.place);
        let message = format!(
            "the window of {multiplier} × {} is longer than a year, the longest possible",
            unit.name()
        );
        self.error(place, message);
    }

    /// A bucket must fill or drain within a lifetime.
    fn check_fill(&mut self, fields: &Fields<'a>, limit: &RuleLimit) {
        let limit = &limit.limit;
        if !has_burst(limit.algorithm) || limit.requests == 0 {
            return;
        }
        let window = u128::from(limit.window.ceil_secs());
        let seconds = (u128::from(limit.burst) * window).div_ceil(u128::from(limit.requests));
        if seconds > MAX_FILL_SECONDS {
            let place = fields.get("burst").map_or(fields.place, |field| field.value.place);
            let years = seconds / (365 * 86_400);
            let message = format!(
                "a burst of {} takes {years} years at this rate, expected at most 100",
                limit.burst
            );
            self.error(place, message);
        }
    }

    fn check_log(&mut self, fields: &Fields<'a>, limit: &RuleLimit) {
        let requests = limit.limit.requests;
        if limit.limit.algorithm != Algorithm::SlidingWindowLog || requests <= DEAR_LOG {
            return;
        }
        let place = fields.get("requests_per_unit").map_or(fields.place, |it| it.value.place);
        if requests > MAX_LOG {
            let message = format!(
                "sliding_window_log keeps every request of a window, at most {MAX_LOG}; \
                 sliding_window_counter has no such bound"
            );
            self.error(place, message);
        } else {
            let bytes = u64::from(requests) * LOG_ENTRY_BYTES;
            let message = format!(
                "sliding_window_log keeps every request of a window: up to {bytes} bytes for each \
                 bucket; sliding_window_counter needs only a few"
            );
            self.warn(place, message);
        }
    }
}

impl Item {
    fn name(&self) -> &str {
        match &self.allows {
            One::Unlimited(names) => &names.name,
            One::Limit(limit) => &limit.name,
        }
    }

    fn replaces(&self, other: &Self) -> bool {
        let replaces = match &self.allows {
            One::Unlimited(names) => &names.replaces,
            One::Limit(limit) => &limit.replaces,
        };
        replaces.iter().any(|name| **name == *other.name())
    }

    fn shares_bucket_with(&self, other: &Self) -> bool {
        match (&self.allows, &other.allows) {
            (One::Limit(this), One::Limit(other)) => this.kind == other.kind,
            (One::Unlimited(_), _) | (_, One::Unlimited(_)) => false,
        }
    }
}

fn together(items: Vec<Item>) -> Option<Allows> {
    let mut limits = Vec::with_capacity(items.len());
    for item in items {
        match item.allows {
            One::Unlimited(Names { name, replaces }) => {
                return Some(Allows::Unlimited { name, replaces });
            }
            One::Limit(limit) => limits.push(*limit),
        }
    }
    (!limits.is_empty()).then(|| Allows::Limits(limits.into()))
}

fn has_burst(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket)
}

fn find_unit(word: &str) -> Option<Unit> {
    Unit::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(word))
}

fn unit_words() -> &'static str {
    "second, minute, hour, day, week, month or year"
}
