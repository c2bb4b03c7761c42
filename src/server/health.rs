//! Whether this server can answer every rule: over gRPC, and for `/healthcheck` and `/readyz`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Semaphore;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health as HealthService, HealthServer};
use tonic_health::server::{HealthReporter, health_reporter};

/// Names that callers ask about: the server as a whole, and the one that envoyproxy/ratelimit has.
const SERVICES: [&str; 2] = ["", "ratelimit"];

/// Readiness.
#[derive(Debug)]
pub(super) struct Health {
    reporter: HealthReporter,
    ready_without_domains: bool,
    has_rules: AtomicBool,
    store_can_answer: AtomicBool,
    filter_can_answer: AtomicBool,
    draining: AtomicBool,
    /// One permit, so that no older report overwrites a newer one.
    reporting: Semaphore,
}

impl Health {
    /// Not ready yet.
    pub(super) async fn new(
        ready_without_domains: bool,
        store_can_answer: bool,
    ) -> (Arc<Self>, HealthServer<impl HealthService>) {
        let (reporter, service) = health_reporter();
        let health = Self {
            reporter,
            ready_without_domains,
            has_rules: AtomicBool::new(false),
            store_can_answer: AtomicBool::new(store_can_answer),
            filter_can_answer: AtomicBool::new(true),
            draining: AtomicBool::new(false),
            reporting: Semaphore::new(1),
        };
        health.report().await;
        (Arc::new(health), service)
    }

    /// Whether requests should be sent here.
    pub(super) fn is_ready(&self) -> bool {
        self.has_rules.load(Ordering::Relaxed)
            && self.store_can_answer.load(Ordering::Relaxed)
            && self.filter_can_answer.load(Ordering::Relaxed)
            && !self.draining.load(Ordering::Relaxed)
    }

    /// Whether the store, or else the policies for its failure, can answer every rule.
    pub(super) async fn store_can_answer(&self, can: bool) {
        if self.store_can_answer.swap(can, Ordering::Relaxed) != can {
            self.report().await;
        }
    }

    /// Whether the idempotency filter, if there is one, has a policy.
    pub(super) async fn filter_can_answer(&self, can: bool) {
        if self.filter_can_answer.swap(can, Ordering::Relaxed) != can {
            self.report().await;
        }
    }

    /// Whether policies without any domain are enough.
    pub(super) fn needs_no_domains(&self) -> bool {
        self.ready_without_domains
    }

    /// Policies are in force, if only those that there are none of.
    pub(super) async fn installed(&self, has_domains: bool) {
        let enough = has_domains || self.ready_without_domains;
        if self.has_rules.swap(enough, Ordering::Relaxed) != enough {
            self.report().await;
        }
    }

    /// From now on, never ready again.
    pub(super) async fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.report().await;
    }

    /// Ends the streams of those who watch: they would keep their connections open.
    pub(super) async fn end(&self) {
        for service in SERVICES {
            self.reporter.clone().clear_service_status(service).await;
        }
    }

    async fn report(&self) {
        let _one_at_a_time = self.reporting.acquire().await;
        let status =
            if self.is_ready() { ServingStatus::Serving } else { ServingStatus::NotServing };
        for service in SERVICES {
            self.reporter.set_service_status(service, status).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ready_from_the_first_domain_until_drained() {
        let (health, _service) = Health::new(false, true).await;
        assert!(!health.is_ready());
        health.installed(false).await;
        assert!(!health.is_ready());
        health.installed(true).await;
        assert!(health.is_ready());
        health.drain().await;
        assert!(!health.is_ready());
        health.installed(true).await;
        assert!(!health.is_ready());
    }

    #[tokio::test]
    async fn not_ready_any_more_when_the_last_domain_goes_and_one_is_needed() {
        let (health, _service) = Health::new(false, true).await;
        health.installed(true).await;
        health.installed(false).await;
        assert!(!health.is_ready());
    }

    #[tokio::test]
    async fn ready_without_domains_if_none_are_needed_but_not_before_a_load() {
        let (health, _service) = Health::new(true, true).await;
        assert!(!health.is_ready());
        health.installed(false).await;
        assert!(health.is_ready());
    }

    #[tokio::test]
    async fn ready_only_while_the_store_can_answer() {
        let (health, _service) = Health::new(true, false).await;
        health.installed(false).await;
        assert!(!health.is_ready());
        health.store_can_answer(true).await;
        assert!(health.is_ready());
        health.store_can_answer(false).await;
        assert!(!health.is_ready());
    }
}
