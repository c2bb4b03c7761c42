//! What the store did not take while it was away, tried again once it may be back. Without that, where
//! leases hold, its keys would be taken until the retention ends.

use super::claim::{Claim, Terms, Token, Written};
use super::outcome::Outcome;
use super::protection::Protection;
use super::verdict::Released;
use crate::rules::OnLeaseExpired;
use crate::telemetry::RecordOp;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep};

/// How long the store is left alone before the first try, give or take a quarter; before each further
/// one twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Two minutes together.
const TRIES: u32 = 7;

/// What is tried again.
#[derive(Debug)]
pub(super) enum Amends {
    /// Takes back what may have been claimed for a request that was refused because the store's
    /// answers were lost. Nobody runs it.
    Withdraw(Claim),
    /// Gives an operation back.
    Release(Token, Released),
    /// Stores an outcome.
    Complete {
        token: Token,
        outcome: Outcome,
        retention: Duration,
        _room: Option<OwnedSemaphorePermit>,
    },
}

impl Protection {
    /// Tries until the store has answered, but not past the stop, and not if too many are tried.
    pub(super) fn make(self: &Arc<Self>, amends: Amends) {
        let Ok(place) = Arc::clone(&self.amends).try_acquire_owned() else { return };
        let (protection, stop) = (Arc::clone(self), self.stop.clone());
        let tries = async move {
            let _place = place;
            for n in 0..TRIES {
                // Not all of them at once.
                sleep((FIRST_PAUSE * 2_u32.pow(n)).mul_f64(0.75 + fastrand::f64() / 2.0)).await;
                if amends.are_made(&protection).await {
                    return;
                }
            }
        };
        self.tasks.spawn(async move { stop.run_until_cancelled(tries).await });
    }
}

impl Amends {
    async fn are_made(&self, protection: &Protection) -> bool {
        match self {
            Self::Withdraw(claim) => withdraw(protection, claim).await,
            Self::Release(token, reason) => release(protection, token, *reason).await,
            Self::Complete { token, outcome, retention, _room: _ } => {
                complete(protection, token, outcome, *retention).await
            }
        }
    }
}

/// The same owner is told its fence, without which nothing is released. What another attempt holds
/// stays as it is.
async fn withdraw(protection: &Protection, claim: &Claim) -> bool {
    let terms = Terms { on_lease_expired: OnLeaseExpired::Hold, ..claim.terms };
    let claim = Claim { terms, ..claim.clone() };
    let Ok(claimed) = protection.records.claim(&claim).await else { return false };
    let Some(fence) = claimed.fence() else { return true };
    release(protection, &claim.token(fence), Released::NotSent).await
}

/// Gives an operation back; whether the store has answered.
pub(super) async fn release(protection: &Protection, token: &Token, reason: Released) -> bool {
    let asked = Instant::now();
    let written = protection.records.release(token).await;
    let series = &protection.metrics.idempotency;
    series.store_took(RecordOp::Release, asked.elapsed());
    series.released(if written.is_ok() { reason.word() } else { "failed" });
    written.is_ok()
}

/// Stores an outcome; whether the store has answered.
pub(super) async fn complete(
    protection: &Protection,
    token: &Token,
    outcome: &Outcome,
    retention: Duration,
) -> bool {
    let asked = Instant::now();
    let written = protection.records.complete(token, outcome, retention).await;
    let series = &protection.metrics.idempotency;
    series.store_took(RecordOp::Complete, asked.elapsed());
    series.completed(written.map_or("failed", Written::word));
    if !matches!(written, Ok(Written::Done)) {
        tracing::debug!(?written, operation = token.operation.prefix(), "not completed");
    }
    written.is_ok()
}
