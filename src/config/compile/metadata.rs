//! A rule's free-form data.

use super::fields::{Field, Sink};
use crate::config::raw::{Raw, RawEntry, RawValue};
use crate::rules::{Map, Value};

impl<'a> Sink<'a> {
    /// Metadata as dynamic metadata can hold it.
    pub(super) fn metadata(&mut self, field: Option<Field<'a>>) -> Option<Map> {
        let field = field?;
        if let RawValue::Map(entries) = &field.value.value {
            return Some(self.map(entries));
        }
        self.unexpected(field, "");
        None
    }

    fn map(&mut self, entries: &[RawEntry]) -> Map {
        entries.iter().filter_map(|entry| self.pair(entry)).collect()
    }

    fn pair(&mut self, entry: &RawEntry) -> Option<(String, Value)> {
        let Some(name) = entry.name() else {
            self.not_a_text(&entry.key);
            return None;
        };
        Some((name.to_owned(), self.value(&entry.value)?))
    }

    fn value(&mut self, raw: &Raw) -> Option<Value> {
        Some(match &raw.value {
            RawValue::Null => Value::Null,
            RawValue::Bool(flag, _) => Value::Bool(*flag),
            #[expect(clippy::cast_precision_loss, reason = "a protobuf Struct knows doubles only")]
            RawValue::Integer(number, _) => Value::Number(*number as f64),
            RawValue::Float(text) => Value::Number(self.number(raw, text)?),
            RawValue::Text(text) => Value::Text(text.as_ref().to_owned()),
            RawValue::List(items) => {
                Value::List(items.iter().filter_map(|item| self.value(item)).collect())
            }
            RawValue::Map(entries) => Value::Map(self.map(entries)),
        })
    }

    fn number(&mut self, raw: &Raw, text: &str) -> Option<f64> {
        let number = text.replace('_', "").parse().ok().filter(|number: &f64| number.is_finite());
        if number.is_none() {
            let found = raw.described();
            self.error(raw.place, format!("{found} has no place in metadata: put it in quotes"));
        }
        number
    }
}
