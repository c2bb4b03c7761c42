//! What is served over HTTP: health, metrics, and rate-limit requests as JSON.

use super::health::Health;
use crate::envoy::{self, RateLimit};
use crate::idempotency::Records;
use crate::limiter::Limiter;
use crate::store::Store;
use crate::telemetry::{CONTENT_TYPE, LimiterFacts, Metrics, StoreFacts};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use http::{StatusCode, header};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Longest body of a JSON request: a thousand descriptors, and decoded in milliseconds.
const MAX_BODY: usize = 256 << 10;

/// How long a body may take.
const BODY: Duration = Duration::from_secs(10);

/// How many scrapes run at once; others wait.
const MAX_SCRAPES: usize = 2;

/// How long they wait.
const SCRAPE_TURN: Duration = Duration::from_secs(10);

/// What the handlers answer from.
#[derive(Clone, Debug)]
pub(super) struct Http {
    pub(super) rate_limit: Arc<RateLimit>,
    pub(super) health: Arc<Health>,
    pub(super) scrapes: Scrapes,
}

/// Metrics, for whoever scrapes.
#[derive(Clone, Debug)]
pub(super) struct Scrapes {
    metrics: Arc<Metrics>,
    limiter: Arc<Limiter>,
    records: Option<Arc<Records>>,
    permits: Arc<Semaphore>,
}

impl Http {
    /// The HTTP port's routes.
    pub(super) fn router(self, json: bool) -> Router {
        let scrapes = self.scrapes.clone().router("/metrics");
        let mut router = Router::new()
            .route("/healthcheck", any(readiness))
            .route("/readyz", get(readiness))
            .route("/livez", get(async || "OK"));
        if json {
            router = router.route("/json", post(answer_json));
        }
        router.layer(DefaultBodyLimit::max(MAX_BODY)).with_state(self).merge(scrapes)
    }
}

impl Scrapes {
    pub(super) fn new(
        metrics: Arc<Metrics>,
        limiter: Arc<Limiter>,
        records: Option<Arc<Records>>,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(MAX_SCRAPES));
        Self { metrics, limiter, records, permits }
    }

    /// Routes with the metrics at `path`.
    pub(super) fn router(self, path: &str) -> Router {
        Router::new().route(path, get(scrape)).with_state(self)
    }

    fn render(&self) -> String {
        let hottest = self.limiter.hottest(1);
        self.metrics.limiter_observed(LimiterFacts {
            in_shadow: self.limiter.is_in_shadow(),
            hottest_bucket: hottest.buckets.first().map_or(0.0, |(_, share)| *share),
            hottest_slot: hottest.slots.first().map_or(0.0, |(_, share)| *share),
        });
        if let Store::Memory(memory) = self.limiter.store() {
            self.metrics.store_observed(StoreFacts {
                live_buckets: u64::try_from(memory.live_buckets()).unwrap_or(u64::MAX),
                evictions: memory.evictions(),
            });
        }
        if let Some((n, n_bytes)) = self.records.as_ref().and_then(|all| all.in_memory_now()) {
            self.metrics.records_observed(n, n_bytes);
        }
        self.metrics.render()
    }
}

/// 200 or 500, as envoyproxy/ratelimit answers.
async fn readiness(State(http): State<Http>) -> (StatusCode, &'static str) {
    if http.health.is_ready() {
        (StatusCode::OK, "OK")
    } else {
        (StatusCode::INTERNAL_SERVER_ERROR, "")
    }
}

async fn answer_json(State(http): State<Http>, request: Request) -> Response {
    match timeout(BODY, Bytes::from_request(request, &())).await {
        Ok(Ok(body)) => envoy::answer(&http.rate_limit, &body).await.map(Body::from),
        Ok(Err(rejected)) => rejected.into_response(),
        Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}

async fn scrape(State(scrapes): State<Scrapes>) -> Response {
    let turn = timeout(SCRAPE_TURN, Arc::clone(&scrapes.permits).acquire_owned()).await;
    let Ok(Ok(permit)) = turn else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let rendered = tokio::task::spawn_blocking(move || {
        let text = scrapes.render();
        drop(permit);
        text
    });
    match rendered.await {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::limiter;
    use crate::store::{MemoryConfig, MemoryStore};

    fn scrapes() -> Scrapes {
        let config = MemoryConfig { max_buckets: 10 };
        let store = Store::Memory(MemoryStore::new(config, Arc::new(ManualClock::default())));
        let metrics = Metrics::new(10);
        let options = limiter::Options::default();
        let limiter = Limiter::new(store, Arc::clone(&metrics), options);
        Scrapes::new(metrics, Arc::new(limiter), None)
    }

    #[tokio::test(start_paused = true)]
    async fn a_scrape_that_does_not_get_its_turn_is_sent_away() {
        let scrapes = scrapes();
        let others = Arc::clone(&scrapes.permits);
        let others = others.try_acquire_many(u32::try_from(MAX_SCRAPES).unwrap()).unwrap();
        let response = scrape(State(scrapes.clone())).await;
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(others);
        assert_eq!(scrape(State(scrapes)).await.status(), StatusCode::OK);
    }
}
