//! What is served to operators on this machine: the rules in force, buckets, the log level.

use super::connections::Life;
use super::entries::Entries;
use super::shadow;
use crate::limiter::{BucketView, Hottest, Limiter, dump};
use crate::settings::LogLevel;
use crate::store::StoreError;
use crate::telemetry::logging::LevelSwitch;
use axum::extract::{Query, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::{StatusCode, header};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What the handlers answer from.
#[derive(Clone, Debug)]
pub(super) struct Admin {
    pub(super) limiter: Arc<Limiter>,
    pub(super) log: LevelSwitch,
    pub(super) life: Life,
}

const ENDPOINTS: &str = "\
/bucket?domain=D&entries=k=v,k2=v2: the buckets of a descriptor; DELETE resets them
/hot-keys: the buckets and hash slots that are asked most, with their share
/log-level: the least level of log lines; POST ?level=debug changes it
/rlconfig: the rules in force
/shadow: whether limits refuse nobody for a while; POST ?for=10m begins it, DELETE ends it
";

/// How many hot buckets and slots are shown.
const HOTTEST: usize = 20;

#[derive(Debug, Deserialize)]
struct BucketQuery {
    domain: String,
    entries: String,
}

#[derive(Debug, Deserialize)]
struct LevelQuery {
    level: String,
}

/// A bucket as JSON.
#[derive(Debug, Serialize)]
struct Bucket {
    key: String,
    algorithm: &'static str,
    requests_per_window: u32,
    window_seconds: u64,
    exists: bool,
    used: u64,
    remaining: u64,
    reset_seconds: u64,
}

/// What is asked most as JSON, each with its share of all charges.
#[derive(Debug, Serialize)]
struct HotKeys {
    buckets: Vec<HotKey>,
    slots: Vec<HotSlot>,
}

#[derive(Debug, Serialize)]
struct HotKey {
    key: String,
    share: f64,
}

#[derive(Debug, Serialize)]
struct HotSlot {
    slot: u16,
    share: f64,
}

impl Admin {
    pub(super) fn router(self) -> Router {
        Router::new()
            .route("/", get(async || ENDPOINTS))
            .route("/rlconfig", get(rules))
            .route("/bucket", get(inspect).delete(reset))
            .route("/hot-keys", get(hot_keys))
            .route("/log-level", get(level).post(set_level))
            .route("/shadow", get(shadow::show).post(shadow::turn_on).delete(shadow::turn_off))
            .with_state(self)
            .layer(middleware::from_fn(without_origin))
    }
}

/// Browsers say which page sends a request that may change something, and send it to loopback, too:
/// no page an operator looks at may switch limits off.
async fn without_origin(request: Request, next: Next) -> Response {
    if request.headers().contains_key(header::ORIGIN) {
        return (StatusCode::FORBIDDEN, "not for web pages\n").into_response();
    }
    next.run(request).await
}

impl From<BucketView> for Bucket {
    fn from(view: BucketView) -> Self {
        Self {
            algorithm: view.limit.algorithm.name(),
            requests_per_window: view.limit.requests,
            window_seconds: view.limit.window.ceil_secs(),
            exists: view.exists,
            used: view.used,
            remaining: view.remaining,
            reset_seconds: view.reset.ceil_secs(),
            key: view.key,
        }
    }
}

/// With very many rules this takes a while, and so may dropping them: not for request threads.
async fn rules(State(admin): State<Admin>) -> Response {
    let text = move || admin.limiter.policies().map(|policies| dump(&policies.rules));
    match tokio::task::spawn_blocking(text).await {
        Ok(text) => text.unwrap_or_default().into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn inspect(State(admin): State<Admin>, Query(query): Query<BucketQuery>) -> Response {
    match Entries::read(&query.entries) {
        Ok(entries) => buckets(admin.limiter.inspect(&query.domain, &entries.as_entries()).await),
        Err(error) => bad_request(&format!("entries: {error}")),
    }
}

async fn reset(State(admin): State<Admin>, Query(query): Query<BucketQuery>) -> Response {
    match Entries::read(&query.entries) {
        Ok(entries) => buckets(admin.limiter.reset(&query.domain, &entries.as_entries()).await),
        Err(error) => bad_request(&format!("entries: {error}")),
    }
}

fn buckets(views: Result<Vec<BucketView>, StoreError>) -> Response {
    let views = match views {
        Ok(views) => views,
        Err(error) => {
            return (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response();
        }
    };
    if views.is_empty() {
        return (StatusCode::NOT_FOUND, "no limit applies to these entries\n").into_response();
    }
    Json(views.into_iter().map(Bucket::from).collect::<Vec<_>>()).into_response()
}

/// Keys hold what clients sent: they are shown here and nowhere else.
async fn hot_keys(State(admin): State<Admin>) -> Json<HotKeys> {
    let Hottest { buckets, slots } = admin.limiter.hottest(HOTTEST);
    let buckets = buckets.into_iter().map(|(key, share)| HotKey { key, share });
    let slots = slots.into_iter().map(|(slot, share)| HotSlot { slot, share });
    Json(HotKeys { buckets: buckets.collect(), slots: slots.collect() })
}

async fn level(State(admin): State<Admin>) -> String {
    format!("{}\n", admin.log.get())
}

async fn set_level(State(admin): State<Admin>, Query(query): Query<LevelQuery>) -> Response {
    match LogLevel::read(&query.level) {
        Ok(level) => {
            admin.log.set(level);
            format!("{}\n", admin.log.get()).into_response()
        }
        Err(expected) => bad_request(&format!("level: expected {expected}")),
    }
}

pub(super) fn bad_request(text: &str) -> Response {
    (StatusCode::BAD_REQUEST, format!("{text}\n")).into_response()
}
