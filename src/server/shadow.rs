//! The shadow switch on the admin port: limiting off now, for a while, and by itself on again.

use super::admin::{Admin, bad_request};
use super::connections::Life;
use crate::limiter::Limiter;
use crate::settings;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Nobody means to forget it for longer.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Deserialize)]
pub(super) struct ShadowQuery {
    r#for: String,
}

pub(super) async fn show(State(admin): State<Admin>) -> String {
    state(&admin.limiter)
}

pub(super) async fn turn_on(
    State(admin): State<Admin>,
    Query(query): Query<ShadowQuery>,
) -> Response {
    let lasts = settings::read_duration(&query.r#for);
    match lasts.ok().filter(|lasts| !lasts.is_zero() && *lasts <= LONGEST) {
        Some(lasts) => {
            admin.limiter.shadow().turn_on(lasts);
            tracing::warn!(?lasts, "shadow: limits refuse nobody until this ends");
            announce_end(Arc::clone(&admin.limiter), lasts, &admin.life);
            state(&admin.limiter).into_response()
        }
        None => bad_request("for: expected a duration such as `10m`, at most 24h"),
    }
}

pub(super) async fn turn_off(State(admin): State<Admin>) -> String {
    if admin.limiter.shadow().turn_off() {
        tracing::warn!("shadow: ended by request, limits refuse again");
    }
    state(&admin.limiter)
}

fn state(limiter: &Limiter) -> String {
    match limiter.shadow().left() {
        Some(left) => format!("on for {} s more\n", left.as_secs()),
        None => "off\n".to_owned(),
    }
}

/// Says in the log that it has ended by itself: neither turned off nor prolonged meanwhile.
fn announce_end(limiter: Arc<Limiter>, lasts: Duration, life: &Life) {
    let stop = life.stop.clone();
    let number = limiter.shadow().number();
    life.tasks.spawn(async move {
        let ended = stop.run_until_cancelled(sleep(lasts)).await.is_some();
        if ended && limiter.shadow().number() == number {
            tracing::warn!("shadow: ended by itself, limits refuse again");
        }
    });
}
