//! An operation that runs: from its claim to its outcome, or to the doubt whether it ran.

use super::amends::{self, Amends};
use super::claim::{Attempt, Token, Written};
use super::head::{Headers, ResponseHead};
use super::outcome::{NotStored, Outcome, StoredAnswer};
use super::protection::{InFlight, Protection};
use super::verdict::{NotKept, Released, Unknown, Verdict, retention};
use crate::rules::idempotency::IdempotentRoute;
use crate::telemetry::RecordOp;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

/// An operation that runs. Dropped before its end, it is given back if it did not get to the
/// upstream, and else its outcome is unknown.
#[derive(Debug)]
pub struct Execution {
    protection: Arc<Protection>,
    route: Arc<IdempotentRoute>,
    token: Token,
    attempt: Attempt,
    phase: Phase,
    began: Instant,
    lease_ends: Instant,
    renew_at: Instant,
    _in_flight: InFlight,
}

/// What is wanted of the rest of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// All of it, piece by piece.
    Wanted,
    /// What follows the body.
    Trailers,
    /// Nothing: the operation is over.
    Unwanted,
}

/// What an answer of gRPC without messages consists of.
const GRPC_HEADERS: [&str; 2] = ["grpc-status", "grpc-message"];

#[derive(Debug)]
enum Phase {
    /// Nobody but us knows of the claim.
    Claimed,
    /// The upstream may have the request.
    Forwarded,
    /// The answer comes.
    Answering(Box<Collected>),
    /// The answer comes, and its trailers will say what it means.
    Trailing { status: u16, retention: Duration },
    /// There is an outcome, or it is known that none is known.
    Over,
}

/// An answer as far as it has come.
#[derive(Debug)]
struct Collected {
    answer: StoredAnswer,
    retention: Duration,
    location: Option<Vec<u8>>,
    room: Option<OwnedSemaphorePermit>,
}

impl Execution {
    pub(super) fn new(
        protection: Arc<Protection>,
        route: Arc<IdempotentRoute>,
        token: Token,
        attempt: Attempt,
        began: Instant,
        in_flight: InFlight,
    ) -> Self {
        let (lease_ends, renew_at) = (began + route.lease, began + route.renew_every());
        Self {
            protection,
            route,
            token,
            attempt,
            phase: Phase::Claimed,
            began,
            lease_ends,
            renew_at,
            _in_flight: in_flight,
        }
    }

    /// The headers that tell the upstream which attempt this is; none where we only observe.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        if self.route.shadow {
            return Vec::new();
        }
        let attempt = match self.attempt {
            Attempt::First => "first",
            Attempt::Takeover => "takeover",
        };
        vec![
            ("x-idempotency-fence", self.token.fence.to_string()),
            ("x-idempotency-attempt", attempt.to_owned()),
            ("x-idempotency-operation", self.token.operation.to_string()),
        ]
    }

    /// The request goes to the upstream, if it does not yet.
    pub fn forwarded(&mut self) {
        if matches!(self.phase, Phase::Claimed) {
            self.phase = Phase::Forwarded;
        }
    }

    /// Whether its outcome is stored, or it is known that none will be.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// Renews the claim for as long as it is waited for, which may end at any time.
    pub async fn keep(&mut self) -> Infallible {
        loop {
            let is_over = matches!(self.phase, Phase::Over);
            if is_over || self.renew_at >= self.began + self.route.max_execution {
                return std::future::pending().await;
            }
            sleep_until(self.renew_at).await;
            self.renew().await;
        }
    }

    async fn renew(&mut self) {
        let (lease, retention) = (self.route.lease, self.route.retention);
        let asked = Instant::now();
        let renewed = self.protection.records.renew(&self.token, lease, retention).await;
        let series = &self.protection.metrics.idempotency;
        series.store_took(RecordOp::Renew, asked.elapsed());
        series.renewed(renewed.map_or("failed", Written::word));
        match renewed {
            Ok(Written::Done) => {
                self.lease_ends = asked + lease;
                self.renew_at = asked + self.route.renew_every();
            }
            // It is lost. Only the upstream can tell by its fence.
            Ok(Written::Stale | Written::Already | Written::Missing) => {
                tracing::debug!(operation = self.token.operation.prefix(), "the claim is lost");
                self.renew_at = self.began + self.route.max_execution;
            }
            // An error may pass: until then the lease is as it was.
            Err(error) => {
                tracing::debug!(%error, operation = self.token.operation.prefix(), "not renewed");
                self.renew_at = Instant::now() + self.route.renew_every() / 3;
            }
        }
    }

    /// Takes the beginning of an answer. When this returns, what it decides is stored.
    pub async fn answered(&mut self, head: &ResponseHead) -> Rest {
        let verdict = Verdict::of(head, &self.route.response);
        tracing::debug!(
            operation = self.token.operation.prefix(),
            ?verdict,
            status = head.status(),
            details = head.details,
            flags = head.flags,
            n_attempts = head.n_attempts,
            "an answer begins"
        );
        let keep_for = retention(head, self.route.retention);
        match verdict {
            Verdict::Keep => {
                let collected = self.collected(head, keep_for);
                self.phase = Phase::Answering(Box::new(collected));
                if head.ends {
                    self.finish(&Headers::new()).await;
                    return Rest::Unwanted;
                }
                Rest::Wanted
            }
            Verdict::Later => {
                let status = head.status().unwrap_or_default();
                self.phase = Phase::Trailing { status, retention: keep_for };
                Rest::Trailers
            }
            Verdict::Note(_) | Verdict::Release(_) | Verdict::Unknown(_) => {
                let location = head.value("location").map(<[u8]>::to_vec);
                let status = head.status().unwrap_or_default();
                self.settle(verdict, NotStored { status, location }, keep_for).await;
                Rest::Unwanted
            }
        }
    }

    /// Ends it by a verdict that keeps no answer.
    async fn settle(&mut self, verdict: Verdict, told: NotStored, retention: Duration) {
        match verdict {
            Verdict::Note(reason) => self.note(told, reason, retention).await,
            Verdict::Release(reason) => self.release(reason).await,
            Verdict::Unknown(cause) => self.doubt(cause),
            Verdict::Keep | Verdict::Later => {}
        }
    }

    fn collected(&self, head: &ResponseHead, retention: Duration) -> Collected {
        let is_kept = |name: &str| {
            GRPC_HEADERS.contains(&name)
                || self.route.response.headers.iter().any(|kept| **kept == *name)
                    && !head.is_of_connection(name)
        };
        let headers = head.headers.iter().filter(|(name, _)| is_kept(name));
        let headers = headers.map(|(name, value)| (name.as_str().into(), value.clone()));
        let answer = StoredAnswer {
            status: head.status().unwrap_or_default(),
            headers: headers.collect(),
            body: Vec::new(),
            date: self.protection.clock.now(),
        };
        let location = head.value("location").map(<[u8]>::to_vec);
        Collected { answer, retention, location, room: None }
    }

    /// Takes a piece of the answer's body. When this returns for what ends it, the outcome is stored.
    pub async fn piece(&mut self, bytes: &[u8], ends: bool) {
        let max_body = self.route.response.max_body;
        let Phase::Answering(collected) = &mut self.phase else { return };
        if !collected.add(bytes, max_body, &self.protection.room) {
            let told =
                NotStored { status: collected.answer.status, location: collected.location.take() };
            let retention = collected.retention;
            self.note(told, NotKept::Size, retention).await;
        } else if ends {
            self.finish(&Headers::new()).await;
        }
    }

    /// The answer is whole, and these are its trailers. When this returns, its outcome is stored.
    pub async fn finish(&mut self, trailers: &Headers) {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Answering(collected) => {
                let Collected { answer, retention, room, .. } = *collected;
                self.protection.metrics.idempotency.stored(answer.body.len());
                self.complete(Outcome::Stored(Arc::new(answer)), retention, room).await;
            }
            Phase::Trailing { status, retention } => {
                let verdict = Verdict::of_trailers(trailers, &self.route.response);
                self.settle(verdict, NotStored { status, location: None }, retention).await;
            }
            phase @ (Phase::Claimed | Phase::Forwarded | Phase::Over) => self.phase = phase,
        }
    }

    async fn note(&mut self, told: NotStored, reason: NotKept, retention: Duration) {
        self.protection.metrics.idempotency.not_stored(reason.word());
        self.complete(Outcome::NotStored(told), retention, None).await;
    }

    /// Stores an outcome, also if nobody waits for it any longer, and later if need be.
    async fn complete(
        &mut self,
        outcome: Outcome,
        retention: Duration,
        room: Option<OwnedSemaphorePermit>,
    ) {
        self.end();
        let (protection, token) = (Arc::clone(&self.protection), self.token);
        let storing = async move {
            if !amends::complete(&protection, &token, &outcome, retention).await {
                protection.make(Amends::Complete { token, outcome, retention, _room: room });
            }
        };
        // Only a panic ends it early, and then the claim ends with its lease.
        let _ = self.protection.tasks.spawn(storing).await;
    }

    /// Its outcome is known.
    fn end(&mut self) {
        self.phase = Phase::Over;
        let lease_left = self.lease_ends.saturating_duration_since(Instant::now());
        self.protection.metrics.idempotency.executed(self.began.elapsed(), lease_left);
    }

    async fn release(&mut self, reason: Released) {
        self.end();
        let releasing = release(Arc::clone(&self.protection), self.token, reason);
        let _ = self.protection.tasks.spawn(releasing).await;
    }

    /// Nobody will say what became of it. The lease runs out, and the policy decides.
    pub fn abandon(&mut self, cause: Unknown) {
        match self.phase {
            Phase::Claimed | Phase::Over => {}
            Phase::Answering(_) | Phase::Trailing { .. } if cause == Unknown::ClientReset => {
                self.doubt(Unknown::UpstreamReset);
            }
            Phase::Forwarded | Phase::Answering(_) | Phase::Trailing { .. } => self.doubt(cause),
        }
    }

    fn doubt(&mut self, cause: Unknown) {
        self.phase = Phase::Over;
        self.protection.metrics.idempotency.unknown(cause.word());
        let operation = self.token.operation.prefix();
        tracing::debug!(operation, cause = cause.word(), "the outcome is unknown");
    }
}

impl Collected {
    /// Whether there was room for more.
    fn add(&mut self, bytes: &[u8], most: usize, room: &Arc<Semaphore>) -> bool {
        if self.answer.body.len().saturating_add(bytes.len()) > most {
            return false;
        }
        let Ok(n_bytes) = u32::try_from(bytes.len()) else { return false };
        let Ok(permit) = Arc::clone(room).try_acquire_many_owned(n_bytes) else { return false };
        match &mut self.room {
            Some(held) => held.merge(permit),
            None => self.room = Some(permit),
        }
        self.answer.body.extend_from_slice(bytes);
        true
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        let is_free = matches!(self.phase, Phase::Claimed);
        if let (true, Ok(runtime)) = (is_free, Handle::try_current()) {
            let releasing = release(Arc::clone(&self.protection), self.token, Released::NotSent);
            self.protection.tasks.spawn_on(releasing, &runtime);
        }
        let is_defect = std::thread::panicking();
        self.abandon(if is_defect { Unknown::Failed } else { Unknown::ClientReset });
    }
}

/// Gives an operation back, later if need be.
async fn release(protection: Arc<Protection>, token: Token, reason: Released) {
    if !amends::release(&protection, &token, reason).await {
        protection.make(Amends::Release(token, reason));
    }
}
