//! Follows a cluster: which of its nodes serves which slots.

use super::config::Address;
use super::fleet::Fleet;
use super::greeting::Expects;
use super::link::{Link, text};
use super::slots::{Served, Table};
use crate::store::StoreError;
use redis::{Cmd, Value};
use std::sync::Arc;
use std::time::Duration;

/// A node that does not say within this who serves what is not waited for.
const PATIENCE: Duration = Duration::from_millis(300);

/// Keeps the table as the cluster has it, for ever.
pub(super) async fn follow(fleet: Arc<Fleet>, seeds: Vec<Address>) {
    loop {
        refresh(&fleet, &seeds).await;
        fleet.until_doubt().await;
    }
}

/// Asks the nodes that are known, or else those of the settings, until one knows.
async fn refresh(fleet: &Arc<Fleet>, seeds: &[Address]) {
    let mut nodes = fleet.nodes();
    fastrand::shuffle(&mut nodes);
    nodes.sort_by_key(|node| node.is_in_trouble());
    for node in nodes {
        if let Some(link) = node.state.any_link()
            && let Ok(served) = ask(&link, &node.state.address).await
        {
            return install(fleet, served);
        }
    }
    for seed in seeds {
        match fleet.connector.open(seed, Expects::ClusterNode).await {
            Err(error) => fleet.health.not_connected(&error),
            Ok(link) => {
                let served = ask(&link, seed).await;
                link.close();
                if let Ok(served) = served {
                    return install(fleet, served);
                }
            }
        }
    }
}

fn install(fleet: &Arc<Fleet>, served: Vec<Served<Address>>) {
    let served = served.into_iter().map(|(address, ranges)| (fleet.node(&address), ranges));
    fleet.install(Table::cluster(served.collect()));
}

async fn ask(link: &Link, from: &Address) -> Result<Vec<Served<Address>>, StoreError> {
    let mut command = Cmd::new();
    command.arg("CLUSTER").arg("SLOTS");
    let served = read(&link.ask_one(command, PATIENCE).await?, from);
    // A node that serves nothing and knows nobody has been reset, or is not part of it yet.
    if served.is_empty() { Err(StoreError::ClusterDown) } else { Ok(served) }
}

/// Reads `[first, last, [host, port, …], …]…`; the first node of each is its master.
fn read(answer: &Value, from: &Address) -> Vec<Served<Address>> {
    let mut served: Vec<Served<Address>> = Vec::new();
    for range in parts(answer) {
        let [Value::Int(first), Value::Int(last), master, ..] = parts(range) else { continue };
        let (Ok(first), Ok(last)) = (u16::try_from(*first), u16::try_from(*last)) else { continue };
        let Some(address) = address(master, from) else { continue };
        match served.iter_mut().find(|(known, _)| *known == address) {
            Some((_, ranges)) => ranges.push((first, last)),
            None => served.push((address, vec![(first, last)])),
        }
    }
    served
}

fn address(node: &Value, from: &Address) -> Option<Address> {
    let [host, Value::Int(port), ..] = parts(node) else { return None };
    let host = match text(host) {
        // A node that does not know its own name is where we asked.
        None | Some("") => from.host(),
        Some("?") => return None,
        Some(host) => host,
    };
    Some(Address::tcp(host, u16::try_from(*port).ok()?))
}

fn parts(value: &Value) -> &[Value] {
    if let Value::Array(parts) = value { parts } else { &[] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, last: i64, host: Option<&str>, port: i64) -> Value {
        let host = host.map_or(Value::Nil, |host| Value::BulkString(host.into()));
        let node = Value::Array(vec![host, Value::Int(port), Value::BulkString("id".into())]);
        let replica = Value::Array(vec![Value::BulkString("replica".into()), Value::Int(1)]);
        Value::Array(vec![Value::Int(first), Value::Int(last), node, replica])
    }

    #[test]
    fn the_first_node_of_a_range_serves_it() {
        let answer = Value::Array(vec![
            range(0, 10, Some("a"), 1),
            range(11, 20, Some("b"), 2),
            range(21, 30, Some("a"), 1),
        ]);
        assert_eq!(
            read(&answer, &Address::tcp("seed", 9)),
            [
                (Address::tcp("a", 1), vec![(0, 10), (21, 30)]),
                (Address::tcp("b", 2), vec![(11, 20)]),
            ]
        );
    }

    #[test]
    fn a_node_without_a_name_is_where_it_was_asked_and_an_unknown_one_is_left_out() {
        let answer = Value::Array(vec![range(0, 1, None, 1), range(2, 3, Some("?"), 2)]);
        let seed = Address::tcp("seed", 9);
        assert_eq!(read(&answer, &seed), [(Address::tcp("seed", 1), vec![(0, 1)])]);
        assert_eq!(read(&Value::Nil, &seed), []);
    }
}
