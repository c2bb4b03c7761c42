//! Why there is no connection: a setting that cannot be right, or an outage that will pass.

use super::config::Address;
use crate::settings::TlsFault;
use crate::store::StoreError;
use std::fmt::Display;
use std::sync::Arc;

/// A setting that cannot be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Misconfigured(Arc<str>);

/// Why a connection could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub(super) struct ConnectError {
    /// What charges are told meanwhile.
    pub(super) error: StoreError,
    /// Whether a setting cannot be right, which `what` begins with; else it is an outage.
    pub(super) is_setting: bool,
    /// What was found.
    pub(super) what: Arc<str>,
}

impl Misconfigured {
    /// What is wrong with a setting.
    pub(super) fn new(setting: &str, what: impl Display) -> Self {
        Self(format!("{setting}: {what}").into())
    }
}

impl From<TlsFault> for Misconfigured {
    fn from(fault: TlsFault) -> Self {
        Self::new(fault.setting, fault.what)
    }
}

impl ConnectError {
    /// What is wrong with a setting.
    pub(super) fn setting(setting: impl Display, error: StoreError, what: impl Display) -> Self {
        Self { error, is_setting: true, what: format!("{setting}: {what}").into() }
    }

    /// An outage of a server.
    pub(super) fn outage(address: &Address, error: StoreError, what: impl Display) -> Self {
        Self { error, is_setting: false, what: format!("{address} {what}").into() }
    }
}
