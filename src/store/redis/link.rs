//! One open connection to a server.

use super::call::failure;
use crate::store::StoreError;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, ServerError, Value};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// One open connection. Ends when it breaks or when somebody closes it.
#[derive(Debug)]
pub(super) struct Link {
    connection: MultiplexedConnection,
    closed: CancellationToken,
    /// Since when it has answered nothing, though asked.
    silent_since: Mutex<Option<Instant>>,
}

impl Link {
    pub(super) fn new(connection: MultiplexedConnection, closed: CancellationToken) -> Self {
        Self { connection, closed, silent_since: Mutex::default() }
    }

    /// A handle to send calls with.
    pub(super) fn connection(&self) -> MultiplexedConnection {
        self.connection.clone()
    }

    /// Closes it; calls under way are lost.
    pub(super) fn close(&self) {
        self.closed.cancel();
    }

    /// Waits until it is closed or broken.
    pub(super) fn closed(&self) -> WaitForCancellationFuture<'_> {
        self.closed.cancelled()
    }

    /// It was answered.
    pub(super) fn heard(&self) {
        *self.silent_since.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// It was not answered, as it has not been since then.
    pub(super) fn not_heard(&self) -> Instant {
        let mut since = self.silent_since.lock().unwrap_or_else(PoisonError::into_inner);
        *since.get_or_insert_with(Instant::now)
    }

    /// Asks several things at once; the answers may be errors. Closes the connection if it broke.
    pub(super) async fn ask(
        &self,
        commands: &Pipeline,
        patience: Duration,
    ) -> Result<Vec<Value>, StoreError> {
        let mut connection = self.connection();
        let asking = connection.send_packed_commands(commands, 0, commands.len());
        match tokio::time::timeout(patience, asking).await {
            Ok(Ok(values)) => Ok(values),
            Ok(Err(_)) => {
                self.close();
                Err(StoreError::Unreachable)
            }
            Err(_) => Err(StoreError::Timeout),
        }
    }

    /// Asks one thing; an error that it answers is one.
    pub(super) async fn ask_one(
        &self,
        command: Cmd,
        patience: Duration,
    ) -> Result<Value, StoreError> {
        let mut commands = Pipeline::with_capacity(1);
        commands.add_command(command);
        match self.ask(&commands, patience).await?.pop() {
            Some(Value::ServerError(error)) => Err(meaning(&error)),
            Some(value) => Ok(value),
            None => Err(StoreError::Unintelligible),
        }
    }

    /// Checks that a master answers, not one that loads or is busy.
    pub(super) async fn check(&self, patience: Duration) -> Result<(), StoreError> {
        let mut commands = Pipeline::with_capacity(2);
        commands.cmd("PING").cmd("ROLE");
        for value in &self.ask(&commands, patience).await? {
            if let Value::ServerError(error) = value {
                if !is_withheld(error) {
                    return Err(meaning(error));
                }
            } else if role_of(value) == Some("slave") {
                return Err(StoreError::ReadOnly);
            }
        }
        Ok(())
    }
}

/// What servers, services and proxies say of commands that they do not have.
const WITHHELD: [&str; 4] = ["unknown", "not allowed", "not supported", "unsupported"];

/// Whether a server keeps a command from us, or from everybody. Then calls must show what it would
/// have told.
pub(super) fn is_withheld(error: &ServerError) -> bool {
    let says = |text: &str| {
        let details = error.details().unwrap_or_default().to_ascii_lowercase();
        details.contains(text)
    };
    error.code() == "NOPERM" || error.code() == "ERR" && WITHHELD.into_iter().any(says)
}

/// The first word of an answer to `ROLE`.
pub(super) fn role_of(value: &Value) -> Option<&str> {
    if let Value::Array(parts) = value { parts.first().and_then(text) } else { None }
}

/// The text of a value, if it is one.
pub(super) fn text(value: &Value) -> Option<&str> {
    if let Value::BulkString(bytes) = value {
        std::str::from_utf8(bytes).ok()
    } else if let Value::SimpleString(text) = value {
        Some(text)
    } else {
        None
    }
}

/// What an error that a server answers means.
pub(super) fn meaning(error: &ServerError) -> StoreError {
    let details = error.details().unwrap_or_default();
    let known = |text: &str| {
        Some(failure(text.as_bytes())).filter(|error| *error != StoreError::Unintelligible)
    };
    match error.code() {
        "MOVED" | "ASK" => StoreError::ClusterDown,
        _ if details.contains("SCRIPT KILL") => StoreError::Busy,
        // Servers before 7.0 put the reason behind `ERR Error running script`.
        code => known(code).or(known(details)).unwrap_or(StoreError::Unintelligible),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn withholds(line: &str) -> bool {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        let Value::ServerError(error) = value else { panic!("{value:?}") };
        is_withheld(&error)
    }

    #[test]
    fn what_is_withheld_is_told_from_what_is_wrong() {
        for line in [
            "NOPERM User tide has no permissions to run the 'role' command",
            "ERR unknown command 'ROLE', with args beginning with: ",
            "ERR unknown subcommand 'MYID'. Try CLUSTER HELP.",
            "ERR Unknown subcommand or wrong number of arguments for 'MYID'. Try CLUSTER HELP.",
            "ERR command is not allowed",
            "ERR unsupported command 'role'",
        ] {
            assert!(withholds(line), "{line}");
        }
        for line in [
            "ERR This instance has cluster support disabled",
            "ERR Error running script",
            "NOAUTH Authentication required.",
            "LOADING Redis is loading the dataset in memory",
        ] {
            assert!(!withholds(line), "{line}");
        }
    }
}
