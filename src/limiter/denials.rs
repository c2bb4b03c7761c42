//! Refusals in the log: so many a second at most, with their rule and nothing of the request.

use super::{Code, Limiter, Response, Status};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::Instant;

/// Lets so many refusals a second into the log.
#[derive(Debug)]
pub struct DenialLog {
    per_second: u32,
    made: Instant,
    /// The second since then, and above it how many lines it has had.
    turn: AtomicU64,
    /// Refusals since the last line that had none.
    unlogged: AtomicU64,
}

impl DenialLog {
    /// At most so many lines a second; 0: none.
    pub fn new(per_second: u32) -> Self {
        let made = Instant::now();
        Self { per_second, made, turn: AtomicU64::new(0), unlogged: AtomicU64::new(0) }
    }

    /// How many refusals had no line since the last one, if this one is to have one.
    fn admits(&self) -> Option<u64> {
        if self.per_second == 0 {
            return None;
        }
        let second = self.made.elapsed().as_secs() & u64::from(u32::MAX);
        let next = |turn: u64| match (turn & u64::from(u32::MAX) == second, turn >> 32) {
            (false, _) => Some(second | 1 << 32),
            (true, n) => (n < u64::from(self.per_second)).then(|| second | (n + 1) << 32),
        };
        if self.turn.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok() {
            return Some(self.unlogged.swap(0, Ordering::Relaxed));
        }
        self.unlogged.fetch_add(1, Ordering::Relaxed);
        None
    }
}

impl Limiter {
    /// Says in the log which rule refuses a request, if it is its turn.
    pub(super) fn log_denial(&self, domain: &str, response: &Response) {
        if response.code == Code::Ok {
            return;
        }
        let Some(unlogged) = self.denial_log.admits() else { return };
        let refused = response.statuses.iter().filter(|status| status.code == Code::OverLimit);
        let Some(status) = refused.max_by_key(|status| status.reset_seconds) else { return };
        let (rule, at) = rule_of(response, status);
        let limit = status.limit.as_ref();
        let requests = limit.map(|limit| limit.requests);
        let unit = limit.map(|limit| limit.unit.name());
        let retry_after = status.reset_seconds;
        tracing::info!(domain, rule, at, requests, unit, retry_after, unlogged, "request denied");
    }
}

/// A rule's path and place; of a limit that the request brought along neither says anything of it.
fn rule_of<'a>(response: &'a Response, status: &Status) -> (&'a str, Option<String>) {
    match response.rule(status) {
        Some(rule) => (&rule.path, Some(format!("{}:{}", rule.source.file, rule.source.line))),
        None => ("override", None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn so_many_lines_a_second_and_the_next_says_how_many_had_none() {
        let log = DenialLog::new(2);
        let lines = |n: usize| (0..n).filter_map(|_| log.admits()).collect::<Vec<_>>();
        assert_eq!(lines(5), [0, 0]);
        advance(Duration::from_secs(1)).await;
        assert_eq!(lines(1), [3]);
        advance(Duration::from_secs(5)).await;
        assert_eq!(lines(3), [0, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn none_is_logged_unless_asked_for() {
        assert_eq!(DenialLog::new(0).admits(), None);
    }
}
