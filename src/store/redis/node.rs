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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
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
    connected: Notify,
    /// Whether it says that it evicts keys when its memory is full.
    evicts: AtomicBool,
    started: Instant,
    /// When it last answered anything, in milliseconds since `started`.
    answered: AtomicU64,
    /// The last complaint in the log, and when.
    complaint: Mutex<Option<(StoreError, Instant)>>,
}

/// A connection that is silent so long while others to its server are not is replaced.
const SILENCE: Duration = Duration::from_secs(1);

/// A server that has not answered within this may yet be well.
const SOON: Duration = Duration::from_millis(5);

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
            connected: Notify::new(),
            evicts: AtomicBool::new(false),
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

    /// One of the open connections, waited for if there is none: one may be opened any moment.
    pub(super) async fn linked(&self) -> Arc<Link> {
        loop {
            let mut connected = std::pin::pin!(self.connected.notified());
            connected.as_mut().enable();
            let first = fastrand::usize(..self.links.len().max(1));
            let (before, after) = self.links.split_at(first.min(self.links.len()));
            if let Some(link) = after.iter().chain(before).find_map(ArcSwapOption::load_full) {
                return link;
            }
            connected.await;
        }
    }

    /// Shows the connection of a lane, or that there is none.
    pub(super) fn show(&self, lane: usize, link: Option<Arc<Link>>) {
        if let Some(place) = self.links.get(lane) {
            place.store(link);
            self.connected.notify_waiters();
        }
    }

    /// Whether it says that it evicts keys when its memory is full.
    pub(super) fn evicts(&self) -> bool {
        self.evicts.load(Ordering::Relaxed)
    }

    /// It said whether it evicts keys.
    pub(super) fn says_that_it_evicts(&self, evicts: bool) {
        self.evicts.store(evicts, Ordering::Relaxed);
        self.series.keeps_keys.set(i64::from(!evicts));
    }

    /// Draws the conclusions of an error: for the connection, the topology and the log.
    pub(super) fn heed(&self, fleet: &Fleet, link: &Link, error: StoreError) {
        self.complain(error);
        if matches!(error, StoreError::ReadOnly | StoreError::Unreachable) {
            link.close();
            fleet.doubt();
        } else if error == StoreError::ClusterDown {
            fleet.doubt();
        }
    }

    /// Draws the conclusions of an exchange that began then: for the breaker and the connection.
    pub(super) fn weigh(&self, link: &Link, error: Option<StoreError>, sent: Instant) {
        match error {
            // Callers that give up so soon say nothing about the server.
            Some(StoreError::Timeout) if sent.elapsed() < SOON => {}
            Some(StoreError::Timeout) => self.unanswered(link, sent),
            Some(StoreError::Unreachable | StoreError::Loading | StoreError::Busy) => {
                self.failed();
            }
            _ => {
                link.heard();
                self.answered();
            }
        }
    }

    /// A server that has answered others meanwhile has too much to do, but is there.
    fn unanswered(&self, link: &Link, sent: Instant) {
        if self.last_answer() < sent {
            self.failed();
        }
        let since = link.not_heard();
        if since.elapsed() >= SILENCE && self.last_answer() > since {
            link.close();
        }
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
        StoreError::NotAllowed => {
            "REDIS_AUTH and the user's ACL: keys ~*tg:*, commands of docs/redis.md"
        }
        StoreError::Unintelligible => "what stands at REDIS_URL",
        StoreError::Timeout
        | StoreError::Unreachable
        | StoreError::BreakerOpen
        | StoreError::Overloaded => return None,
    })
}
