//! Outcomes as bytes: the last part of a stored record, which scripts carry and never look into.
//!
//! ```text
//! 1  status: u16  date: u64  n headers: u32  (length: u32, name  length: u32, value) × n  body
//! 2  status: u16  has location: 0 or 1  location
//! ```
//! Numbers are big-endian. A first byte that is neither was written by another version.

use super::outcome::{NotStored, Outcome, StoredAnswer};
use crate::clock::Micros;
use std::sync::Arc;

const STORED: u8 = 1;
const NOT_STORED: u8 = 2;

/// Writes an outcome.
pub(super) fn encode(outcome: &Outcome) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(outcome.n_bytes() + 64);
    match outcome {
        Outcome::Stored(answer) => {
            bytes.push(STORED);
            bytes.extend(answer.status.to_be_bytes());
            bytes.extend(answer.date.0.to_be_bytes());
            bytes.extend(length(answer.headers.len()));
            for (name, value) in &answer.headers {
                put(&mut bytes, name.as_bytes());
                put(&mut bytes, value);
            }
            bytes.extend_from_slice(&answer.body);
        }
        Outcome::NotStored(told) => {
            bytes.push(NOT_STORED);
            bytes.extend(told.status.to_be_bytes());
            bytes.push(u8::from(told.location.is_some()));
            bytes.extend_from_slice(told.location.as_deref().unwrap_or_default());
        }
    }
    bytes
}

/// Reads an outcome; `None` if another version wrote it.
pub(super) fn decode(bytes: &[u8]) -> Option<Outcome> {
    let mut bytes = Bytes(bytes);
    match u8::from_be_bytes(bytes.take()?) {
        STORED => {
            let status = u16::from_be_bytes(bytes.take()?);
            let date = Micros(u64::from_be_bytes(bytes.take()?));
            let n_headers = u32::from_be_bytes(bytes.take()?);
            let mut headers = Vec::new();
            for _ in 0..n_headers {
                let name = str::from_utf8(bytes.part()?).ok()?.into();
                headers.push((name, bytes.part()?.to_vec()));
            }
            let body = bytes.0.to_vec();
            Some(Outcome::Stored(Arc::new(StoredAnswer { status, headers, body, date })))
        }
        NOT_STORED => {
            let status = u16::from_be_bytes(bytes.take()?);
            let [has_location] = bytes.take()?;
            let location = (has_location == 1).then(|| bytes.0.to_vec());
            Some(Outcome::NotStored(NotStored { status, location }))
        }
        _ => None,
    }
}

fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend(length(part.len()));
    bytes.extend_from_slice(part);
}

/// What is stored is bounded far below this.
fn length(n: usize) -> [u8; 4] {
    u32::try_from(n).unwrap_or(u32::MAX).to_be_bytes()
}

/// What is left to be read.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (part, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*part)
    }

    fn part(&mut self) -> Option<&'b [u8]> {
        let length = u32::from_be_bytes(self.take()?);
        let (part, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn outcomes() -> impl Strategy<Value = Outcome> {
        let bytes = || vec(any::<u8>(), 0..40);
        let headers = vec(("[a-z-]{1,9}".prop_map(String::into_boxed_str), bytes()), 0..4);
        let stored = (any::<u16>(), headers, bytes(), any::<u64>().prop_map(Micros));
        let stored = stored.prop_map(|(status, headers, body, date)| {
            Outcome::Stored(Arc::new(StoredAnswer { status, headers, body, date }))
        });
        let told = (any::<u16>(), proptest::option::of(bytes()));
        let told =
            told.prop_map(|(status, location)| Outcome::NotStored(NotStored { status, location }));
        prop_oneof![stored, told]
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(outcome in outcomes()) {
            prop_assert_eq!(decode(&encode(&outcome)), Some(outcome));
        }

        #[test]
        fn what_is_cut_short_is_read_as_something_shorter_or_not_at_all(
            outcome in outcomes(),
            cut in 0.0..1.0_f64,
        ) {
            let bytes = encode(&outcome);
            #[expect(
                clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss,
                reason = "any place will do"
            )]
            let short = &bytes[..(bytes.len() as f64 * cut) as usize];
            prop_assert_ne!(decode(short), Some(outcome));
        }

        #[test]
        fn garbage_is_read_without_harm(bytes in vec(any::<u8>(), 0..80)) {
            decode(&bytes);
        }
    }

    #[test]
    fn another_version_is_not_read() {
        assert_eq!(decode(&[3, 0, 200, 0]), None);
        assert_eq!(decode(&[]), None);
    }
}
