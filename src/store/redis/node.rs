//! One server: its connections, its breaker, and the watch over both.

use super::breaker::Breaker;
use super::config::Address;
use super::fleet::Fleet;
use super::lane::Lane;
use super::link::Link;
use super::pending::Pending;
use super::watch::watch;
use crate::store::StoreError;
use crate::telemetry::ServerSeries;
use arc_swap::ArcSwapOption;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::Instant;
use tokio_util::sync::DropGuard;

/// One server. Its connections are closed when it is dropped.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) state: Arc<NodeState>,
    lanes: Box<[UnboundedSender<Pending>]>,
    _stop: DropGuard,
}

/// What a server's connections share.
#[derive(Debug)]
pub(super) struct NodeState {
    pub(super) address: Address,
    pub(super) breaker: Breaker,
    pub(super) series: ServerSeries,
    /// The open connection of each lane.
    pub(super) links: Box<[ArcSwapOption<Link>]>,
    started: Instant,
    /// When it last answered anything, in milliseconds since `started`.
    answered: AtomicU64,
    /// The last complaint in the log, and when.
    complaint: Mutex<Option<(StoreError, Instant)>>,
}

/// The same complaint is logged so often.
const COMPLAINT: Duration = Duration::from_secs(10);

impl Node {
    /// Connects to a server.
    pub(super) fn start(fleet: &Arc<Fleet>, address: &Address) -> Arc<Self> {
        let stop = fleet.connector.stop.child_token();
        let state = Arc::new(NodeState {
            address: address.clone(),
            breaker: Breaker::default(),
            series: fleet.calls.series.server(&address.to_string()),
            links: (0..fleet.pool_size).map(|_| ArcSwapOption::empty()).collect(),
            started: Instant::now(),
            answered: AtomicU64::new(0),
            complaint: Mutex::default(),
        });
        let tasks = &fleet.connector.tasks;
        let lanes = (0..fleet.pool_size).map(|index| {
            let (sender, queue) = unbounded_channel();
            let lane = Lane::new(Arc::clone(fleet), Arc::clone(&state), index, queue, stop.clone());
            tasks.spawn(lane.run());
            sender
        });
        let lanes = lanes.collect();
        tasks.spawn(watch(Arc::clone(fleet), Arc::clone(&state), stop.clone()));
        Arc::new(Self { state, lanes, _stop: stop.drop_guard() })
    }

    /// Queues charges on the connection of their tag.
    pub(super) fn send(&self, pending: Pending) {
        if self.state.breaker.is_open() {
            return self.state.refuse(pending, StoreError::BreakerOpen);
        }
        let lane = usize::try_from(pending.waiter.tag_hash).unwrap_or(0) % self.lanes.len().max(1);
        let rejected = match self.lanes.get(lane) {
            Some(lane) => lane.send(pending).err().map(|error| error.0),
            None => Some(pending),
        };
        if let Some(pending) = rejected {
            self.state.refuse(pending, StoreError::Unreachable);
        }
    }

    /// Whether it is known to fail, or no connection stands.
    pub(super) fn is_in_trouble(&self) -> bool {
        self.state.breaker.is_open() || self.state.any_link().is_none()
    }
}

impl NodeState {
    /// An open connection.
    pub(super) fn any_link(&self) -> Option<Arc<Link>> {
        self.links.iter().find_map(ArcSwapOption::load_full)
    }

    /// Every open connection.
    pub(super) fn all_links(&self) -> impl Iterator<Item = Arc<Link>> {
        self.links.iter().filter_map(ArcSwapOption::load_full)
    }

    /// Answers charges with an error and counts them.
    pub(super) fn refuse(&self, pending: Pending, error: StoreError) {
        self.series.not_decided(error.reason(), 1);
        pending.fail(error);
    }

    /// A call was answered, if only with an error.
    pub(super) fn answered(&self) {
        self.breaker.succeeded();
        let now = self.started.elapsed().as_millis();
        self.answered.store(u64::try_from(now).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// When it last answered anything.
    pub(super) fn last_answer(&self) -> Instant {
        self.started + Duration::from_millis(self.answered.load(Ordering::Relaxed))
    }

    /// A call failed in a way that the next one may share.
    pub(super) fn failed(&self) {
        if self.breaker.failed() {
            self.series.breaker.set(1);
            tracing::warn!(node = %self.address, "Redis does not answer: no calls until it does");
        }
    }

    /// A probe or a new connection was answered.
    pub(super) fn recovered(&self) {
        if self.breaker.close() {
            self.series.breaker.set(0);
            tracing::info!(node = %self.address, "Redis answers again");
        }
    }

    /// Says in the log why charges are not decided, unless it just did.
    pub(super) fn complain(&self, error: StoreError) {
        let Some(look_at) = look_at(error) else { return };
        let now = Instant::now();
        let mut last = self.complaint.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|(said, at)| said != error || now - at >= COMPLAINT) {
            *last = Some((error, now));
            tracing::warn!(node = %self.address, reason = %error, look_at, "Redis does not decide");
        }
    }
}

/// Where to look for the cause; none if the breaker or the connections tell.
const fn look_at(error: StoreError) -> Option<&'static str> {
    Some(match error {
        StoreError::ReadOnly => "the server's role; a new master is looked for",
        StoreError::Loading => "the server's start; it will pass",
        StoreError::Busy => "SCRIPT KILL; a script of somebody else runs",
        StoreError::OutOfMemory => "maxmemory and maxmemory-policy of Redis",
        StoreError::ClusterDown => "CLUSTER INFO; cluster-require-full-coverage of Redis",
        StoreError::WrongType => "CACHE_KEY_PREFIX; somebody else writes under our keys",
        StoreError::NotAllowed => "REDIS_AUTH and the user's ACL: keys ~*tg:*, commands of README",
        StoreError::Unintelligible => "what stands at REDIS_URL",
        StoreError::Timeout
        | StoreError::Unreachable
        | StoreError::BreakerOpen
        | StoreError::Overloaded => return None,
    })
}
