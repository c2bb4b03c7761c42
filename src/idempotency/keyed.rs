//! A request with a key: claims its operation once its body is there.

use super::amends::Amends;
use super::answer::{Answer, Problem};
use super::claim::{Attempt, Claim, Claimed, Terms};
use super::error::RecordsError;
use super::execution::Execution;
use super::fingerprint::Begun;
use super::operation::{Fence, OperationId, Owner};
use super::protection::{InFlight, Protection, jitter};
use crate::rules::idempotency::{IdempotentRoute, StoreFailure};
use crate::telemetry::{RecordOp, RequestOutcome};
use std::sync::Arc;
use tokio::time::Instant;

/// A request with a key whose body is still to come.
#[derive(Debug)]
pub struct Keyed {
    protection: Arc<Protection>,
    route: Arc<IdempotentRoute>,
    operation: OperationId,
    begun: Begun,
    in_flight: InFlight,
}

/// What becomes of it.
#[derive(Debug)]
pub enum Next {
    /// It goes to the upstream.
    Forward(Box<Execution>),
    /// It does not.
    Answer(Answer),
    /// It goes to the upstream, unprotected.
    Pass,
}

impl Keyed {
    pub(super) fn new(
        protection: Arc<Protection>,
        route: Arc<IdempotentRoute>,
        operation: OperationId,
        begun: Begun,
        in_flight: InFlight,
    ) -> Self {
        Self { protection, route, operation, begun, in_flight }
    }

    /// Its body has not come in time: nothing is claimed.
    pub fn give_up(&self) -> Next {
        self.refuse(&Problem::RequestTooSlow)
    }

    /// It ended before its body was there.
    pub fn unfinished(&self) {
        self.count(RequestOutcome::Unfinished);
    }

    /// Claims the operation. The claim goes on if nobody waits for it any longer, and is given back
    /// if it then succeeds.
    pub async fn claim(self, body: Vec<u8>) -> Next {
        let most = self.route.fingerprint.max_request_body;
        if body.len() > most {
            return self.refuse(&Problem::RequestTooLarge(most));
        }
        let Ok(owner) = Owner::random() else { return self.unavailable() };
        let claim = Claim {
            operation: self.operation,
            owner,
            fingerprint: self.begun.clone().with_body(&body),
            terms: Terms {
                lease: self.route.lease,
                retention: self.route.retention,
                on_lease_expired: self.route.on_lease_expired,
            },
        };
        drop(body); // It would be held for as long as the store is waited for.
        let (tasks, only_observes) = (self.protection.tasks.clone(), self.route.shadow);
        match tasks.spawn(self.ask(claim)).await {
            Ok(next) => next,
            // It panicked, and may have claimed: the request does not run.
            Err(_) if only_observes => Next::Pass,
            Err(_) => Next::Answer(Problem::StoreUnavailable.answer(jitter())),
        }
    }

    async fn ask(self, claim: Claim) -> Next {
        let began = Instant::now();
        let claimed = self.protection.records.claim(&claim).await;
        self.protection.metrics.idempotency.store_took(RecordOp::Claim, began.elapsed());
        match claimed {
            Ok(Claimed::First { fence }) => self.run(&claim, fence, Attempt::First, began),
            Ok(Claimed::TakenOver { fence }) => self.run(&claim, fence, Attempt::Takeover, began),
            Ok(Claimed::Completed { answer, age }) => {
                self.protection.metrics.idempotency.replayed(age);
                self.answer(RequestOutcome::Replayed, || Answer::replay(&answer))
            }
            Ok(Claimed::InProgress { lease_left }) => {
                // By the clock of a master that is behind the one before it, it may be any time.
                let lease_left = lease_left.min(self.route.lease);
                self.refuse(&Problem::InProgress { lease_left })
            }
            Ok(Claimed::Unknown { since }) => self.refuse(&Problem::OutcomeUnknown { since }),
            Ok(Claimed::NotStored(told)) => self.refuse(&Problem::NotStored(told)),
            Ok(Claimed::Mismatch) => self.refuse(&Problem::KeyReused),
            Ok(Claimed::Unverifiable) => self.refuse(&Problem::Unverifiable),
            Err(error) => self.failed(error, claim),
        }
    }

    fn run(self, claim: &Claim, fence: Fence, attempt: Attempt, began: Instant) -> Next {
        self.count(match attempt {
            Attempt::First => RequestOutcome::Claimed,
            Attempt::Takeover => RequestOutcome::Takeover,
        });
        let Self { protection, route, in_flight, .. } = self;
        let token = claim.token(fence);
        Next::Forward(Box::new(Execution::new(protection, route, token, attempt, began, in_flight)))
    }

    fn failed(&self, error: RecordsError, claim: Claim) -> Next {
        tracing::debug!(%error, operation = self.operation.prefix(), "not claimed");
        let next = self.unavailable();
        if matches!(next, Next::Answer(_)) && error.may_be_lost() {
            self.protection.make(Amends::Withdraw(claim));
        }
        next
    }

    /// Nobody can say whether it ran.
    fn unavailable(&self) -> Next {
        match self.route.store_failure {
            StoreFailure::Closed => self.refuse(&Problem::StoreUnavailable),
            StoreFailure::Open => {
                self.count(RequestOutcome::Bypass);
                Next::Pass
            }
        }
    }

    fn refuse(&self, problem: &Problem) -> Next {
        self.answer(problem.outcome(), || problem.answer(jitter()))
    }

    fn answer(&self, outcome: RequestOutcome, answer: impl FnOnce() -> Answer) -> Next {
        self.count(outcome);
        if self.route.shadow { Next::Pass } else { Next::Answer(answer()) }
    }

    fn count(&self, outcome: RequestOutcome) {
        self.protection.metrics.idempotency.request(&self.route.name, outcome);
    }
}
