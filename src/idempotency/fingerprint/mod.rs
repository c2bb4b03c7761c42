//! What a request consists of: a digest that a retry must have, too.

mod json;
mod number;

use super::head;
use super::operation::{Fingerprint, frame};
use crate::rules::idempotency::{BodyRule, FingerprintRule};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt;

/// The version of the rules below. Another one cannot be compared with it.
const VERSION: u32 = 1;

/// The parts of a request that can count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content<'a> {
    /// Its method.
    pub(super) method: &'a str,
    /// Its path with the query, as it goes to the upstream.
    pub(super) path: &'a [u8],
    /// Its headers, names in lower case.
    pub(super) headers: &'a [(String, Vec<u8>)],
}

/// The fingerprint of a request, but for its body.
#[derive(Clone, Debug)]
pub(super) struct Begun {
    digest: Sha256,
    rule: BodyRule,
    is_json: bool,
}

impl Begun {
    /// Takes all but the body.
    pub(super) fn of(content: &Content<'_>, rule: &FingerprintRule) -> Self {
        let (path, query) = split_query(content.path);
        let mut digest = Sha256::new();
        frame(&mut digest, &[content.method.as_bytes(), path, query]);
        for name in &rule.headers {
            frame(&mut digest, &[name.as_bytes()]);
            let values = values(content, name);
            frame(&mut digest, &[&(values.len() as u64).to_be_bytes()]);
            for value in &values {
                frame(&mut digest, &[value]);
            }
        }
        let is_json = values(content, "content-type").iter().any(|value| is_json(value));
        Self { digest, rule: rule.body, is_json }
    }

    /// Takes the body; none and an empty one are the same.
    pub(super) fn with_body(mut self, body: &[u8]) -> Fingerprint {
        let canonical = match self.rule {
            BodyRule::JsonCanonical if self.is_json => json::canonical(body),
            BodyRule::JsonCanonical | BodyRule::Raw => None,
        };
        let (kind, body): (&[u8], _) = match &canonical {
            Some(canonical) => (b"json", canonical.as_slice()),
            None => (b"raw", body),
        };
        frame(&mut self.digest, &[kind, body]);
        Fingerprint::new(VERSION, Hexadecimal(&self.digest.finalize()))
    }
}

/// A path without its query, and the query without its question mark.
pub(super) fn split_query(path: &[u8]) -> (&[u8], &[u8]) {
    let at = path.iter().position(|byte| *byte == b'?').unwrap_or(path.len());
    let (path, query) = path.split_at(at);
    (path, query.get(1..).unwrap_or_default())
}

/// The values of a header. Of a content type only the media type counts: a boundary or a charset is
/// chosen anew by some clients.
fn values<'a>(content: &Content<'a>, name: &str) -> Vec<Cow<'a, [u8]>> {
    let value = |value: &'a [u8]| {
        if name == "content-type" { media_type(value).into() } else { value.into() }
    };
    head::values(content.headers, name).map(value).collect()
}

fn media_type(value: &[u8]) -> Vec<u8> {
    let end = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
    value.get(..end).unwrap_or_default().trim_ascii().to_ascii_lowercase()
}

fn is_json(media_type: &[u8]) -> bool {
    media_type == b"application/json" || media_type.ends_with(b"+json")
}

struct Hexadecimal<'a>(&'a [u8]);

impl fmt::Display for Hexadecimal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests;
