//! What is asked: may these pass now?

use super::Error;
use crate::algorithm::Charge;
use crate::rules::{Entry, Unit};
use smallvec::SmallVec;

/// May these pass now?
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Names the policies.
    pub domain: &'a str,
    /// What is limited.
    pub descriptors: SmallVec<[Descriptor<'a>; 4]>,
}

/// One thing that is limited.
#[derive(Clone, Debug)]
pub struct Descriptor<'a> {
    /// What it is, from the general to the special.
    pub entries: SmallVec<[Entry<'a>; 4]>,
    /// What it costs.
    pub charge: Charge,
    /// A limit that takes the place of the policies'.
    pub limit_override: Option<Override>,
}

/// A limit that a request brings along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Override {
    /// Hits per window.
    pub requests: u32,
    /// Unit of the window.
    pub unit: Unit,
    /// The window is unit × this; 0 means 1.
    pub unit_multiplier: u32,
}

impl Request<'_> {
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.domain.is_empty() {
            return Err(Error::EmptyDomain);
        }
        if self.descriptors.is_empty() {
            return Err(Error::NoDescriptors);
        }
        Ok(())
    }
}
