//! Takes back what may have been claimed for a request that was refused because the store's answers
//! were lost. Nobody runs it, and where leases hold its key would be taken until the retention ends.

use super::claim::Claim;
use super::execution::release;
use super::protection::Protection;
use super::verdict::Released;
use crate::rules::OnLeaseExpired;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// How long the store is left alone before the first try; before each further one twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Two minutes together.
const TRIES: u32 = 7;

impl Protection {
    /// Takes a claim back, once the store can be asked again.
    pub(super) fn withdraw(self: &Arc<Self>, claim: Claim) {
        let (protection, stop) = (Arc::clone(self), self.stop.clone());
        let withdrawal = async move { stop.run_until_cancelled(protection.take_back(claim)).await };
        self.tasks.spawn(withdrawal);
    }

    async fn take_back(self: Arc<Self>, mut claim: Claim) {
        // What another attempt holds stays as it is.
        claim.terms.on_lease_expired = OnLeaseExpired::Hold;
        for n in 0..TRIES {
            sleep(FIRST_PAUSE * 2_u32.pow(n)).await;
            // The same owner is told its fence, without which nothing is released.
            let Ok(claimed) = self.records.claim(&claim).await else { continue };
            let Some(fence) = claimed.fence() else { return };
            if release(Arc::clone(&self), claim.token(fence), Released::NotSent).await {
                return;
            }
        }
        tracing::debug!(operation = claim.operation.prefix(), "a claim is not taken back");
    }
}
