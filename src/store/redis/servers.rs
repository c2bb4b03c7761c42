//! One Redis as the store sees it: charges go in, outcomes come out by their deadline.

use super::call::Unit;
use super::config::{OpTimeout, RedisServers};
use super::exchange::write_key;
use super::fault::Misconfigured;
use super::fleet::{Calls, Fleet};
use super::health::RedisState;
use super::pending::{InFlight, Pending, Sending, Waiter, failed};
use super::slots::slot;
use crate::algorithm::Decision;
use crate::store::{Batch, Outcomes, StoreError};
use crate::telemetry::StoreOp;
use ahash::RandomState;
use redis::{Cmd, Value};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot::{self, Receiver};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// One Redis.
#[derive(Debug)]
pub(super) struct Servers {
    fleet: Arc<Fleet>,
    in_flight: Arc<InFlight>,
    hasher: RandomState,
    op_timeout: OpTimeout,
    /// Closes all connections when this is dropped.
    _stop: DropGuard,
}

/// Groups of a batch, by their places.
type Groups = SmallVec<[usize; 4]>;

/// Charges on their way, and which groups they are of.
type Sent = (Groups, Result<Receiver<Outcomes>, StoreError>);

/// What a caller needs to take an answer before it gives up.
const MARGIN: Duration = Duration::from_millis(3);

/// The longest wait under `auto`.
const LONGEST: Duration = Duration::from_millis(100);

/// The wait under `auto` for a caller that does not say when it gives up: Envoy does after 20 ms.
const UNSAID: Duration = Duration::from_millis(15);

/// How long an operator is made to wait.
const ADMIN: Duration = Duration::from_secs(1);

impl Servers {
    pub(super) fn start(
        servers: RedisServers,
        calls: Calls,
        in_flight: &Arc<InFlight>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Result<Self, Misconfigured> {
        let stop = stop.child_token();
        Ok(Self {
            op_timeout: servers.op_timeout,
            fleet: Fleet::start(servers, calls, tasks, stop.clone())?,
            in_flight: Arc::clone(in_flight),
            hasher: RandomState::new(),
            _stop: stop.drop_guard(),
        })
    }

    pub(super) fn state(&self) -> RedisState {
        self.fleet.health.state()
    }

    pub(super) fn is_reachable(&self) -> bool {
        self.fleet.is_reachable()
    }

    pub(super) fn spans_tags(&self) -> bool {
        !self.fleet.is_clustered()
    }

    /// Decides a batch: one outcome per item, in its order.
    pub(super) async fn decide(&self, batch: &Arc<Batch>, gives_up: Option<Instant>) -> Outcomes {
        let deadline = self.deadline(gives_up);
        if self.fleet.is_clustered() {
            self.decide_by_tag(batch, deadline).await
        } else {
            let groups = (0..batch.groups.len()).collect();
            let receiver = self.send(batch, groups, deadline);
            received(receiver, deadline, batch.items.len()).await
        }
    }

    /// In a cluster each tag has a server of its own.
    async fn decide_by_tag(&self, batch: &Arc<Batch>, deadline: Instant) -> Outcomes {
        let units = by_tag(batch);
        if units.len() == 1 {
            let groups = units.into_iter().next().unwrap_or_default();
            let receiver = self.send(batch, groups, deadline);
            return received(receiver, deadline, batch.items.len()).await;
        }
        let send = |groups: Groups| {
            let receiver = self.send(batch, groups.clone(), deadline);
            (groups, receiver)
        };
        let sent: SmallVec<[Sent; 4]> = units.into_iter().map(send).collect();
        let mut all = failed(batch.items.len(), StoreError::Unreachable);
        for (groups, receiver) in sent {
            let items = || groups.iter().flat_map(|group| items_of(batch, *group));
            let outcomes = received(receiver, deadline, items().count()).await;
            for (item, outcome) in items().zip(outcomes) {
                all.get_mut(item).into_iter().for_each(|slot| *slot = outcome);
            }
        }
        all
    }

    /// Queues some groups of a batch, all of the first one's tag as far as slots are concerned.
    fn send(
        &self,
        batch: &Arc<Batch>,
        groups: Groups,
        deadline: Instant,
    ) -> Result<Receiver<Outcomes>, StoreError> {
        let Some(ticket) = self.in_flight.enter() else {
            self.fleet.calls.series.not_decided("", StoreError::Overloaded.reason(), 1);
            return Err(StoreError::Overloaded);
        };
        let tag = groups.first().map_or("", |group| tag_of(batch, *group));
        let (answer, receiver) = oneshot::channel();
        let waiter = Waiter {
            answer,
            deadline,
            tag_hash: self.hasher.hash_one(tag),
            slot: if self.fleet.is_clustered() { slot(tag) } else { 0 },
            redirects: 0,
            sending: Sending::Together,
            _ticket: ticket,
        };
        let unit = Unit { batch: Arc::clone(batch), groups };
        self.fleet.send(Pending { unit, waiter });
        Ok(receiver)
    }

    fn deadline(&self, gives_up: Option<Instant>) -> Instant {
        let now = Instant::now();
        match (self.op_timeout, gives_up) {
            (OpTimeout::Fixed(timeout), _) => now + timeout,
            (OpTimeout::Auto, None) => now + UNSAID,
            (OpTimeout::Auto, Some(gives_up)) => {
                gives_up.checked_sub(MARGIN).unwrap_or(now).clamp(now, now + LONGEST)
            }
        }
    }

    /// What the peek that is all of this batch would be answered, if its bucket exists.
    pub(super) async fn inspect(
        &self,
        bucket: &Arc<Batch>,
    ) -> Result<Option<Decision>, StoreError> {
        if self.ask(StoreOp::Inspect, "EXISTS", bucket).await? == 0 {
            return Ok(None);
        }
        let outcome = self.decide(bucket, Some(Instant::now() + ADMIN)).await.pop();
        outcome.unwrap_or(Err(StoreError::Unintelligible)).map(Some)
    }

    /// Forgets the only bucket of this batch. Says whether there was one.
    pub(super) async fn reset(&self, bucket: &Batch) -> Result<bool, StoreError> {
        Ok(self.ask(StoreOp::Reset, "DEL", bucket).await? > 0)
    }

    async fn ask(&self, op: StoreOp, command: &str, bucket: &Batch) -> Result<i64, StoreError> {
        let item = bucket.items.first().ok_or(StoreError::Unintelligible)?;
        let node = self.fleet.node_of(slot(bucket.tag(item)))?;
        let link = node.state.any_link().ok_or(StoreError::Unreachable)?;
        let mut asked = Cmd::new();
        asked.arg(command);
        write_key(&mut asked, &self.fleet.calls.key_prefix, bucket.key(item));
        let sent = Instant::now();
        let answer = link.ask_one(asked, ADMIN).await;
        node.state.series.answered(op, sent.elapsed());
        match answer {
            Ok(Value::Int(number)) => Ok(number),
            Ok(_) => Err(StoreError::Unintelligible),
            Err(error) => {
                self.fleet.doubt();
                Err(error)
            }
        }
    }
}

/// The answer, or why there is none by the deadline.
async fn received(
    receiver: Result<Receiver<Outcomes>, StoreError>,
    deadline: Instant,
    n_items: usize,
) -> Outcomes {
    let error = match receiver {
        Err(error) => error,
        Ok(receiver) => match timeout_at(deadline, receiver).await {
            Ok(Ok(outcomes)) => return outcomes,
            // What nobody can wait for any longer is not sent.
            Ok(Err(_)) if Instant::now() >= deadline => StoreError::Timeout,
            Ok(Err(_)) => StoreError::Unreachable,
            Err(_) => StoreError::Timeout,
        },
    };
    failed(n_items, error)
}

/// The groups of each tag, tags in the order of their first group.
fn by_tag(batch: &Batch) -> SmallVec<[Groups; 4]> {
    let mut tags: SmallVec<[&str; 4]> = SmallVec::new();
    let mut units: SmallVec<[Groups; 4]> = SmallVec::new();
    for group in 0..batch.groups.len() {
        let tag = tag_of(batch, group);
        let at = tags.iter().position(|known| *known == tag).unwrap_or(tags.len());
        if at == tags.len() {
            tags.push(tag);
            units.push(SmallVec::new());
        }
        units.get_mut(at).into_iter().for_each(|unit| unit.push(group));
    }
    units
}

fn tag_of(batch: &Batch, group: usize) -> &str {
    let item = items_of(batch, group).next().and_then(|item| batch.items.get(item));
    item.map_or("", |item| batch.tag(item))
}

/// The items of a group, by their places in the batch.
fn items_of(batch: &Batch, group: usize) -> impl Iterator<Item = usize> {
    let members = batch.groups.get(group).and_then(|group| batch.members.get(group.clone()));
    members.unwrap_or_default().iter().flat_map(|member| member.items.clone())
}
