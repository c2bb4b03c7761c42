//! Watches over one server: probes it while it fails, and checks its role while it does not.

use super::fleet::Fleet;
use super::link::Link;
use super::node::NodeState;
use super::report::Report;
use crate::store::StoreError;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Between two probes of a server that fails, give or take a quarter.
const PROBE: Duration = Duration::from_millis(250);

/// Between two checks of the role of a server that does not, and before the first one.
const ROLE: Duration = Duration::from_secs(5);
const FIRST: Duration = Duration::from_millis(500);

/// After so long a silence one connection is replaced, in case that it is the connections that do
/// not answer and not the server: a proxy may hold them open to one that is gone.
const SILENCE: Duration = Duration::from_secs(5);

/// Watches until `stop`.
pub(super) async fn watch(fleet: Arc<Fleet>, node: Arc<NodeState>, stop: CancellationToken) {
    let watching = async {
        let mut report = Report::default();
        let mut pause = FIRST;
        loop {
            _ = timeout(pause, node.breaker.opened()).await;
            pause = ROLE;
            if node.breaker.is_open() {
                fleet.doubt();
                probe(&node).await;
            } else {
                check_roles(&fleet, &node).await;
                report.refresh(&node).await;
            }
        }
    };
    stop.run_until_cancelled(watching).await;
}

/// Asks until it answers. A new connection, which has been greeted, is an answer too.
async fn probe(node: &NodeState) {
    let mut silent_since = Instant::now();
    for turn in 0.. {
        sleep(PROBE.mul_f64(0.75 + fastrand::f64() / 2.0)).await;
        if !node.breaker.is_open() {
            return;
        }
        let Some(link) = link(node, turn) else { continue };
        match link.check(PROBE).await {
            Ok(()) => return node.recovered(),
            Err(StoreError::Timeout) if silent_since.elapsed() >= SILENCE => {
                link.close();
                silent_since = Instant::now();
            }
            Err(StoreError::ReadOnly) => link.close(),
            Err(_) => {}
        }
    }
}

/// One of the open connections, each in turn.
fn link(node: &NodeState, turn: usize) -> Option<Arc<Link>> {
    let n_open = node.all_links().count();
    node.all_links().nth(turn.checked_rem(n_open)?)
}

/// Closes every connection that leads to a replica: it would go on refusing from stale data.
async fn check_roles(fleet: &Fleet, node: &NodeState) {
    for link in node.all_links() {
        if link.check(PROBE).await == Err(StoreError::ReadOnly) {
            link.close();
            fleet.doubt();
        }
    }
}
