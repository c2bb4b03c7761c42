//! What a server says of itself: for metrics, and for a warning if it evicts counters or does not tell.

use super::link::{is_withheld, text};
use super::node::NodeState;
use crate::clock::{Clock, SystemClock};
use redis::{Pipeline, Value};
use std::time::Duration;

/// What was said of one server so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    warned: bool,
    told_unchecked: bool,
}

/// What the first answers tell.
const CHECKED: [&str; 2] = ["whether it is a master (ROLE)", "whether it evicts keys (INFO)"];

/// What is asked for is not worth waiting for.
const PATIENCE: Duration = Duration::from_millis(250);

impl Report {
    /// Asks the server. One that does not tell, as a user without the right to ask, is let be.
    pub(super) async fn refresh(&mut self, node: &NodeState) {
        let Some(link) = node.any_link() else { return };
        let mut commands = Pipeline::with_capacity(4);
        commands.cmd("ROLE").cmd("INFO").arg("memory").cmd("INFO").arg("stats").cmd("TIME");
        let Ok(answers) = link.ask(&commands, PATIENCE).await else { return };
        if let Some(unchecked) = self.unchecked(&answers) {
            tracing::warn!(node = %node.address, unchecked, "Redis withholds commands");
        }
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

    /// What cannot be checked, the first time that something cannot.
    fn unchecked(&mut self, answers: &[Value]) -> Option<String> {
        let is_withheld =
            |answer: &Value| matches!(answer, Value::ServerError(error) if is_withheld(error));
        let unchecked = CHECKED.iter().zip(answers).filter(|(_, answer)| is_withheld(answer));
        let unchecked: Vec<_> = unchecked.map(|(what, _)| *what).collect();
        let is_news = !unchecked.is_empty() && !self.told_unchecked;
        self.told_unchecked |= is_news;
        is_news.then(|| unchecked.join(", "))
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

    #[test]
    fn what_cannot_be_checked_is_told_once() {
        let answer = |line: &str| redis::parse_redis_value(line.as_bytes()).unwrap();
        let withheld = || answer("-ERR unknown command\r\n");
        let loading = || answer("-LOADING Redis is loading\r\n");
        let (ok, mut report) = (|| answer("+OK\r\n"), Report::default());
        assert_eq!(report.unchecked(&[ok(), ok(), ok(), withheld()]), None);
        assert_eq!(report.unchecked(&[loading(), loading(), loading(), ok()]), None);
        let told = report.unchecked(&[withheld(), ok(), ok(), ok()]);
        assert_eq!(told.as_deref(), Some("whether it is a master (ROLE)"));
        assert_eq!(report.unchecked(&[withheld(), withheld(), withheld(), ok()]), None);
    }
}
