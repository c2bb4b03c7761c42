//! Reading single values. A scalar that is not what it must be is a fault and reads as absent.

use super::fields::{Field, Sink};
use crate::config::nearest::{hint, nearest};
use crate::config::plain;
use crate::config::raw::{Raw, RawValue};

impl<'a> Sink<'a> {
    /// A text; numbers and truth values stand for their literal text, as envoyproxy/ratelimit
    /// reads them. A fraction does not: `1.10` may well have been 1.1 when it was written.
    pub(super) fn text(&mut self, field: Option<Field<'a>>) -> Option<&'a str> {
        let field = field?;
        match &field.value.value {
            RawValue::Bool(..) | RawValue::Integer(..) | RawValue::Text(_) => field.value.literal(),
            RawValue::Float(text) => {
                let name = field.key.name;
                let message = format!(
                    "`{name}` is the number {text}, expected a text: put it in quotes (\"{text}\")"
                );
                self.error(field.value.place, message);
                None
            }
            RawValue::Null | RawValue::List(_) | RawValue::Map(_) => {
                self.unexpected(field, "");
                None
            }
        }
    }

    /// True or false.
    pub(super) fn flag(&mut self, field: Option<Field<'_>>) -> Option<bool> {
        let field = field?;
        if let RawValue::Bool(flag, _) = &field.value.value {
            return Some(*flag);
        }
        let unquoted = |value| matches!(value, RawValue::Bool(..));
        self.unexpected(field, quotes_advice(field.value, unquoted));
        None
    }

    /// A whole number of 32 bits.
    pub(super) fn count(&mut self, field: Option<Field<'_>>) -> Option<u32> {
        let field = field?;
        if let RawValue::Integer(number, _) = field.value.value
            && let Ok(count) = u32::try_from(number)
        {
            return Some(count);
        }
        let unquoted = |value| matches!(value, RawValue::Integer(..));
        self.unexpected(field, quotes_advice(field.value, unquoted));
        None
    }

    /// One of some words.
    pub(super) fn word<T: Copy>(
        &mut self,
        field: Option<Field<'_>>,
        words: &[(&'static str, T)],
    ) -> Option<T> {
        let field = field?;
        let literal = field.value.literal().unwrap_or_default();
        if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == literal) {
            return Some(*meaning);
        }
        let nearest = nearest(literal, words.iter().map(|(word, _)| *word));
        self.unexpected(field, &hint(nearest));
        None
    }

    /// The items of a list; none, and a fault, if it is not one.
    pub(super) fn list(&mut self, field: Option<Field<'a>>) -> &'a [Raw] {
        match field.map(|field| (field, &field.value.value)) {
            None => &[],
            Some((_, RawValue::List(items))) => items,
            Some((
                field,
                RawValue::Null
                | RawValue::Bool(..)
                | RawValue::Integer(..)
                | RawValue::Float(_)
                | RawValue::Text(_)
                | RawValue::Map(_),
            )) => {
                self.unexpected(field, "");
                &[]
            }
        }
    }
}

/// What to do about a text that would be right without its quotes.
fn quotes_advice(raw: &Raw, right: impl Fn(RawValue) -> bool) -> &'static str {
    match raw.text() {
        Some(text) if right(plain::resolve(text)) => ": remove the quotes",
        _ => "",
    }
}
