//! Who calls, as the listener of the filter and of the direct API knows.

use std::sync::Arc;

/// Who calls: the listener puts this into the extensions of each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Whoever showed a certificate that holds these names, URIs before DNS names. The first is the
    /// namespace of all that it asks of the direct API.
    Certified(Arc<[Box<str>]>),
    /// Somebody whom the operator lets reach the listener without one; names a namespace itself.
    Unnamed,
}

impl Caller {
    /// Whether its certificate holds a name.
    pub(super) fn is(&self, wanted: &str) -> bool {
        match self {
            Self::Certified(names) => names.iter().any(|name| **name == *wanted),
            Self::Unnamed => false,
        }
    }
}
