//! What a server says of its own memory: for metrics, and for a warning if it evicts counters.

use super::link::text;
use super::node::NodeState;
use crate::clock::{Clock, SystemClock};
use redis::{Pipeline, Value};
use std::time::Duration;

/// What was said of one server so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    warned: bool,
}

/// What is asked for is not worth waiting for.
const PATIENCE: Duration = Duration::from_millis(250);

impl Report {
    /// Asks the server. One that does not tell, as a user without the right to ask, is let be.
    pub(super) async fn refresh(&mut self, node: &NodeState) {
        let Some(link) = node.any_link() else { return };
        let mut commands = Pipeline::with_capacity(3);
        commands.cmd("INFO").arg("memory").cmd("INFO").arg("stats").cmd("TIME");
        let Ok(answers) = link.ask(&commands, PATIENCE).await else { return };
        let info = Info(answers.iter().filter_map(text_of).collect());
        if let Some(memory) = info.number("used_memory") {
            node.series.memory.set(memory);
        }
        if let Some(evicted) = info.number("evicted_keys") {
            node.series.evicted.set(evicted);
        }
        if info.get("maxmemory_policy").is_some() {
            node.says_that_it_evicts(info.evicts().is_some());
        }
        if let Some(seconds) = answers.last().and_then(seconds_of) {
            let ours = Duration::from(SystemClock::new().now()).as_secs_f64();
            node.series.time_offset.set(seconds - ours);
        }
        if let Some(policy) = info.evicts().filter(|_| !self.warned) {
            self.warned = true;
            tracing::warn!(
                node = %node.address, policy,
                "Redis evicts keys when its memory is full, and with them what it \
                 keeps for us: maxmemory-policy should be noeviction"
            );
        }
    }
}

/// The answers to `INFO`.
struct Info(String);

impl Info {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.get(name)?.parse().ok()
    }

    /// The policy by which keys are evicted, if they are.
    fn evicts(&self) -> Option<&str> {
        let policy = self.get("maxmemory_policy")?;
        (policy != "noeviction" && self.number("maxmemory")? > 0).then_some(policy)
    }
}

fn text_of(answer: &Value) -> Option<&str> {
    if let Value::VerbatimString { text, .. } = answer { Some(text) } else { text(answer) }
}

/// The answer to `TIME`.
fn seconds_of(answer: &Value) -> Option<f64> {
    let Value::Array(parts) = answer else { return None };
    let [seconds, micros] = &**parts else { return None };
    let number = |part| text(part)?.parse::<f64>().ok();
    Some(number(seconds)? + number(micros)? / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_with_a_bound_evicts() {
        let info = |text: &str| Info(text.replace('\n', "\r\n"));
        let evicting = info("# Memory\nmaxmemory:100\nmaxmemory_policy:allkeys-lru\n");
        assert_eq!(evicting.evicts(), Some("allkeys-lru"));
        assert_eq!(info("maxmemory:0\nmaxmemory_policy:allkeys-lru\n").evicts(), None);
        assert_eq!(info("maxmemory:100\nmaxmemory_policy:noeviction\n").evicts(), None);
        assert_eq!(info("").evicts(), None);
    }
}
