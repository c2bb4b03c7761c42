//! Names of buckets: `{<tag>}<rest>:<kind>`, the same in Redis (after a prefix) and in memory.
//!
//! The tag is `domain|key=value|…`, and the rest is empty, if the whole descriptor is the tag. With
//! `hash_tag: [a, b]` the tag is `domain|a=1|b=2`, and the rest names every entry in order: `|k=v`,
//! or `|0` for the one that the tag holds first. Everything that means something here is escaped
//! where it is data, so that a key can be read in one way only.

use super::{Domain, Entry};
use sha2::{Digest, Sha256};
use smallvec::SmallVec;
use std::fmt::Write;

/// Where a key and its hash tag (without the braces) stand in the text they were written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The whole key.
    pub key: std::ops::Range<usize>,
    /// The hash tag in it.
    pub tag: std::ops::Range<usize>,
}

/// Keys and values above these bytes are written as their digest.
const MAX_PART: usize = 128;

/// A tag's entries or a rest above these bytes are written as their digest. So clients make a
/// bucket at most 512 bytes larger; what else its key holds, domain and kind, is the policy's.
const MAX_SECTION: usize = 256;

/// Appends the key of the bucket that `entries` and `kind` name. Entries hold the values that the
/// bucket counts by: stripped of a query, or a shared pattern. A kind holds no colon.
pub fn write_key<'a>(
    text: &mut String,
    domain: &Domain,
    entries: impl Iterator<Item = Entry<'a>> + Clone,
    kind: &str,
) -> KeyRange {
    let start = text.len();
    text.push('{');
    escape(text, &domain.name);
    text.push('|');
    let section = text.len();
    let tag_entries = tag_entries(domain, &entries);
    match &tag_entries {
        Some(chosen) => write_entries(text, chosen.iter().copied()),
        None => write_entries(text, entries.clone()),
    }
    shorten(text, section);
    let tag = start + 1..text.len();
    text.push('}');
    if tag_entries.is_some() {
        write_rest(text, domain, entries);
    }
    text.push(':');
    text.push_str(kind);
    KeyRange { key: start..text.len(), tag }
}

/// Appends `text` with everything escaped that has a meaning in keys, and white space.
pub(super) fn escape(key: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.bytes().position(is_special) {
        let (plain, special) = rest.split_at(at);
        let (special, after) = special.split_at(1);
        key.push_str(plain);
        key.push('%');
        key.extend(special.bytes().flat_map(hex).map(|digit| digit.to_ascii_uppercase()));
        rest = after;
    }
    key.push_str(rest);
}

/// The entries that form the tag: the first of each chosen key. `None`: all, because nothing is
/// chosen or the descriptor lacks one of them.
fn tag_entries<'a>(
    domain: &Domain,
    entries: &(impl Iterator<Item = Entry<'a>> + Clone),
) -> Option<SmallVec<[Entry<'a>; 4]>> {
    if domain.hash_tag.is_empty() {
        return None;
    }
    domain.hash_tag.iter().map(|key| entries.clone().find(|entry| *entry.key == **key)).collect()
}

fn write_rest<'a>(text: &mut String, domain: &Domain, entries: impl Iterator<Item = Entry<'a>>) {
    let section = text.len();
    let mut written: SmallVec<[bool; 8]> = SmallVec::from_elem(false, domain.hash_tag.len());
    for entry in entries {
        text.push('|');
        let in_tag = domain.hash_tag.iter().position(|key| **key == *entry.key);
        match in_tag.and_then(|at| Some((at, written.get_mut(at)?))) {
            Some((at, written)) if !*written => {
                *written = true;
                push_number(text, at);
            }
            _ => write_entry(text, entry),
        }
    }
    shorten(text, section);
}

fn write_entries<'a>(text: &mut String, entries: impl Iterator<Item = Entry<'a>>) {
    for (at, entry) in entries.enumerate() {
        if at > 0 {
            text.push('|');
        }
        write_entry(text, entry);
    }
}

fn write_entry(text: &mut String, entry: Entry<'_>) {
    write_part(text, entry.key);
    text.push('=');
    write_part(text, entry.value);
}

fn write_part(text: &mut String, part: &str) {
    if part.len() > MAX_PART {
        push_digest(text, part);
    } else {
        escape(text, part);
    }
}

/// Replaces what was written from `start` on by its digest if it is too long.
fn shorten(text: &mut String, start: usize) {
    if text.len() - start > MAX_SECTION {
        let section = text.split_off(start);
        push_digest(text, &section);
    }
}

/// The colon tells it from data, in which it would be escaped.
fn push_digest(text: &mut String, data: &str) {
    text.push_str("sha256:");
    text.extend(Sha256::digest(data).into_iter().flat_map(hex));
}

fn hex(byte: u8) -> [char; 2] {
    [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16).unwrap_or_default())
}

fn push_number(text: &mut String, number: usize) {
    // Writing to a string cannot fail.
    _ = write!(text, "{number}");
}

/// Whether a byte has a meaning in keys, or is an ASCII control byte or space.
fn is_special(byte: u8) -> bool {
    SPECIAL.get(usize::from(byte)).is_some_and(|&special| special)
}

/// A table, because every byte of every request is looked at: half the time of comparisons.
const SPECIAL: [bool; 256] = special_bytes();

#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "it runs in the compiler, which checks both"
)]
const fn special_bytes() -> [bool; 256] {
    let mut table = [false; 256];
    let mut at = 0;
    while at < table.len() {
        table[at] = matches!(at as u8, 0..=b' ' | b'%' | b':' | b'=' | b'{' | b'|' | b'}' | 0x7f);
        at += 1;
    }
    table
}
