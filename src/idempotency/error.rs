//! Why it could not be decided whether an operation may run.

use crate::store::StoreError;

/// Why it could not be decided. No variant holds text of the store or of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordsError {
    /// Redis did not decide.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// Redis would forget operations when its memory is full.
    #[error("the store evicts records when its memory is full")]
    Evicts,
    /// This process's memory holds as many live records as it may.
    #[error("the memory for records is full")]
    Full,
}

impl RecordsError {
    /// Whether it will not pass until somebody changes a setting, here or in Redis.
    pub const fn is_misconfigured(self) -> bool {
        matches!(self, Self::Evicts | Self::Store(StoreError::WrongType | StoreError::NotAllowed))
    }

    /// Whether asking again at once may help.
    pub(super) const fn may_pass_soon(self) -> bool {
        self.may_be_lost()
            || matches!(self, Self::Store(StoreError::ReadOnly | StoreError::ClusterDown))
    }

    /// Whether it may have been done all the same, and only the answer is lost.
    pub(super) const fn may_be_lost(self) -> bool {
        match self {
            Self::Store(error) => error.may_be_counted(),
            Self::Evicts | Self::Full => false,
        }
    }

    /// Its word in metrics.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Store(error) => error.reason(),
            Self::Evicts => "evicts",
            Self::Full => "full",
        }
    }
}
