//! What a lease that ended without an outcome means for the next claim.

/// What becomes of an operation whose lease ended without an outcome: it may have run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLeaseExpired {
    /// It stays unknown until its retention ends.
    #[default]
    Hold,
    /// The next claim runs it again, with a larger fence.
    Takeover,
}
