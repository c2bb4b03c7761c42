//! The servers of one Redis: which there are, how they are reached, and what they have in common.

use super::config::{Address, RedisServers, Topology};
use super::connect::Connector;
use super::fault::Misconfigured;
use super::greeting::Expects;
use super::health::Health;
use super::node::Node;
use super::pending::{Pending, Sending};
use super::script::Scripts;
use super::slots::Table;
use super::{auth, cluster, sentinel};
use crate::store::StoreError;
use crate::telemetry::StoreSeries;
use ahash::AHashMap;
use arc_swap::ArcSwap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The servers of one Redis.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) connector: Connector,
    /// What a server that decides must be.
    pub(super) expects: Expects,
    pub(super) pool_size: usize,
    pub(super) calls: Calls,
    pub(super) health: Health,
    table: ArcSwap<Table>,
    nodes: Mutex<AHashMap<Address, Arc<Node>>>,
    doubted: Notify,
}

/// How calls are made.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) scripts: Arc<Scripts>,
    pub(super) coalesce: bool,
    pub(super) key_prefix: Box<str>,
    pub(super) expiry_jitter: Duration,
    pub(super) series: Arc<StoreSeries>,
}

/// Where a server says that a slot is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// There, from now on.
    Moved(Address),
    /// There, for this key.
    Ask(Address),
    /// Here and there.
    TryAgain,
}

/// Most redirects of one charge.
pub(super) const MAX_REDIRECTS: u8 = 3;

impl Fleet {
    /// Connects to the servers, as long as `stop` is not cancelled.
    pub(super) fn start(
        servers: RedisServers,
        calls: Calls,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Result<Arc<Self>, Misconfigured> {
        let auth = auth::Auth::read(&servers)?;
        let connector = Connector {
            variables: servers.variables,
            auth_variable: auth.variable.clone(),
            auth: Arc::clone(&auth.current),
            database: servers.database,
            tls: servers.tls.as_ref().map(super::tls::config).transpose()?,
            dial_timeout: servers.connect_timeout,
            opened_once: AtomicBool::new(false),
            tasks: tasks.clone(),
            stop,
        };
        let fleet = Arc::new(Self {
            expects: match &servers.topology {
                Topology::Single(_) | Topology::Sentinel { .. } => Expects::Master,
                Topology::Cluster { .. } => Expects::ClusterMaster,
            },
            connector,
            pool_size: servers.pool_size.max(1),
            calls,
            health: Health::default(),
            table: ArcSwap::default(),
            nodes: Mutex::default(),
            doubted: Notify::new(),
        });
        fleet.follow(servers);
        if let Some(file) = auth.file {
            fleet.spawn(auth::follow(Arc::clone(&fleet), file));
        }
        Ok(fleet)
    }

    /// Finds the servers and keeps finding them.
    fn follow(self: &Arc<Self>, servers: RedisServers) {
        match servers.topology {
            Topology::Single(address) => self.install(Table::single(self.node(&address))),
            Topology::Sentinel { master, sentinels } => {
                let connector = self.connector.to_sentinels(servers.sentinel_auth);
                let fleet = Arc::clone(self);
                self.spawn(sentinel::follow(fleet, connector, master, sentinels));
            }
            Topology::Cluster { seeds } => {
                self.spawn(cluster::follow(Arc::clone(self), seeds));
            }
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.connector.stop.clone();
        self.connector.tasks.spawn(async move { stop.run_until_cancelled(task).await });
    }

    /// Hands charges to the server of their slot.
    pub(super) fn send(&self, pending: Pending) {
        let table = self.table.load();
        if let Some(node) = table.node(pending.waiter.slot) {
            return node.send(pending);
        }
        let error = self.nobody(&table);
        self.calls.series.not_decided("", error.reason(), 1);
        pending.fail(error);
    }

    /// Why nobody serves a slot.
    fn nobody(&self, table: &Table) -> StoreError {
        if table.nodes().is_empty() {
            self.health.last().map_or(StoreError::Unreachable, |last| last.error)
        } else {
            StoreError::ClusterDown
        }
    }

    /// Sends charges again that a server did not take.
    pub(super) fn redirect(self: &Arc<Self>, mut pending: Pending, to: &Redirect) {
        self.doubt();
        pending.waiter.redirects += 1;
        if pending.waiter.redirects > MAX_REDIRECTS {
            return pending.fail(StoreError::ClusterDown);
        }
        match to {
            Redirect::Moved(address) => {
                pending.waiter.sending = pending.waiter.sending.min(Sending::Alone);
                self.node(address).send(pending);
            }
            Redirect::Ask(address) => {
                pending.waiter.sending = Sending::Asking;
                self.node(address).send(pending);
            }
            Redirect::TryAgain => {
                pending.waiter.sending = Sending::Alone;
                self.send(pending);
            }
        }
    }

    /// The server at an address, connected to from now on if it was not yet.
    pub(super) fn node(self: &Arc<Self>, address: &Address) -> Arc<Node> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let node = nodes.entry(address.clone()).or_insert_with(|| Node::start(self, address));
        Arc::clone(node)
    }

    /// Takes this table from now on, and leaves the servers that are not in it.
    pub(super) fn install(&self, table: Table) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.retain(|_, node| {
            let stays = table.nodes().iter().any(|kept| Arc::ptr_eq(kept, node));
            if !stays {
                node.state.series.left();
            }
            stays
        });
        self.table.store(Arc::new(table));
    }

    /// Whether each key has one of several servers.
    pub(super) fn is_clustered(&self) -> bool {
        self.expects == Expects::ClusterMaster
    }

    /// The servers that serve slots.
    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        self.table.load().nodes().to_vec()
    }

    /// Whether any server that serves slots cannot be talked to.
    pub(super) fn is_in_trouble(&self) -> bool {
        let table = self.table.load();
        table.nodes().is_empty() || table.nodes().iter().any(|node| node.is_in_trouble())
    }

    /// Whether any server that serves slots can be talked to.
    pub(super) fn is_reachable(&self) -> bool {
        self.table.load().nodes().iter().any(|node| !node.is_in_trouble())
    }

    /// Notes that the servers may have changed.
    pub(super) fn doubt(&self) {
        self.doubted.notify_one();
    }

    /// Waits until the servers should be looked for again: there is doubt, or it is time.
    pub(super) async fn until_doubt(&self) {
        // So often at most, whatever the doubts.
        const PAUSE: Duration = Duration::from_millis(100);
        const TROUBLE: Duration = Duration::from_millis(400);
        const REGULAR: Duration = Duration::from_secs(5);
        tokio::time::sleep(PAUSE).await;
        let wait = if self.is_in_trouble() { TROUBLE } else { REGULAR };
        _ = tokio::time::timeout(wait, self.doubted.notified()).await;
    }

    /// The server of a slot.
    pub(super) fn node_of(&self, slot: u16) -> Result<Arc<Node>, StoreError> {
        let table = self.table.load();
        table.node(slot).map(Arc::clone).ok_or_else(|| self.nobody(&table))
    }
}
