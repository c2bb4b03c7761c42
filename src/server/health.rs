//! Whether this server can answer every rule: over gRPC, and for `/healthcheck` and `/readyz`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    has_domains: AtomicBool,
    draining: AtomicBool,
}

impl Health {
    /// Not ready yet, unless no domain is needed.
    pub(super) async fn new(
        ready_without_domains: bool,
    ) -> (Arc<Self>, HealthServer<impl HealthService>) {
        let (reporter, service) = health_reporter();
        let health = Self {
            reporter,
            ready_without_domains,
            has_domains: AtomicBool::new(false),
            draining: AtomicBool::new(false),
        };
        health.report().await;
        (Arc::new(health), service)
    }

    /// Whether requests should be sent here.
    pub(super) fn is_ready(&self) -> bool {
        let has_rules = self.ready_without_domains || self.has_domains.load(Ordering::Relaxed);
        has_rules && !self.draining.load(Ordering::Relaxed)
    }

    /// At least one domain is in force; it stays so.
    pub(super) async fn domains_loaded(&self) {
        if !self.has_domains.swap(true, Ordering::Relaxed) {
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
        let (health, _service) = Health::new(false).await;
        assert!(!health.is_ready());
        health.domains_loaded().await;
        assert!(health.is_ready());
        health.drain().await;
        assert!(!health.is_ready());
        health.domains_loaded().await;
        assert!(!health.is_ready());
    }

    #[tokio::test]
    async fn ready_without_domains_if_none_are_needed() {
        let (health, _service) = Health::new(true).await;
        assert!(health.is_ready());
    }
}
