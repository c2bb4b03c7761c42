//! Looking at and resetting the buckets of a descriptor, for the admin port.

use super::charges::Charges;
use super::plan::Plan;
use super::{Descriptor, Limiter, Request};
use crate::algorithm::{Charge, Decision, Limit};
use crate::clock::Micros;
use crate::rules::Entry;
use crate::store::{Batch, BatchItem, StoreError};
use smallvec::smallvec;

/// One bucket as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketView {
    /// Its name in the store.
    pub key: String,
    /// What it is measured against now.
    pub limit: Limit,
    /// Whether the store knows it; if not it is as if unused.
    pub exists: bool,
    /// Hits that count against the limit, at most its capacity save for fixed windows.
    pub used: u64,
    /// Hits that would be admitted now.
    pub remaining: u64,
    /// How long until it is as if unused.
    pub reset: Micros,
}

impl Limiter {
    /// The buckets that a descriptor with these entries charges, in the order of its limits; none
    /// if nothing limits it.
    pub async fn inspect(
        &self,
        domain: &str,
        entries: &[Entry<'_>],
    ) -> Result<Vec<BucketView>, StoreError> {
        self.views(&self.buckets(domain, entries)).await
    }

    /// Forgets the buckets that [`Self::inspect`] shows, and says how they stood.
    pub async fn reset(
        &self,
        domain: &str,
        entries: &[Entry<'_>],
    ) -> Result<Vec<BucketView>, StoreError> {
        let batch = self.buckets(domain, entries);
        let views = self.views(&batch).await?;
        for item in &batch.items {
            self.store.reset(&batch, item).await?;
            if let Some(stand_in) = &self.stand_in {
                stand_in.refusals.refunded(batch.key(item), stand_in.now());
            }
        }
        Ok(views)
    }

    async fn views(&self, batch: &Batch) -> Result<Vec<BucketView>, StoreError> {
        let mut views = Vec::with_capacity(batch.items.len());
        for item in &batch.items {
            views.push(BucketView::of(batch, item, self.store.inspect(batch, item).await?));
        }
        Ok(views)
    }

    /// A batch with an item for each limit of a descriptor.
    fn buckets(&self, domain: &str, entries: &[Entry<'_>]) -> Batch {
        let descriptor =
            Descriptor { entries: entries.into(), charge: Charge::Peek, limit_override: None };
        let request = Request { domain, descriptors: smallvec![descriptor] };
        let batch = self.policies().and_then(|policies| {
            let found = policies.rules.domains.get(domain)?;
            let mut plan = Plan::default();
            plan.fill(&policies.rules, found, &request).ok()?;
            Some(Charges::of(found, &request, &plan, self.options, true).batch)
        });
        batch.unwrap_or_default()
    }
}

impl BucketView {
    fn of(batch: &Batch, item: &BatchItem, found: Option<Decision>) -> Self {
        Self {
            key: batch.key(item).to_owned(),
            limit: item.limit,
            exists: found.is_some(),
            used: found.map_or(0, |decision| decision.after),
            remaining: found.map_or(item.limit.capacity(), |decision| decision.remaining),
            reset: found.map_or(Micros(0), |decision| decision.reset),
        }
    }
}
