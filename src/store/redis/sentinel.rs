//! Follows the master that sentinels name.

use super::config::Address;
use super::connect::Connector;
use super::fault::ConnectError;
use super::fleet::Fleet;
use super::greeting::Expects;
use super::link::{Link, text};
use super::slots::Table;
use crate::store::StoreError;
use redis::{Cmd, Value};
use std::sync::Arc;
use std::time::Duration;

/// A sentinel that does not answer within this is not waited for.
const PATIENCE: Duration = Duration::from_millis(300);

/// What a sentinel knows.
enum Answer {
    Master(Address),
    /// It never heard of that name.
    Unknown,
    /// It does not answer.
    None,
}

/// Keeps the table at the master, for ever.
pub(super) async fn follow(
    fleet: Arc<Fleet>,
    connector: Connector,
    master: Box<str>,
    mut sentinels: Vec<Address>,
) {
    let mut link = None;
    loop {
        if let Some(address) = find(&fleet, &connector, &master, &mut sentinels, &mut link).await {
            let node = fleet.node(&address);
            fleet.install(Table::single(node));
        }
        fleet.until_doubt().await;
    }
}

/// Asks the sentinel of last time, or else every one; the one that answers is asked first next
/// time.
async fn find(
    fleet: &Fleet,
    connector: &Connector,
    master: &str,
    sentinels: &mut [Address],
    link: &mut Option<Arc<Link>>,
) -> Option<Address> {
    if let Some(open) = link.take()
        && let Answer::Master(address) = ask(&open, master).await
    {
        *link = Some(open);
        return Some(address);
    }
    let mut unknown = None;
    for at in 0..sentinels.len() {
        let sentinel = sentinels.get(at)?.clone();
        match connector.open(&sentinel, Expects::Sentinel).await {
            Err(error) => fleet.health.not_connected(&error),
            Ok(open) => match ask(&open, master).await {
                Answer::Master(address) => {
                    *link = Some(open);
                    sentinels.swap(0, at);
                    return Some(address);
                }
                Answer::Unknown => unknown = Some(sentinel),
                Answer::None => {}
            },
        }
    }
    if let Some(sentinel) = unknown {
        let what = format_args!("{sentinel} knows no master `{}`", master.escape_debug());
        let setting = connector.setting("URL");
        let error = ConnectError::setting(setting, StoreError::Unreachable, what);
        fleet.health.not_connected(&error);
    }
    None
}

async fn ask(link: &Link, master: &str) -> Answer {
    let mut command = Cmd::new();
    command.arg("SENTINEL").arg("get-master-addr-by-name").arg(master);
    match link.ask_one(command, PATIENCE).await {
        Ok(Value::Array(parts)) => match &*parts {
            [host, port] => match (text(host), text(port).and_then(|port| port.parse().ok())) {
                (Some(host), Some(port)) => Answer::Master(Address::tcp(host, port)),
                _ => Answer::None,
            },
            _ => Answer::None,
        },
        Ok(Value::Nil) => Answer::Unknown,
        Ok(_) | Err(_) => Answer::None,
    }
}
