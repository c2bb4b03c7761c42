//! Why a store could not decide. Stores report, `limiter::failure` says what it means.

/// Why a store could not decide a charge. No variant holds text of the store or of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum StoreError {
    /// No answer within the deadline; the charge may have been counted.
    #[error("the store did not answer in time")]
    Timeout,
    /// No connection, or it broke; the charge may have been counted.
    #[error("the store cannot be reached")]
    Unreachable,
    /// Not tried: the last calls to its node failed.
    #[error("the store's node is known to fail")]
    BreakerOpen,
    /// Not tried: too many calls are under way.
    #[error("too many calls to the store are under way")]
    Overloaded,
    /// The node is a replica, or lost its master's role.
    #[error("the store's node is not a master")]
    ReadOnly,
    /// The node still loads its data.
    #[error("the store is loading its data")]
    Loading,
    /// A script of somebody else blocks the node.
    #[error("the store is blocked by a script")]
    Busy,
    /// The node's memory is full, and it does not evict.
    #[error("the store's memory is full")]
    OutOfMemory,
    /// Part of a cluster has no master, or slots kept moving.
    #[error("the store's cluster does not serve this key")]
    ClusterDown,
    /// Something else stands under the bucket's key.
    #[error("the key of a bucket holds something else")]
    WrongType,
    /// The user may not do this, or the password is wrong.
    #[error("the store refuses our user")]
    NotAllowed,
    /// An answer that is not one.
    #[error("the store's answer is not understood")]
    Unintelligible,
}

impl StoreError {
    /// Every one, for metrics that exist from the start.
    pub const ALL: [Self; 12] = [
        Self::Timeout,
        Self::Unreachable,
        Self::BreakerOpen,
        Self::Overloaded,
        Self::ReadOnly,
        Self::Loading,
        Self::Busy,
        Self::OutOfMemory,
        Self::ClusterDown,
        Self::WrongType,
        Self::NotAllowed,
        Self::Unintelligible,
    ];

    /// Whether the charge may have been counted all the same.
    pub const fn may_be_counted(self) -> bool {
        matches!(self, Self::Timeout | Self::Unreachable | Self::Unintelligible)
    }

    /// Its word in metrics and metadata.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::BreakerOpen => "breaker_open",
            Self::Overloaded => "overloaded",
            Self::ReadOnly => "read_only",
            Self::Loading => "loading",
            Self::Busy => "busy",
            Self::OutOfMemory => "out_of_memory",
            Self::ClusterDown => "cluster_down",
            Self::WrongType => "wrong_type",
            Self::NotAllowed => "not_allowed",
            Self::Unintelligible => "unintelligible",
        }
    }
}
