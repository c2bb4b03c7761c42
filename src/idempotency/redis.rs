//! Records in Redis: one key for each operation, every change one atomic script call.
//!
//! Their keys begin with `tg:id:` (behind `CACHE_KEY_PREFIX`), those of rate limits with `tg:rl:`.

use super::claim::{Claim, Claimed, Token, Written};
use super::error::RecordsError;
use super::layout;
use super::operation::Fence;
use super::outcome::Outcome;
use crate::clock::Micros;
use crate::rules::OnLeaseExpired;
use crate::settings::servers::RecordServers;
use crate::store::{
    Misconfigured, RedisState, Run, RunnerConfig, Script, ScriptRunner, StoreError,
};
use crate::telemetry::{StoreOp, StoreSeries};
use redis::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Records in Redis.
#[derive(Debug)]
pub(super) struct RedisRecords {
    runner: ScriptRunner,
    scripts: Scripts,
    allow_eviction: bool,
}

/// One script for each thing that is asked.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) claim: Script,
    pub(super) renew: Script,
    pub(super) complete: Script,
    pub(super) release: Script,
}

/// The arguments of a script; none is the time, which is the server's own.
pub(super) type Arguments = Vec<Vec<u8>>;

impl Scripts {
    pub(super) fn new() -> Self {
        let script = |file| Script::of(&[include_str!("../../lua/record.lua"), file]);
        Self {
            claim: script(include_str!("../../lua/claim.lua")),
            renew: script(include_str!("../../lua/renew.lua")),
            complete: script(include_str!("../../lua/complete.lua")),
            release: script(include_str!("../../lua/release.lua")),
        }
    }
}

impl RedisRecords {
    pub(super) fn start(
        servers: RecordServers,
        series: &Arc<StoreSeries>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Result<Self, Misconfigured> {
        let config = RunnerConfig {
            servers: servers.servers,
            max_in_flight: servers.max_in_flight,
            key_prefix: format!("{}tg:id:", servers.key_prefix).into(),
        };
        let runner = ScriptRunner::start(config, series, tasks, stop)?;
        Ok(Self { runner, scripts: Scripts::new(), allow_eviction: servers.allow_eviction })
    }

    pub(super) fn state(&self) -> RedisState {
        self.runner.state()
    }

    pub(super) async fn claim(
        &self,
        asked: &Claim,
        deadline: Instant,
    ) -> Result<Claimed, RecordsError> {
        if !self.allow_eviction && self.runner.evicts() {
            return Err(RecordsError::Evicts);
        }
        let arguments = claim_arguments(asked);
        let run = (StoreOp::Claim, &self.scripts.claim);
        let answer = self.run(run, &asked.operation.to_string(), &arguments, deadline).await?;
        Ok(claimed(answer)?)
    }

    pub(super) async fn renew(
        &self,
        token: &Token,
        lease: Duration,
        retention: Duration,
        deadline: Instant,
    ) -> Result<Written, RecordsError> {
        let arguments = renew_arguments(token, lease, retention);
        let run = (StoreOp::Renew, &self.scripts.renew);
        let answer = self.run(run, &token.operation.to_string(), &arguments, deadline).await?;
        Ok(written(&answer)?)
    }

    pub(super) async fn complete(
        &self,
        token: &Token,
        outcome: &Outcome,
        retention: Duration,
        deadline: Instant,
    ) -> Result<Written, RecordsError> {
        let arguments = complete_arguments(token, outcome, retention);
        let run = (StoreOp::Complete, &self.scripts.complete);
        let answer = self.run(run, &token.operation.to_string(), &arguments, deadline).await?;
        Ok(written(&answer)?)
    }

    pub(super) async fn release(
        &self,
        token: &Token,
        deadline: Instant,
    ) -> Result<Written, RecordsError> {
        let arguments = release_arguments(token);
        let run = (StoreOp::Release, &self.scripts.release);
        let answer = self.run(run, &token.operation.to_string(), &arguments, deadline).await?;
        Ok(written(&answer)?)
    }

    async fn run(
        &self,
        (op, script): (StoreOp, &Script),
        key: &str,
        arguments: &Arguments,
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        self.runner.run(&Run { op, script, key, arguments: &arguments }, deadline).await
    }
}

pub(super) fn claim_arguments(asked: &Claim) -> Arguments {
    let takes_over = match asked.terms.on_lease_expired {
        OnLeaseExpired::Hold => b"0",
        OnLeaseExpired::Takeover => b"1",
    };
    vec![
        Vec::new(),
        asked.owner.bytes().to_vec(),
        asked.fingerprint.text().into(),
        micros(asked.terms.lease),
        millis(asked.terms.retention),
        takes_over.to_vec(),
    ]
}

pub(super) fn renew_arguments(token: &Token, lease: Duration, retention: Duration) -> Arguments {
    let mut arguments = release_arguments(token);
    arguments.extend([micros(lease), millis(retention)]);
    arguments
}

pub(super) fn complete_arguments(
    token: &Token,
    outcome: &Outcome,
    retention: Duration,
) -> Arguments {
    let mut arguments = release_arguments(token);
    arguments.extend([millis(retention), layout::encode(outcome)]);
    arguments
}

pub(super) fn release_arguments(token: &Token) -> Arguments {
    vec![Vec::new(), token.owner.bytes().to_vec(), token.fence.to_string().into()]
}

fn micros(duration: Duration) -> Vec<u8> {
    Micros::from(duration).0.to_string().into()
}

/// Rounded up, at least one: Redis takes no less.
fn millis(duration: Duration) -> Vec<u8> {
    Micros::from(duration).0.div_ceil(1000).max(1).to_string().into()
}

/// What `lua/claim.lua` answers.
pub(super) fn claimed(answer: Value) -> Result<Claimed, StoreError> {
    let Value::Array(parts) = answer else { return Err(StoreError::Unintelligible) };
    let number = |n: usize| number(&parts, n).ok_or(StoreError::Unintelligible);
    let duration = |n| number(n).map(Duration::from_micros);
    Ok(match number(0)? {
        0 => Claimed::First { fence: Fence(number(1)?) },
        1 => Claimed::TakenOver { fence: Fence(number(1)?) },
        2 => Claimed::InProgress { lease_left: duration(1)? },
        3 => Claimed::Unknown { since: Micros(number(1)?) },
        4 => over(duration(1)?, parts.get(2))?,
        5 => Claimed::Mismatch,
        6 => Claimed::Unverifiable,
        _ => return Err(StoreError::Unintelligible),
    })
}

fn over(age: Duration, outcome: Option<&Value>) -> Result<Claimed, StoreError> {
    let Some(Value::BulkString(bytes)) = outcome else { return Err(StoreError::Unintelligible) };
    Ok(match layout::decode(bytes) {
        Some(Outcome::Stored(answer)) => Claimed::Completed { answer, age },
        Some(Outcome::NotStored(told)) => Claimed::NotStored(told),
        None => Claimed::Unverifiable,
    })
}

/// What the other scripts answer.
pub(super) fn written(answer: &Value) -> Result<Written, StoreError> {
    let Value::Int(number) = answer else { return Err(StoreError::Unintelligible) };
    match number {
        0 => Ok(Written::Done),
        1 => Ok(Written::Stale),
        2 => Ok(Written::Already),
        3 => Ok(Written::Missing),
        _ => Err(StoreError::Unintelligible),
    }
}

fn number(parts: &[Value], n: usize) -> Option<u64> {
    if let Some(Value::Int(number)) = parts.get(n) { u64::try_from(*number).ok() } else { None }
}
