//! Free-form data of a rule that goes into dynamic metadata.

use std::collections::BTreeMap;

/// A tree as a protobuf `Struct` can hold it.
pub type Map = BTreeMap<String, Value>;

/// One value of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// Several values.
    List(Vec<Self>),
    /// Values by name.
    Map(Map),
}

/// Adds to `merged` what `map` holds. What is there stays, except that maps of one name are
/// merged in turn.
pub fn merge(merged: &mut Map, map: &Map) {
    for (name, value) in map {
        match (merged.get_mut(name), value) {
            (None, _) => _ = merged.insert(name.clone(), value.clone()),
            (Some(Value::Map(merged)), Value::Map(map)) => merge(merged, map),
            (Some(_), _) => {}
        }
    }
}
