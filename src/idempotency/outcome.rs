//! What became of an operation, as its retries are told.

use crate::clock::Micros;
use std::sync::Arc;

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its answer, which retries get.
    Stored(Arc<StoredAnswer>),
    /// It ran, but its answer was not kept.
    NotStored(NotStored),
}

/// An answer that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredAnswer {
    /// HTTP status.
    pub status: u16,
    /// The headers that retries get, in their order.
    pub headers: Vec<(Box<str>, Vec<u8>)>,
    /// The body.
    pub body: Vec<u8>,
    /// When it was given, by the wall clock.
    pub date: Micros,
}

/// What is told of an answer that is not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotStored {
    /// HTTP status.
    pub status: u16,
    /// Its `location` header.
    pub location: Option<Vec<u8>>,
}
