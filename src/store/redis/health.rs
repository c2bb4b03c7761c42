//! What is known of a Redis as a whole, for health checks and the log.

use super::fault::ConnectError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What is known of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisState {
    /// It has not answered yet.
    Waiting,
    /// It has answered at least once.
    Answered,
    /// It has not answered yet and will not, as the settings are: which one, and why.
    Misconfigured(Arc<str>),
}

/// Remembers the last thing that went wrong.
#[derive(Debug, Default)]
pub(super) struct Health {
    answered: AtomicBool,
    last: Mutex<Option<ConnectError>>,
}

impl Health {
    /// A connection stands.
    pub(super) fn connected(&self) {
        self.answered.store(true, Ordering::Relaxed);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// A connection could not be opened; says so in the log unless it said the same last time.
    pub(super) fn not_connected(&self, error: &ConnectError) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() == Some(error) {
            return;
        }
        if error.is_setting {
            tracing::error!(reason = %error, "Redis cannot be used as the settings are");
        } else {
            tracing::warn!(reason = %error, "Redis cannot be reached");
        }
        *last = Some(error.clone());
    }

    pub(super) fn state(&self) -> RedisState {
        if self.answered.load(Ordering::Relaxed) {
            return RedisState::Answered;
        }
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some(error) if error.is_setting => RedisState::Misconfigured(Arc::clone(&error.what)),
            Some(_) | None => RedisState::Waiting,
        }
    }

    /// The last thing that went wrong, if nothing has gone right since.
    pub(super) fn last(&self) -> Option<ConnectError> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
