//! Keys that do not show what they are for: `{<hash of the tag>}<hash of the rest>:kind`.

use super::config::KeySecret;
use super::fault::Misconfigured;
use crate::rules::KeyRange;
use crate::store::Batch;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Hashes keys, the same way on every server that has the secret.
#[derive(Clone, Debug)]
pub(super) struct HashedNames(Hmac<Sha256>);

/// Bytes of a hash that are kept.
const N_BYTES: usize = 16;

impl HashedNames {
    pub(super) fn new(secret: &KeySecret) -> Result<Self, Misconfigured> {
        if secret.0.is_empty() {
            return Err(Misconfigured::new("KEY_SECRET_FILE", "the secret is empty"));
        }
        let hmac = Hmac::new_from_slice(&secret.0);
        hmac.map(Self).map_err(|error| Misconfigured::new("KEY_SECRET_FILE", error))
    }

    /// The same charges to hashed keys.
    pub(super) fn rename(&self, batch: &Batch) -> Batch {
        let mut renamed = Batch { keys: String::new(), ..batch.clone() };
        for (item, original) in renamed.items.iter_mut().zip(&batch.items) {
            item.key = self.write(&mut renamed.keys, batch.key(original), batch.tag(original));
        }
        renamed
    }

    /// The hashed form of a tag.
    pub(super) fn tag(&self, tag: &str) -> String {
        let mut text = String::new();
        self.hash(&mut text, tag);
        text
    }

    /// Appends the hashed form of a key.
    fn write(&self, text: &mut String, key: &str, tag: &str) -> KeyRange {
        let start = text.len();
        // A key is `{tag}rest:kind`, and a kind holds no colon.
        let after = key.get(tag.len() + 2..).unwrap_or_default();
        let (rest, kind) = after.rsplit_once(':').unwrap_or((after, ""));
        text.push('{');
        self.hash(text, tag);
        let tag = start + 1..text.len();
        text.push('}');
        self.hash(text, rest);
        text.push(':');
        text.push_str(kind);
        KeyRange { key: start..text.len(), tag }
    }

    fn hash(&self, text: &mut String, part: &str) {
        let mut hmac = self.0.clone();
        hmac.update(part.as_bytes());
        for byte in hmac.finalize().into_bytes().iter().take(N_BYTES) {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from_digit(digit.into(), 16).unwrap_or_default());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashed(secret: &str, key: &str, tag: &str) -> String {
        let mut text = String::from("before");
        let names = HashedNames::new(&KeySecret(secret.as_bytes().into())).unwrap();
        let range = names.write(&mut text, key, tag);
        assert_eq!(text.get(range.tag.clone()).map(str::len), Some(32));
        assert_eq!(text.get(range.tag.start - 1..range.tag.start), Some("{"));
        text.get(range.key).unwrap().to_owned()
    }

    #[test]
    fn keys_of_one_tag_share_a_slot_and_show_nothing_of_their_values() {
        let one = hashed("s", "{d|user=ann}|0|path=/a:token_bucket/60", "d|user=ann");
        let other = hashed("s", "{d|user=ann}|0|path=/b:token_bucket/60", "d|user=ann");
        assert_eq!(one.get(..34), other.get(..34));
        assert_ne!(one, other);
        assert!(one.ends_with(":token_bucket/60"));
        assert!(!one.contains("ann") && !one.contains("path"));
    }

    #[test]
    fn another_secret_gives_another_key() {
        let key = ("{d|a=b}:fixed_window/epoch/1", "d|a=b");
        assert_eq!(hashed("s", key.0, key.1), hashed("s", key.0, key.1));
        assert_ne!(hashed("s", key.0, key.1), hashed("t", key.0, key.1));
        assert!(HashedNames::new(&KeySecret(Box::default())).is_err());
    }
}
