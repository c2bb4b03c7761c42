//! Text that is never shown.

use std::fmt;

/// A secret.
#[derive(Clone)]
pub(super) struct Secret(pub(super) String);

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
