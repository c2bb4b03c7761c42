//! How an operation, an attempt at it, and what it consists of are named.

use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;

/// Names a logical mutation: a digest of who asks, where, and the key that the client gave.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId([u8; 32]);

/// Names one attempt at an operation. Random, so that nobody can speak for another's attempt.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner([u8; 16]);

/// Grows with every attempt at an operation. Whoever does the work refuses those below the highest
/// that it has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence(pub u64);

/// A digest of what an operation consists of, `<version>:<digest>`; equal texts are equal requests.
/// Texts of different versions cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(Arc<str>);

/// The digits of RFC 4648's base32, in small letters.
const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Most bytes of a fingerprint behind its version: a record's layout has a byte for its length.
const MAX_DIGEST: usize = 200;

/// Feeds parts into a digest, each behind its length, so that no two lists of parts look alike.
pub fn frame(digest: &mut Sha256, parts: &[&[u8]]) {
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
}

impl OperationId {
    /// The operation that `key` names for a principal. A `route_group` of `*` is every route.
    pub fn of(
        namespace: &str,
        tenant: &str,
        principal: &str,
        route_group: &str,
        key: &[u8],
    ) -> Self {
        let [namespace, tenant, principal, route_group] =
            [namespace, tenant, principal, route_group].map(str::as_bytes);
        let mut digest = Sha256::new();
        frame(&mut digest, &[b"v1", namespace, tenant, principal, route_group, key]);
        Self(digest.finalize().into())
    }

    /// The first letters, for logs.
    pub fn prefix(&self) -> String {
        self.to_string().chars().take(8).collect()
    }
}

impl Owner {
    /// A new one, which nobody can guess.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// One that its holder made.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl Fingerprint {
    /// A digest made by the rules of a version. What is longer than a digest is replaced by one.
    pub fn new(version: u32, digest: impl fmt::Display) -> Self {
        let digest = digest.to_string();
        if digest.len() > MAX_DIGEST {
            let digest = Sha256::digest(&digest);
            return Self(format!("{version}:long:{digest:x}").into());
        }
        Self(format!("{version}:{digest}").into())
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether both were made by the rules of one version.
    pub fn is_comparable(&self, other: &Self) -> bool {
        self.version() == other.version()
    }

    fn version(&self) -> Option<&str> {
        self.0.split_once(':').map(|(version, _)| version)
    }
}

impl fmt::Display for OperationId {
    /// 52 letters and digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut bits, mut n_bits) = (0_u32, 0);
        let mut text = String::with_capacity(52);
        let mut put = |bits: u32| {
            text.extend(DIGITS.get((bits & 31) as usize).copied().map(char::from));
        };
        for byte in self.0 {
            (bits, n_bits) = (bits << 8 | u32::from(byte), n_bits + 8);
            while n_bits >= 5 {
                n_bits -= 5;
                put(bits >> n_bits);
            }
        }
        put(bits << (5 - n_bits));
        f.pad(&text)
    }
}

impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.prefix())
    }
}

impl fmt::Debug for Owner {
    /// Who knows an owner can speak for it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner(..)")
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_named_by_letters_and_digits_of_base32() {
        // printf of the framed parts | sha256sum, then Python's base64.b32encode.
        let id = OperationId::of("ns", "", "alice", "*", b"k-1");
        assert_eq!(id.to_string(), EXPECTED);
        assert_eq!(id.to_string().len(), 52);
        assert_eq!(format!("{id:?}"), EXPECTED[..8]);
    }

    const EXPECTED: &str = "2u6ligqlqx35cbecbeog4tqchc4f4ao3hf6zgopmhywsonectdma";

    #[test]
    fn parts_that_look_alike_when_joined_name_different_operations() {
        let of = |tenant, principal, key: &str| {
            OperationId::of("ns", tenant, principal, "*", key.as_bytes())
        };
        assert_ne!(of("a", "b:c", "k"), of("a:b", "c", "k"));
        assert_ne!(of("", "ab", "k"), of("ab", "", "k"));
        assert_ne!(of("a", "b", "K"), of("a", "b", "k"));
        assert_eq!(of("a", "b", "k"), of("a", "b", "k"));
    }

    #[test]
    fn fingerprints_of_different_versions_cannot_be_compared() {
        let one = Fingerprint::new(1, "a:b");
        assert!(one.is_comparable(&Fingerprint::new(1, "c")));
        assert!(!one.is_comparable(&Fingerprint::new(2, "a:b")));
    }

    #[test]
    fn a_long_fingerprint_is_replaced_by_its_digest() {
        let long = |letter: &str| Fingerprint::new(1, letter.repeat(201));
        assert!(long("a").text().len() < 100);
        assert_ne!(long("a"), long("b"));
        assert!(long("a").is_comparable(&Fingerprint::new(1, "a")));
        assert_eq!(Fingerprint::new(1, "a".repeat(200)).text().len(), 202);
    }

    #[test]
    fn no_two_owners_are_alike_and_none_is_shown() {
        let (one, other) = (Owner::random().unwrap(), Owner::random().unwrap());
        assert_ne!(one, other);
        assert_eq!(format!("{one:?}"), "Owner(..)");
    }
}
