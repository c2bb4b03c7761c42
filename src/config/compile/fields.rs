//! A mapping's keys, checked against the list of known ones; and where faults are collected.

use crate::config::nearest::hint;
use crate::config::raw::{Place, Raw, RawEntry, RawValue, shown};
use crate::config::report::{Fault, Severity};
use crate::config::shape::{Key, Level, Standing};
use crate::config::source::SourceFile;
use smallvec::SmallVec;

/// Collects the faults of one document.
#[derive(Debug)]
pub(super) struct Sink<'a> {
    pub(super) file: &'a SourceFile,
    pub(super) faults: Vec<Fault>,
    /// Names of limits.
    pub(super) named: Vec<&'a str>,
    /// What `replaces` names.
    pub(super) replaced: Vec<(Place, &'a str)>,
}

/// A place in one of several files.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    pub(super) file: &'a SourceFile,
    pub(super) place: Place,
}

/// The known keys of a mapping that belong there and have a value.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    /// Where the mapping begins.
    pub(super) place: Place,
    known: SmallVec<[Field<'a>; 8]>,
    /// What its unknown keys were probably meant to be.
    misspelt: SmallVec<[&'static str; 1]>,
}

/// A key and its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub(super) key: &'static Key,
    pub(super) key_place: Place,
    pub(super) value: &'a Raw,
}

impl<'a> Sink<'a> {
    pub(super) fn new(file: &'a SourceFile) -> Self {
        Self { file, faults: Vec::new(), named: Vec::new(), replaced: Vec::new() }
    }

    pub(super) fn error(&mut self, place: Place, message: impl Into<String>) {
        self.faults.push(self.file.fault(Severity::Error, place, message.into()));
    }

    pub(super) fn warn(&mut self, place: Place, message: impl Into<String>) {
        self.faults.push(self.file.fault(Severity::Warning, place, message.into()));
    }

    pub(super) fn at(&self, place: Place) -> At<'a> {
        At { file: self.file, place }
    }

    /// That place in words, as seen from this file.
    pub(super) fn words_for(&self, at: At<'_>) -> String {
        match (std::ptr::eq(self.file, at.file), at.place.line) {
            (true, 0) => "another place".to_owned(),
            (true, line) => format!("line {line}"),
            (false, 0) => at.file.name.as_ref().to_owned(),
            (false, line) => format!("{}:{line}", at.file.name),
        }
    }

    /// The keys of a mapping. A fault, and none, if it is no mapping.
    pub(super) fn fields(&mut self, raw: &'a Raw, level: Level) -> Option<Fields<'a>> {
        let RawValue::Map(entries) = &raw.value else {
            let message = format!("found {}, expected {}", raw.described(), level.expected());
            self.error(raw.place, message);
            return None;
        };
        let mut misspelt = SmallVec::new();
        let known = entries.iter().filter_map(|entry| self.field(entry, level, &mut misspelt));
        Some(Fields { place: raw.place, known: known.collect(), misspelt })
    }

    fn field(
        &mut self,
        entry: &'a RawEntry,
        level: Level,
        misspelt: &mut SmallVec<[&'static str; 1]>,
    ) -> Option<Field<'a>> {
        let Some(name) = entry.name() else {
            self.not_a_text(&entry.key);
            return None;
        };
        match level.standing(name) {
            Standing::Here(_) if entry.value.value == RawValue::Null => None,
            Standing::Here(key) => {
                Some(Field { key, key_place: entry.key.place, value: &entry.value })
            }
            Standing::Elsewhere(key) => {
                self.misplaced(entry.key.place, key, level);
                None
            }
            Standing::Unknown(nearest) => {
                let message = format!("unknown key '{}'{}", shown(name), hint(nearest));
                self.error(entry.key.place, message);
                misspelt.extend(nearest);
                None
            }
        }
    }

    pub(super) fn not_a_text(&mut self, key: &Raw) {
        let message = format!(
            "the key is {}, expected a text: put it in quotes if you mean it",
            key.described()
        );
        self.error(key.place, message);
    }

    /// Policies of envoyproxy/ratelimit have such keys and must load.
    fn misplaced(&mut self, place: Place, key: &Key, level: Level) {
        let belongs: Vec<_> = key.levels.iter().map(|level| level.whereabouts()).collect();
        let belongs = belongs.join(" or ");
        let message = format!("`{}` has no effect here, it belongs {belongs}", key.name);
        if level.bears_misplaced_keys() {
            self.warn(place, message);
        } else {
            self.error(place, message);
        }
    }

    /// The fault that a value is not what it must be.
    pub(super) fn unexpected(&mut self, field: Field<'_>, advice: &str) {
        let Field { key, value, .. } = field;
        let message =
            format!("`{}` is {}, expected {}{advice}", key.name, value.described(), key.expected);
        self.error(value.place, message);
    }
}

impl<'a> Fields<'a> {
    /// The field of that name, if it is there and not null.
    pub(super) fn get(&self, name: &str) -> Option<Field<'a>> {
        self.known.iter().copied().find(|field| field.key.name == name)
    }

    /// Whether it was probably meant by an unknown key, which is a fault already.
    pub(super) fn misspells(&self, name: &str) -> bool {
        self.misspelt.contains(&name)
    }

    /// Those of the named fields that are there.
    pub(super) fn those_of(
        &self,
        names: &'static [&'static str],
    ) -> impl Iterator<Item = Field<'a>> {
        self.known.iter().copied().filter(|field| names.contains(&field.key.name))
    }
}
