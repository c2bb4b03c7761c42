//! The shape of a policy before it is understood: a tree of values, each with its place.

/// Where something stands in a file; zeros if that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
}

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Raw {
    /// Where it begins.
    pub place: Place,
    /// What it is.
    pub value: RawValue,
}

/// A value. Scalars other than text keep their literal text: an operator may well have meant it.
#[derive(Clone, Debug, PartialEq)]
pub enum RawValue {
    /// Nothing.
    Null,
    /// True or false in any of YAML's words.
    Bool(bool, Box<str>),
    /// A whole number.
    Integer(i64, Box<str>),
    /// Any other number.
    Float(Box<str>),
    /// A text.
    Text(Box<str>),
    /// Values in order.
    List(Vec<Raw>),
    /// Pairs in order.
    Map(Vec<RawEntry>),
}

/// One pair of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct RawEntry {
    /// Its key: a scalar.
    pub key: Raw,
    /// Its value.
    pub value: Raw,
}

impl Raw {
    /// The literal text of a scalar; none for nothing, lists and mappings.
    pub fn literal(&self) -> Option<&str> {
        match &self.value {
            RawValue::Bool(_, text)
            | RawValue::Integer(_, text)
            | RawValue::Float(text)
            | RawValue::Text(text) => Some(text),
            RawValue::Null | RawValue::List(_) | RawValue::Map(_) => None,
        }
    }

    /// The value under that key of a mapping.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            RawValue::Map(entries) => {
                entries.iter().find(|entry| entry.name() == Some(key)).map(|entry| &entry.value)
            }
            RawValue::Null
            | RawValue::Bool(..)
            | RawValue::Integer(..)
            | RawValue::Float(_)
            | RawValue::Text(_)
            | RawValue::List(_) => None,
        }
    }

    /// The text that it is, if it is one.
    pub fn text(&self) -> Option<&str> {
        if let RawValue::Text(text) = &self.value { Some(text) } else { None }
    }

    /// How many bytes a tree takes, and how deep it is.
    pub(super) fn measure(&self) -> (usize, usize) {
        let own = size_of::<Self>();
        let (within, depth) = match &self.value {
            RawValue::List(items) => measure_all(items),
            RawValue::Map(entries) => {
                let (keys, _) = measure_all(entries.iter().map(|entry| &entry.key));
                let (values, depth) = measure_all(entries.iter().map(|entry| &entry.value));
                (keys.saturating_add(values), depth)
            }
            RawValue::Bool(_, text)
            | RawValue::Integer(_, text)
            | RawValue::Float(text)
            | RawValue::Text(text) => (text.len(), 0),
            RawValue::Null => (0, 0),
        };
        (own.saturating_add(within), depth)
    }

    /// Gives it and all in it one place, where its own places mean nothing.
    pub(super) fn move_to(&mut self, place: Place) {
        self.place = place;
        match &mut self.value {
            RawValue::List(items) => items.iter_mut().for_each(|item| item.move_to(place)),
            RawValue::Map(entries) => {
                for entry in entries {
                    entry.key.move_to(place);
                    entry.value.move_to(place);
                }
            }
            RawValue::Null
            | RawValue::Bool(..)
            | RawValue::Integer(..)
            | RawValue::Float(_)
            | RawValue::Text(_) => {}
        }
    }

    /// What it is, in words for a message.
    pub(super) fn described(&self) -> String {
        match &self.value {
            RawValue::Null => String::from("nothing"),
            RawValue::Text(text) if text.is_empty() => String::from("an empty text"),
            RawValue::Bool(..) | RawValue::Text(_) => {
                format!("`{}`", shown(self.literal().unwrap_or_default()))
            }
            RawValue::Integer(_, text) | RawValue::Float(text) => {
                format!("the number {}", shown(text))
            }
            RawValue::List(_) => String::from("a list"),
            RawValue::Map(_) => String::from("a mapping"),
        }
    }
}

impl RawEntry {
    /// Its key, if that is a text.
    pub fn name(&self) -> Option<&str> {
        self.key.text()
    }
}

/// How many bytes values take together, and how deep a list or mapping of them is.
fn measure_all<'r>(values: impl IntoIterator<Item = &'r Raw>) -> (usize, usize) {
    values.into_iter().map(Raw::measure).fold((0, 1), |(bytes, depth), (more, deeper)| {
        (bytes.saturating_add(more), depth.max(deeper.saturating_add(1)))
    })
}

/// A text from a file as messages show it: on one line and not for ever.
pub(super) fn shown(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    let mut shown = String::new();
    for (n, char) in text.chars().enumerate() {
        if n == MAX_CHARS {
            shown.push('…');
            break;
        }
        if char.is_control() { shown.extend(char.escape_debug()) } else { shown.push(char) }
    }
    shown
}
