//! One limit: its keys, over the defaults of its domain and of the process.

use super::bounds::has_burst;
use super::fields::{Field, Fields, Sink};
use super::level::Walk;
use super::limits::{Item, Names, One};
use super::settings::{ALGORITHMS, ANCHORS, FAILURE_MODES};
use crate::algorithm::Algorithm;
use crate::config::nearest::{hint, nearest};
use crate::config::raw::{Raw, shown};
use crate::config::shape::Level;
use crate::rules::{Defaults, LimitParts, RuleLimit, Unit};

/// A rule's algorithm, and who chose it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub(super) algorithm: Algorithm,
    /// Whether the rule itself names it.
    pub(super) by_rule: bool,
}

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
    /// One limit, or `unlimited`; none if it is faulty.
    pub(super) fn item(&mut self, raw: &'a Raw) -> Option<Item> {
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
}

impl<'a> Sink<'a> {
    fn names(&mut self, fields: &Fields<'a>) -> Names {
        let name = self.text(fields.get("name")).unwrap_or_default();
        self.named.push(name);
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
                Some(replaced) => {
                    self.replaced.push((place, replaced));
                    replaces.push(replaced.into());
                }
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
}

fn find_unit(word: &str) -> Option<Unit> {
    Unit::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(word))
}

fn unit_words() -> &'static str {
    "second, minute, hour, day, week, month or year"
}
