//! Runs scripts that are not about rate limits: each on one key, by itself, with a deadline.
//!
//! Such calls have nothing to share, so they do not queue in lanes: they go side by side over the
//! connections that lanes keep open, and what they meet counts for the same breaker.

use super::config::RedisServers;
use super::exchange::redirect;
use super::fault::Misconfigured;
use super::fleet::{Calls, Fleet, MAX_REDIRECTS, Redirect};
use super::health::RedisState;
use super::link::{Link, meaning};
use super::node::Node;
use super::pending::InFlight;
use super::script::{Script, Scripts};
use super::slots::slot;
use crate::store::StoreError;
use crate::telemetry::{StoreOp, StoreSeries};
use redis::{Cmd, Pipeline, ServerError, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// Where scripts run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerConfig {
    /// The Redis.
    pub servers: RedisServers,
    /// Most calls under way; more are refused at once.
    pub max_in_flight: usize,
    /// Stands before every key.
    pub key_prefix: Box<str>,
}

/// Runs scripts in one Redis.
#[derive(Debug)]
pub struct ScriptRunner {
    fleet: Arc<Fleet>,
    in_flight: Arc<InFlight>,
    /// Closes all connections when this is dropped.
    _stop: DropGuard,
}

/// One call of a script.
#[derive(Clone, Copy, Debug)]
pub struct Run<'r> {
    /// For metrics.
    pub op: StoreOp,
    /// The script.
    pub script: &'r Script,
    /// The only key that it touches, without what stands before every key.
    pub key: &'r str,
    /// Its arguments.
    pub arguments: &'r [&'r [u8]],
}

/// A call on its way.
struct Sending<'r> {
    run: &'r Run<'r>,
    key: String,
    deadline: Instant,
}

/// What a server made of a call.
enum Answer {
    Value(Value),
    Redirected(Redirect),
}

impl ScriptRunner {
    /// Starts to connect, in tasks that `tasks` tracks and `stop` ends. Fails only for settings
    /// that cannot be right; a Redis that is not there yet is waited for.
    pub fn start(
        config: RunnerConfig,
        series: &Arc<StoreSeries>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Result<Self, Misconfigured> {
        let stop = stop.child_token();
        let calls = Calls {
            scripts: Arc::new(Scripts::new()),
            coalesce: false,
            key_prefix: config.key_prefix,
            expiry_jitter: Duration::ZERO,
            series: Arc::clone(series),
        };
        Ok(Self {
            fleet: Fleet::start(config.servers, calls, tasks, stop.clone())?,
            in_flight: InFlight::new(config.max_in_flight),
            _stop: stop.drop_guard(),
        })
    }

    /// What a script answers. A call without an answer is given up at the deadline, never sent
    /// again: whoever asked knows whether that is right.
    pub async fn run(&self, run: &Run<'_>, deadline: Instant) -> Result<Value, StoreError> {
        let key = format!("{}{}", self.fleet.calls.key_prefix, run.key);
        let sending = Sending { run, key, deadline };
        let Some(_ticket) = self.in_flight.enter() else {
            return Err(self.nowhere(StoreError::Overloaded));
        };
        self.follow(&sending).await
    }

    /// What is known of the Redis.
    pub fn state(&self) -> RedisState {
        self.fleet.health.state()
    }

    /// Whether any server can be talked to.
    pub fn is_reachable(&self) -> bool {
        self.fleet.is_reachable()
    }

    /// Whether any server says that it evicts keys when its memory is full.
    pub fn evicts(&self) -> bool {
        self.fleet.nodes().iter().any(|node| node.state.evicts())
    }

    /// Asks the server of the key, or the one that it names.
    async fn follow(&self, sending: &Sending<'_>) -> Result<Value, StoreError> {
        let mut redirect = None;
        for _ in 0..=MAX_REDIRECTS {
            let (node, asking) = match &redirect {
                None | Some(Redirect::TryAgain) => (self.home(&sending.key)?, false),
                Some(Redirect::Moved(address)) => (self.fleet.node(address), false),
                Some(Redirect::Ask(address)) => (self.fleet.node(address), true),
            };
            match self.ask(&node, sending, asking).await? {
                Answer::Value(value) => return Ok(value),
                Answer::Redirected(to) => redirect = Some(to),
            }
            self.fleet.doubt();
        }
        Err(self.nowhere(StoreError::ClusterDown))
    }

    fn home(&self, key: &str) -> Result<Arc<Node>, StoreError> {
        let slot = if self.fleet.is_clustered() { slot(key) } else { 0 };
        self.fleet.node_of(slot).map_err(|error| self.nowhere(error))
    }

    async fn ask(
        &self,
        node: &Node,
        sending: &Sending<'_>,
        asking: bool,
    ) -> Result<Answer, StoreError> {
        let state = &node.state;
        let refuse = |error: StoreError| {
            state.series.not_decided(error.reason(), 1);
            error
        };
        if state.breaker.is_open() {
            return Err(refuse(StoreError::BreakerOpen));
        }
        let link = timeout_at(sending.deadline, state.linked()).await;
        let link = link.map_err(|_| refuse(StoreError::Unreachable))?;
        let sent = Instant::now();
        let answer = sending.exchange(&link, asking).await;
        let answer = answer.and_then(|value| read(value, node));
        let (error, waited) = (answer.as_ref().err().copied(), sent.elapsed());
        state.series.calls.inc();
        state.series.answered(sending.run.op, waited);
        if let Some(error) = error {
            state.heed(&self.fleet, &link, error);
        }
        state.weigh(&link, error, sent);
        answer.map_err(refuse)
    }

    /// Counts a call that no server was asked for.
    fn nowhere(&self, error: StoreError) -> StoreError {
        self.fleet.calls.series.not_decided("", error.reason(), 1);
        error
    }
}

impl Sending<'_> {
    /// One answer. A server that does not know the script has run nothing, and is sent it.
    async fn exchange(&self, link: &Link, asking: bool) -> Result<Value, StoreError> {
        let script = self.run.script;
        let answer = self.send(link, asking, "EVALSHA", &script.sha).await?;
        let unknown = |error: &ServerError| error.code() == "NOSCRIPT";
        if matches!(&answer, Value::ServerError(error) if unknown(error)) {
            return self.send(link, asking, "EVAL", &script.source).await;
        }
        Ok(answer)
    }

    async fn send(
        &self,
        link: &Link,
        asking: bool,
        command: &str,
        script: &str,
    ) -> Result<Value, StoreError> {
        let mut commands = Pipeline::with_capacity(2);
        if asking {
            commands.cmd("ASKING");
        }
        commands.add_command(self.command(command, script));
        let patience = self.deadline.saturating_duration_since(Instant::now());
        let answers = link.ask(&commands, patience).await?;
        answers.into_iter().next_back().ok_or(StoreError::Unintelligible)
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let arguments = self.run.arguments;
        let n_bytes: usize = arguments.iter().map(|argument| argument.len()).sum();
        let n_bytes = n_bytes + script.len() + self.key.len() + 32;
        let mut command = Cmd::with_capacity(arguments.len() + 4, n_bytes);
        command.arg(name).arg(script).arg(1).arg(&self.key).arg(arguments);
        command
    }
}

/// What an answer means.
fn read(value: Value, node: &Node) -> Result<Answer, StoreError> {
    let Value::ServerError(error) = value else { return Ok(Answer::Value(value)) };
    match redirect(&error, &node.state.address) {
        Some(to) => Ok(Answer::Redirected(to)),
        None => Err(meaning(&error)),
    }
}
