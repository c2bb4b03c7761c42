//! One batch of calls on one connection: what is sent, and what the answers mean.

use super::call::{Call, Unit};
use super::config::Address;
use super::fleet::{Calls, Fleet, Redirect};
use super::link::meaning;
use super::pending::{Pending, Sending, Waiter};
use crate::store::{Outcomes, StoreError};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisResult, RedisWrite, ServerError, Value};
use std::io::Write;
use tokio::time::timeout_at;

/// What became of one call.
#[derive(Debug)]
pub(super) enum Verdict {
    /// For each of its units what became of it.
    Decided(Vec<Outcomes>),
    /// None was decided, for all we know.
    Failed(StoreError),
    /// None was decided; another server may.
    Redirected(Redirect),
}

/// One call and how it is sent.
struct Planned<'u> {
    units: &'u [Unit],
    call: Call<'u>,
    asking: bool,
}

/// How a script is named.
#[derive(Clone, Copy)]
enum By {
    Hash,
    Source,
}

/// Puts side by side what goes into one call. Those of one tag stay in their order.
pub(super) fn order(waiting: &mut [Pending], clustered: bool) {
    if clustered && waiting.len() > 1 {
        waiting.sort_by_key(|pending| (pending.waiter.slot, pending.waiter.sending));
    }
}

/// Has units decided that are in order; for each call how many of them it held and what became of
/// them. A call without an answer is given up at the last of their deadlines, never sent again.
pub(super) async fn decide(
    connection: &mut MultiplexedConnection,
    fleet: &Fleet,
    node: &Address,
    units: &[Unit],
    waiters: &[Waiter],
) -> Vec<(usize, Verdict)> {
    let planned = plan(units, waiters, fleet.calls.coalesce);
    let sizes = planned.iter().map(|planned| planned.units.len());
    let Some(last) = waiters.iter().map(|waiter| waiter.deadline).max() else {
        return Vec::new();
    };
    let all = |error| sizes.clone().map(|n_units| (n_units, Verdict::Failed(error))).collect();
    match timeout_at(last, exchange(connection, &fleet.calls, &planned)).await {
        Err(_) => all(StoreError::Timeout),
        Ok(Err(_)) => all(StoreError::Unreachable),
        Ok(Ok(answers)) => {
            let verdicts = planned
                .iter()
                .zip(answers)
                .map(|(planned, answer)| (planned.units.len(), planned.verdict(answer, node)));
            verdicts.collect()
        }
    }
}

fn plan<'u>(units: &'u [Unit], waiters: &[Waiter], coalesce: bool) -> Vec<Planned<'u>> {
    let together = |one: &Waiter, other: &Waiter| {
        coalesce
            && one.sending == Sending::Together
            && other.sending == Sending::Together
            && one.slot == other.slot
    };
    let mut rest = units;
    let mut planned = Vec::with_capacity(1);
    for waiters in waiters.chunk_by(together) {
        let (units, others) = rest.split_at(waiters.len().min(rest.len()));
        let asking = waiters.iter().any(|waiter| waiter.sending == Sending::Asking);
        planned.push(Planned { units, call: Call::new(units), asking });
        rest = others;
    }
    planned
}

/// An answer to each call. A server that does not know a script has run nothing, and is sent it.
async fn exchange(
    connection: &mut MultiplexedConnection,
    calls: &Calls,
    planned: &[Planned<'_>],
) -> RedisResult<Vec<Value>> {
    let mut answers = send(connection, calls, planned.iter(), By::Hash).await?;
    let unknown =
        |answer: &Value| matches!(answer, Value::ServerError(error) if error.code() == "NOSCRIPT");
    if answers.iter().any(unknown) {
        let again = planned.iter().zip(&answers).filter(|(_, answer)| unknown(answer));
        let again: Vec<_> = again.map(|(planned, _)| planned).collect();
        let others = send(connection, calls, again.into_iter(), By::Source).await?;
        let unknown = answers.iter_mut().filter(|answer| unknown(answer));
        unknown.zip(others).for_each(|(answer, other)| *answer = other);
    }
    Ok(answers)
}

async fn send<'u>(
    connection: &mut MultiplexedConnection,
    calls: &Calls,
    planned: impl Iterator<Item = &'u Planned<'u>> + Clone,
    by: By,
) -> RedisResult<Vec<Value>> {
    let mut commands = Pipeline::with_capacity(1);
    for planned in planned.clone() {
        if planned.asking {
            commands.cmd("ASKING");
        }
        commands.add_command(planned.command(calls, by));
    }
    let mut answers =
        connection.send_packed_commands(&commands, 0, commands.len()).await?.into_iter();
    let of_calls = planned.map(|planned| {
        let answer = if planned.asking { answers.nth(1) } else { answers.next() };
        answer.unwrap_or_default()
    });
    Ok(of_calls.collect())
}

impl Planned<'_> {
    fn command(&self, calls: &Calls, by: By) -> Cmd {
        let Call { needs, keys, packed, .. } = &self.call;
        let script = calls.scripts.get(*needs);
        let (name, script) = match by {
            By::Hash => ("EVALSHA", &script.sha),
            By::Source => ("EVAL", &script.source),
        };
        let n_bytes = keys.iter().map(|key| calls.key_prefix.len() + key.len()).sum::<usize>();
        let mut command =
            Cmd::with_capacity(keys.len() + 6, n_bytes + script.len() + packed.len() + 32);
        command.arg(name).arg(script).arg(keys.len());
        for key in keys {
            write_key(&mut command, &calls.key_prefix, key);
        }
        // The time is the server's own.
        command.arg("").arg(jitter(calls)).arg(packed.as_slice());
        command
    }

    fn verdict(&self, answer: Value, node: &Address) -> Verdict {
        if let Value::Array(rows) = answer {
            let rows: Vec<_> = rows.into_iter().map(bytes).collect();
            return Verdict::Decided(self.call.outcomes(self.units, &rows));
        }
        let Value::ServerError(error) = answer else {
            return Verdict::Failed(StoreError::Unintelligible);
        };
        match redirect(&error, node) {
            Some(to) => Verdict::Redirected(to),
            None => Verdict::Failed(meaning(&error)),
        }
    }
}

/// A key with what stands before every key.
pub(super) fn write_key(command: &mut Cmd, prefix: &str, key: &str) {
    let mut writer = command.writer_for_next_arg();
    // Writing to memory cannot fail.
    _ = writer.write_all(prefix.as_bytes());
    _ = writer.write_all(key.as_bytes());
}

fn jitter(calls: &Calls) -> u64 {
    let most = u64::try_from(calls.expiry_jitter.as_millis()).unwrap_or(u64::MAX);
    if most == 0 { 0 } else { fastrand::u64(..most) }
}

fn bytes(value: Value) -> Vec<u8> {
    if let Value::BulkString(bytes) = value { bytes } else { Vec::new() }
}

/// Where an error sends us: `MOVED 3999 127.0.0.1:6381`.
pub(super) fn redirect(error: &ServerError, node: &Address) -> Option<Redirect> {
    let address = || {
        let address = error.details()?.split(' ').nth(1)?;
        match address.rsplit_once(':')? {
            // A server that does not know its own name says its port only.
            ("", port) => Some(Address::tcp(node.host(), port.parse().ok()?)),
            _ => address.parse().ok(),
        }
    };
    match error.code() {
        "MOVED" => Some(Redirect::Moved(address()?)),
        "ASK" => Some(Redirect::Ask(address()?)),
        "TRYAGAIN" => Some(Redirect::TryAgain),
        _ => None,
    }
}

impl Verdict {
    /// What went wrong with the call, or else with one of its charges.
    pub(super) fn error(&self) -> Option<StoreError> {
        match self {
            Self::Decided(outcomes) => {
                outcomes.iter().flatten().find_map(|outcome| outcome.as_ref().err().copied())
            }
            Self::Failed(error) => Some(*error),
            Self::Redirected(_) => None,
        }
    }
}
