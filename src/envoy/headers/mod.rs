//! Headers that an answer adds: those of the limit, and `retry-after` on refusals.

use super::Options;
use super::proto::HeaderValue;
use super::respond::Decided;
use crate::limiter::{Code, Status};

/// Names of the headers that tell clients about their limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitHeaders {
    limit: Box<str>,
    remaining: Box<str>,
    reset: Box<str>,
}

/// A name that no header can have; Envoy would put it on the wire as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: found `{name}`, expected a header name (letters, digits and !#$%&'*+-.^_`|~)")]
pub struct InvalidHeaderName {
    setting: &'static str,
    name: String,
}

impl LimitHeaders {
    /// Takes the names of `LIMIT_LIMIT_HEADER`, `LIMIT_REMAINING_HEADER` and
    /// `LIMIT_RESET_HEADER`.
    pub fn new(limit: &str, remaining: &str, reset: &str) -> Result<Self, InvalidHeaderName> {
        Ok(Self {
            limit: checked("LIMIT_LIMIT_HEADER", limit)?,
            remaining: checked("LIMIT_REMAINING_HEADER", remaining)?,
            reset: checked("LIMIT_RESET_HEADER", reset)?,
        })
    }
}

impl Default for LimitHeaders {
    fn default() -> Self {
        Self {
            limit: "RateLimit-Limit".into(),
            remaining: "RateLimit-Remaining".into(),
            reset: "RateLimit-Reset".into(),
        }
    }
}

/// The headers of an answer.
pub(super) fn of(decided: Decided<'_>, options: &Options) -> Vec<HeaderValue> {
    let mut headers = Vec::new();
    if let Some(names) = &options.limit_headers {
        add_limit(&mut headers, names, decided);
    }
    if options.retry_after_header && decided.code == Code::OverLimit {
        add_retry_after(&mut headers, decided);
    }
    headers
}

/// A header. Envoy reads `value` only and would make a `raw_value` an empty header.
pub(super) fn header(name: &str, value: String) -> HeaderValue {
    HeaderValue { key: name.into(), value, raw_value: Vec::new() }
}

fn checked(setting: &'static str, name: &str) -> Result<Box<str>, InvalidHeaderName> {
    match http::HeaderName::from_bytes(name.as_bytes()) {
        Ok(_) => Ok(name.into()),
        Err(_) => Err(InvalidHeaderName { setting, name: name.into() }),
    }
}

/// Nothing if no limit applies; else what refuses, or what is nearest to it.
fn add_limit(headers: &mut Vec<HeaderValue>, names: &LimitHeaders, decided: Decided<'_>) {
    let Some(status) = decided.refusing().or_else(|| nearest(decided.statuses)) else { return };
    let Some(limit) = &status.limit else { return };
    let reset = status.reset_seconds.unwrap_or_default();
    headers.extend([
        header(&names.limit, limit.requests.to_string()),
        header(&names.remaining, status.remaining.to_string()),
        header(&names.reset, reset.to_string()),
    ]);
}

fn add_retry_after(headers: &mut Vec<HeaderValue>, decided: Decided<'_>) {
    let wait = decided.refusing().and_then(|status| status.reset_seconds);
    headers.extend(wait.map(|seconds| header("retry-after", seconds.max(1).to_string())));
}

/// The status with the least remaining, of those that have a limit; the first of equals.
fn nearest(statuses: &[Status]) -> Option<&Status> {
    statuses.iter().filter(|status| status.limit.is_some()).min_by_key(|status| status.remaining)
}

#[cfg(test)]
mod tests;
