//! `rate_limit` of a descriptor: one limit, or a list of limits that are decided together.

use super::fields::Field;
use super::level::Walk;
use crate::config::raw::{Place, RawValue, shown};
use crate::rules::{Allows, RuleLimit};
use std::sync::Arc;

/// One item of a list of limits.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) place: Place,
    pub(super) allows: One,
    /// Whether its algorithm is the process's default.
    pub(super) default_algorithm: bool,
}

#[derive(Debug)]
pub(super) enum One {
    Unlimited(Names),
    Limit(Box<RuleLimit>),
}

/// What a limit is called, and whom it removes.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) name: Arc<str>,
    pub(super) replaces: Box<[Box<str>]>,
}

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
