//! The use case: which requests are protected, and by whose claim.

use super::answer::{Answer, Problem};
use super::caller::Caller;
use super::claim::Written;
use super::fingerprint::{Begun, Content, split_query};
use super::head::{RequestHead, number, values};
use super::key::{self, InvalidKey};
use super::keyed::Keyed;
use super::operation::OperationId;
use super::records::Records;
use super::verdict::{NotKept, Released, Unknown};
use crate::clock::Clock;
use crate::rules::idempotency::{IdempotencyPolicy, IdempotentRoute, KeySpace, Target};
use crate::telemetry::{IdempotencyWords, Metrics, RequestOutcome};
use arc_swap::ArcSwapOption;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Protects requests from running twice, by the policy in force.
#[derive(Debug)]
pub struct Protection {
    policy: ArcSwapOption<IdempotencyPolicy>,
    pub(super) records: Arc<Records>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) clock: Arc<dyn Clock>,
    /// What goes on when a client is gone.
    pub(super) tasks: TaskTracker,
    /// What is made up for later ends with this.
    pub(super) stop: CancellationToken,
    in_flight: Arc<Semaphore>,
    /// As many may be tried again as may be under way.
    pub(super) amends: Arc<Semaphore>,
    /// Bytes of answers that may be collected at a time.
    pub(super) room: Arc<Semaphore>,
}

/// Process settings of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtectionOptions {
    /// Most requests with a key that are under way.
    pub max_in_flight: usize,
}

/// What becomes of a request, as far as its head tells.
#[derive(Debug)]
pub enum Begin {
    /// It is not protected.
    Pass,
    /// It does not go on.
    Answer(Answer),
    /// It has a key; its body is needed.
    Key(Box<Keyed>),
    /// No policy is in force: nobody can tell.
    NoPolicy,
}

/// A place among the requests under way.
#[derive(Debug)]
pub(super) struct InFlight {
    metrics: Arc<Metrics>,
    _permit: OwnedSemaphorePermit,
}

/// Answers that are collected at a time; what does not fit is not kept.
const ROOM: usize = 256 << 20;

impl Protection {
    /// One without a policy. `tasks` runs what goes on when a client is gone; what only mends
    /// something `stop` ends.
    pub fn new(
        records: Arc<Records>,
        metrics: Arc<Metrics>,
        clock: Arc<dyn Clock>,
        tasks: TaskTracker,
        stop: CancellationToken,
        options: ProtectionOptions,
    ) -> Self {
        metrics.idempotency.declare_words(&words());
        let max_in_flight = options.max_in_flight.min(Semaphore::MAX_PERMITS);
        Self {
            policy: ArcSwapOption::empty(),
            records,
            metrics,
            clock,
            tasks,
            stop,
            in_flight: Arc::new(Semaphore::new(max_in_flight)),
            amends: Arc::new(Semaphore::new(max_in_flight)),
            room: Arc::new(Semaphore::new(ROOM)),
        }
    }

    /// Puts a policy in force. Requests under way go on by theirs.
    pub fn install(&self, policy: IdempotencyPolicy) {
        for route in &policy.routes {
            self.metrics.idempotency.declare_route(&route.name);
        }
        self.policy.store(Some(Arc::new(policy)));
    }

    /// Whether a policy is in force.
    pub fn has_policy(&self) -> bool {
        self.policy.load().is_some()
    }

    /// What becomes of a request.
    pub fn begin(self: &Arc<Self>, head: &RequestHead) -> Begin {
        let Some(policy) = self.policy.load_full() else { return Begin::NoPolicy };
        let Some(route) = route(&policy, head) else { return Begin::Pass };
        let n_keys = keys(head, route).count();
        if n_keys == 0 && !route.key.required {
            return Begin::Pass;
        }
        match self.keyed(&policy.namespace, route, head) {
            Ok(keyed) => Begin::Key(Box::new(keyed)),
            Err(problem) => {
                self.metrics.idempotency.request(&route.name, problem.outcome());
                if route.shadow { Begin::Pass } else { Begin::Answer(problem.answer(jitter())) }
            }
        }
    }

    fn keyed(
        self: &Arc<Self>,
        namespace: &str,
        route: &Arc<IdempotentRoute>,
        head: &RequestHead,
    ) -> Result<Keyed, Problem> {
        let operation = operation(namespace, route, head)?;
        let most = route.fingerprint.max_request_body;
        let length = values(&head.headers, "content-length").next().and_then(number::<usize>);
        if length.is_some_and(|length| length > most) {
            return Err(Problem::RequestTooLarge(most));
        }
        let in_flight = self.enter().ok_or(Problem::StoreUnavailable)?;
        let method = String::from_utf8_lossy(head.pseudo(":method"));
        let content =
            Content { method: &method, path: head.pseudo(":path"), headers: &head.headers };
        let begun = Begun::of(&content, &route.fingerprint);
        Ok(Keyed::new(Arc::clone(self), Arc::clone(route), operation, begun, in_flight))
    }

    fn enter(&self) -> Option<InFlight> {
        let permit = Arc::clone(&self.in_flight).try_acquire_owned().ok()?;
        self.metrics.idempotency.began();
        Some(InFlight { metrics: Arc::clone(&self.metrics), _permit: permit })
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.metrics.idempotency.ended();
    }
}

impl Problem {
    /// How it is counted.
    pub(super) const fn outcome(&self) -> RequestOutcome {
        match self {
            Self::KeyMissing | Self::KeyInvalid(_) | Self::KeyUnscoped => {
                RequestOutcome::InvalidKey
            }
            Self::RequestTooLarge(_) => RequestOutcome::TooLarge,
            Self::RequestTooSlow => RequestOutcome::TooSlow,
            Self::KeyReused => RequestOutcome::Mismatch,
            Self::InProgress { .. } => RequestOutcome::InProgress,
            Self::OutcomeUnknown { .. } => RequestOutcome::OutcomeUnknown,
            Self::NotStored(_) => RequestOutcome::Tombstone,
            Self::Unverifiable => RequestOutcome::Unverifiable,
            Self::StoreUnavailable => RequestOutcome::StoreUnavailable,
        }
    }
}

/// The words of labels, so that their series are there before the first of each.
fn words() -> IdempotencyWords {
    let results = Written::ALL.map(Written::word).into_iter().chain(["failed"]);
    let releases = Released::ALL.map(Released::word).into_iter().chain(["failed"]);
    IdempotencyWords {
        results: results.collect(),
        releases: releases.collect(),
        unknown: Unknown::ALL.map(Unknown::word).into(),
        not_stored: NotKept::ALL.map(NotKept::word).into(),
    }
}

/// Spreads those who come again.
pub(super) fn jitter() -> f64 {
    fastrand::f64()
}

/// A connection that becomes something else has no answer that could be kept.
fn route<'a>(
    policy: &'a IdempotencyPolicy,
    head: &RequestHead,
) -> Option<&'a Arc<IdempotentRoute>> {
    let (path, _) = split_query(head.pseudo(":path"));
    let method = std::str::from_utf8(head.pseudo(":method")).ok()?;
    let is_upgrade = method == "CONNECT" || values(&head.headers, "upgrade").next().is_some();
    let path = String::from_utf8_lossy(path);
    let target = Target { method, path: &path, route_name: &head.route_name };
    policy.route(target).filter(|_| !is_upgrade)
}

fn keys<'a>(
    head: &'a RequestHead,
    route: &'a IdempotentRoute,
) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    route.key.headers.iter().flat_map(|name| values(&head.headers, name))
}

/// Who asks for what.
fn operation(
    namespace: &str,
    route: &IdempotentRoute,
    head: &RequestHead,
) -> Result<OperationId, Problem> {
    let mut keys = keys(head, route);
    let key = keys.next().ok_or(Problem::KeyMissing)?;
    let invalid = |error: InvalidKey| Problem::KeyInvalid(error.to_string());
    if keys.next().is_some() {
        return Err(invalid(InvalidKey::Several));
    }
    let caller = Caller::of(head, &route.scope).ok_or(Problem::KeyUnscoped)?;
    let key = key::read(key, caller.min_key_length(route.key.min_length)).map_err(invalid)?;
    let group = match route.scope.key_space {
        KeySpace::Principal => "*",
        KeySpace::Route => &route.name,
    };
    Ok(OperationId::of(namespace, &caller.tenant, &caller.principal, group, &key))
}

#[cfg(test)]
mod tests;
