//! Descriptors as people write them: `user=alice,path=/x`.

use crate::rules::Entry;

/// The entries of a descriptor, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries(Vec<(String, String)>);

/// A text that is no descriptor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found `{found}`, expected `key=value,key=value` (`\\,` for a comma in a value)")]
pub struct NoEntries {
    found: String,
}

impl Entries {
    /// Reads `key=value,key=value`; an entry without `=` has an empty value. A backslash takes the
    /// next character as it is.
    pub fn read(text: &str) -> Result<Self, NoEntries> {
        let entries: Vec<(String, String)> = split(text).iter().map(|part| entry(part)).collect();
        if entries.iter().any(|(key, _)| key.is_empty()) {
            return Err(NoEntries { found: text.escape_debug().to_string() });
        }
        Ok(Self(entries))
    }

    /// As the rules take them.
    pub fn as_entries(&self) -> Vec<Entry<'_>> {
        self.0.iter().map(|(key, value)| Entry { key, value }).collect()
    }
}

/// Splits at commas, and takes the backslashes out.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, parts.last_mut()) {
            (',', _) => parts.push(String::new()),
            ('\\', Some(part)) => part.extend(chars.next()),
            (c, Some(part)) => part.push(c),
            (_, None) => {}
        }
    }
    parts
}

fn entry(part: &str) -> (String, String) {
    let (key, value) = part.split_once('=').unwrap_or((part, ""));
    (key.to_owned(), value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        Entries::read(text).unwrap().0
    }

    fn owned(entries: &[(&str, &str)]) -> Vec<(String, String)> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn entries_stand_between_commas() {
        assert_eq!(read("user=alice,path=/x"), owned(&[("user", "alice"), ("path", "/x")]));
        assert_eq!(read("user"), owned(&[("user", "")]));
    }

    #[test]
    fn only_the_first_equals_sign_divides() {
        assert_eq!(read("q=a=b"), owned(&[("q", "a=b")]));
    }

    #[test]
    fn a_backslash_takes_the_next_character_as_it_is() {
        assert_eq!(read(r"a=x\,y,b=\\"), owned(&[("a", "x,y"), ("b", "\\")]));
    }

    #[test]
    fn an_entry_without_a_key_is_none() {
        for text in ["", "=a", "a=b,", ",", "a=b,=c"] {
            assert!(Entries::read(text).is_err(), "{text}");
        }
    }
}
