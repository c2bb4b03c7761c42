//! Where records live, how long their keeper is waited for, and what is asked of it again.

use super::claim::{Claim, Claimed, Token, Written};
use super::error::RecordsError;
#[cfg(test)]
use super::failing::FailingRecords;
use super::memory::{MemoryBounds, MemoryRecords};
use super::outcome::Outcome;
use super::redis::RedisRecords;
use crate::clock::Clock;
use crate::settings::servers::RecordServers;
use crate::store::{Misconfigured, RedisState, StoreError};
use crate::telemetry::StoreSeries;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Where records live.
#[derive(Debug)]
pub struct Records {
    keeper: Keeper,
    /// How long one try may take.
    patience: Duration,
}

#[derive(Debug)]
enum Keeper {
    Memory(MemoryRecords),
    Redis(Box<RedisRecords>),
    #[cfg(test)]
    Failing(FailingRecords),
}

/// How often each thing is asked for.
const CLAIMS: u32 = 2;
const COMPLETIONS: u32 = 3;
const RELEASES: u32 = 2;

impl Records {
    /// In this process.
    pub fn in_memory(bounds: MemoryBounds, clock: Arc<dyn Clock>) -> Self {
        let keeper = Keeper::Memory(MemoryRecords::new(bounds, clock));
        Self { keeper, patience: Duration::ZERO }
    }

    /// In Redis, connected to in tasks that `tasks` tracks and `stop` ends. Fails only for settings
    /// that cannot be right; a Redis that is not there yet is waited for.
    pub fn in_redis(
        servers: RecordServers,
        series: &Arc<StoreSeries>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Result<Self, Misconfigured> {
        let patience = servers.timeout;
        let records = RedisRecords::start(servers, series, tasks, stop)?;
        Ok(Self { keeper: Keeper::Redis(Box::new(records)), patience })
    }

    /// Where a test says what fails.
    #[cfg(test)]
    pub(crate) fn failing(failing: FailingRecords) -> Self {
        Self { keeper: Keeper::Failing(failing), patience: Duration::from_millis(50) }
    }

    /// Asks to run an operation. If the answer is lost it is asked for once more: the same owner
    /// is told the same.
    pub async fn claim(&self, asked: &Claim) -> Result<Claimed, RecordsError> {
        Ok(self.insist(CLAIMS, || self.claim_once(asked)).await?.0)
    }

    /// Lets a claim hold for another lease, and be remembered for another retention. Asked once:
    /// whoever renews does so again.
    pub async fn renew(
        &self,
        token: &Token,
        lease: Duration,
        retention: Duration,
    ) -> Result<Written, RecordsError> {
        match &self.keeper {
            Keeper::Memory(memory) => Ok(memory.renew(token, lease, retention)),
            Keeper::Redis(redis) => redis.renew(token, lease, retention, self.deadline()).await,
            #[cfg(test)]
            Keeper::Failing(failing) => failing.renew(token, lease, retention),
        }
    }

    /// Says what became of an operation; tried three times.
    pub async fn complete(
        &self,
        token: &Token,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Written, RecordsError> {
        let complete = || self.complete_once(token, outcome, retention);
        let (written, was_lost) = self.insist(COMPLETIONS, complete).await?;
        Ok(settled(written, was_lost))
    }

    /// Gives an operation back that did not run; tried twice.
    pub async fn release(&self, token: &Token) -> Result<Written, RecordsError> {
        let (written, was_lost) = self.insist(RELEASES, || self.release_once(token)).await?;
        Ok(settled(written, was_lost))
    }

    /// What is known of the Redis, if it is one.
    pub fn redis_state(&self) -> Option<RedisState> {
        match &self.keeper {
            Keeper::Redis(redis) => Some(redis.state()),
            Keeper::Memory(_) => None,
            #[cfg(test)]
            Keeper::Failing(_) => None,
        }
    }

    /// How many operations this process's memory holds, and about how many bytes they take.
    pub fn in_memory_now(&self) -> Option<(usize, usize)> {
        match &self.keeper {
            Keeper::Memory(memory) => Some((memory.n_records(), memory.n_bytes())),
            Keeper::Redis(_) => None,
            #[cfg(test)]
            Keeper::Failing(_) => None,
        }
    }

    async fn claim_once(&self, asked: &Claim) -> Result<Claimed, RecordsError> {
        match &self.keeper {
            Keeper::Memory(memory) => memory.claim(asked),
            Keeper::Redis(redis) => redis.claim(asked, self.deadline()).await,
            #[cfg(test)]
            Keeper::Failing(failing) => failing.claim(asked),
        }
    }

    async fn complete_once(
        &self,
        token: &Token,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Written, RecordsError> {
        match &self.keeper {
            Keeper::Memory(memory) => Ok(memory.complete(token, outcome, retention)),
            Keeper::Redis(redis) => {
                redis.complete(token, outcome, retention, self.deadline()).await
            }
            #[cfg(test)]
            Keeper::Failing(failing) => failing.complete(token, outcome, retention),
        }
    }

    async fn release_once(&self, token: &Token) -> Result<Written, RecordsError> {
        match &self.keeper {
            Keeper::Memory(memory) => Ok(memory.release(token)),
            Keeper::Redis(redis) => redis.release(token, self.deadline()).await,
            #[cfg(test)]
            Keeper::Failing(failing) => failing.release(token),
        }
    }

    /// Asks until there is an answer, so often at most; with whether one may have been lost. If there is
    /// none, an error by which it may have been done stands for those that came after it.
    async fn insist<T, F: Future<Output = Result<T, RecordsError>>>(
        &self,
        most: u32,
        ask: impl Fn() -> F,
    ) -> Result<(T, bool), RecordsError> {
        let mut lost = None;
        for n in 1.. {
            match ask().await {
                Ok(answer) => return Ok((answer, lost.is_some())),
                Err(error) if n >= most || !error.may_pass_soon() => {
                    return Err(lost.unwrap_or(error));
                }
                Err(error) => lost = lost.or(error.may_be_lost().then_some(error)),
            }
            let pause = (self.patience / 5).min(Duration::from_millis(10));
            sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
        }
        Err(StoreError::Unreachable.into())
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.patience
    }
}

/// What has ended already was ended by us, if an answer to that was lost.
const fn settled(written: Written, was_lost: bool) -> Written {
    match written {
        Written::Already if was_lost => Written::Done,
        Written::Done | Written::Stale | Written::Already | Written::Missing => written,
    }
}
