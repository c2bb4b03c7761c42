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
