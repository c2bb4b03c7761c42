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

impl Outcome {
    /// HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            Self::Stored(answer) => answer.status,
            Self::NotStored(told) => told.status,
        }
    }

    /// The same without its answer, for want of room.
    pub(super) fn without_answer(&self) -> NotStored {
        match self {
            Self::NotStored(told) => told.clone(),
            Self::Stored(answer) => {
                let mut headers = answer.headers.iter();
                let location = headers.find(|(name, _)| name.eq_ignore_ascii_case("location"));
                let location = location.map(|(_, value)| value.clone());
                NotStored { status: answer.status, location }
            }
        }
    }

    /// How much it holds, headers and body.
    pub fn n_bytes(&self) -> usize {
        match self {
            Self::Stored(answer) => {
                let headers = answer.headers.iter();
                headers.map(|(name, value)| name.len() + value.len() + 8).sum::<usize>()
                    + answer.body.len()
            }
            Self::NotStored(told) => told.location.as_ref().map_or(0, Vec::len),
        }
    }
}
