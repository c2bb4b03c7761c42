//! What Tidegate answers by itself: problems (RFC 9457), and replays.

use super::head::number;
use super::outcome::{NotStored, StoredAnswer};
use crate::clock::Micros;
use serde_json::{Map, Value};
use std::time::Duration;

/// An answer to a request that does not go to the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Code of gRPC, for callers that speak it.
    pub grpc_code: u32,
    /// Its headers.
    pub headers: Vec<(Box<str>, Vec<u8>)>,
    /// Its body.
    pub body: Vec<u8>,
    /// What gRPC callers are told instead.
    pub message: String,
    /// What access logs show.
    pub details: &'static str,
}

/// Why a request gets an answer of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It has no key, and needs one.
    KeyMissing,
    /// What it has is no key.
    KeyInvalid(String),
    /// Nothing is known of its caller.
    KeyUnscoped,
    /// Its body is larger than so many bytes.
    RequestTooLarge(usize),
    /// Its body has not come in time.
    RequestTooSlow,
    /// Its key was used for something else.
    KeyReused,
    /// Another attempt runs.
    InProgress {
        /// How long that one may be silent.
        lease_left: Duration,
    },
    /// An attempt ended without an outcome.
    OutcomeUnknown {
        /// When it was claimed.
        since: Micros,
    },
    /// It ran, and its answer was not kept.
    NotStored(NotStored),
    /// It was recorded by another version.
    Unverifiable,
    /// Nobody can say whether it ran.
    StoreUnavailable,
}

/// Codes of gRPC.
mod grpc {
    pub(super) const INVALID_ARGUMENT: u32 = 3;
    pub(super) const DEADLINE_EXCEEDED: u32 = 4;
    pub(super) const RESOURCE_EXHAUSTED: u32 = 8;
    pub(super) const FAILED_PRECONDITION: u32 = 9;
    pub(super) const ABORTED: u32 = 10;
    pub(super) const UNAVAILABLE: u32 = 14;
}

/// What idempotency keys are, for those who do not send one.
const KEYS_ARE: &[u8] =
    b"<https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/>; \
      rel=\"describedby\"";

/// What the rows of all problems have in common.
struct Row {
    status: u16,
    grpc_code: u32,
    name: &'static str,
    title: &'static str,
    details: &'static str,
}

impl Problem {
    /// The answer. `jitter`, below 1, spreads those who come again.
    pub fn answer(&self, jitter: f64) -> Answer {
        let row = self.row();
        let detail = self.detail();
        let mut headers: Vec<(Box<str>, Vec<u8>)> = vec![
            ("content-type".into(), b"application/problem+json".to_vec()),
            ("cache-control".into(), b"no-store".to_vec()),
        ];
        headers.extend(self.headers(jitter));
        Answer {
            status: row.status,
            grpc_code: row.grpc_code,
            headers,
            body: self.body(&row, &detail),
            message: format!("{}: {detail}", row.name),
            details: row.details,
        }
    }

    fn row(&self) -> Row {
        let row = |status, grpc_code, name, title, details| Row {
            status,
            grpc_code,
            name,
            title,
            details,
        };
        match self {
            Self::KeyMissing => row(
                400,
                grpc::INVALID_ARGUMENT,
                "key-missing",
                "idempotency key is missing",
                "idem_key_missing",
            ),
            Self::KeyInvalid(_) => row(
                400,
                grpc::INVALID_ARGUMENT,
                "key-invalid",
                "idempotency key is invalid",
                "idem_key_invalid",
            ),
            Self::KeyUnscoped => row(
                400,
                grpc::INVALID_ARGUMENT,
                "key-unscoped",
                "idempotency key without a known caller",
                "idem_key_unscoped",
            ),
            Self::RequestTooLarge(_) => row(
                413,
                grpc::RESOURCE_EXHAUSTED,
                "request-too-large",
                "request too large for an idempotency key",
                "idem_request_too_large",
            ),
            Self::RequestTooSlow => row(
                408,
                grpc::DEADLINE_EXCEEDED,
                "request-too-slow",
                "request has not come in time",
                "idem_request_too_slow",
            ),
            Self::KeyReused => row(
                422,
                grpc::FAILED_PRECONDITION,
                "key-reused",
                "idempotency key used for another request",
                "idem_key_reused",
            ),
            Self::InProgress { .. } => {
                row(409, grpc::ABORTED, "in-progress", "request in progress", "idem_in_progress")
            }
            Self::OutcomeUnknown { .. } => row(
                409,
                grpc::ABORTED,
                "outcome-unknown",
                "outcome unknown",
                "idem_outcome_unknown",
            ),
            Self::NotStored(_) => row(
                409,
                grpc::FAILED_PRECONDITION,
                "response-not-stored",
                "request done, its response was not stored",
                "idem_response_not_stored",
            ),
            Self::Unverifiable => row(
                409,
                grpc::ABORTED,
                "fingerprint-unverifiable",
                "request recorded by another version",
                "idem_unverifiable",
            ),
            Self::StoreUnavailable => row(
                503,
                grpc::UNAVAILABLE,
                "store-unavailable",
                "idempotency store unavailable",
                "idem_store_unavailable",
            ),
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::KeyMissing => "this request needs an idempotency key".to_owned(),
            Self::KeyInvalid(reason) => reason.clone(),
            Self::KeyUnscoped => "keys are taken only from callers that are known".to_owned(),
            Self::RequestTooLarge(most) => {
                format!("a request with an idempotency key has {most} bytes at most")
            }
            Self::RequestTooSlow => {
                "its body is too slow, or larger than the proxy can hold; it was not run".to_owned()
            }
            Self::KeyReused => "send a new key with a new request".to_owned(),
            Self::InProgress { .. } => "an attempt with this key is still running".to_owned(),
            Self::OutcomeUnknown { .. } => {
                "an attempt with this key ended without an answer; it may have taken effect"
                    .to_owned()
            }
            Self::NotStored(_) => "the first attempt was answered; it is not run again".to_owned(),
            Self::Unverifiable => "it cannot be compared with what was recorded".to_owned(),
            Self::StoreUnavailable => {
                "whether this request ran before cannot be told now; it was not run".to_owned()
            }
        }
    }

    fn headers(&self, jitter: f64) -> Option<(Box<str>, Vec<u8>)> {
        let after = |seconds: u64| ("retry-after".into(), seconds.to_string().into_bytes());
        match self {
            Self::KeyMissing => Some(("link".into(), KEYS_ARE.to_vec())),
            Self::InProgress { lease_left } => Some(after(soon(*lease_left, jitter))),
            Self::StoreUnavailable => Some(after(spread(5, jitter))),
            Self::NotStored(NotStored { location: Some(location), .. }) => {
                Some(("location".into(), location.clone()))
            }
            Self::KeyInvalid(_)
            | Self::KeyUnscoped
            | Self::RequestTooLarge(_)
            | Self::RequestTooSlow
            | Self::KeyReused
            | Self::OutcomeUnknown { .. }
            | Self::NotStored(_)
            | Self::Unverifiable => None,
        }
    }

    fn body(&self, row: &Row, detail: &str) -> Vec<u8> {
        let mut body = Map::new();
        body.insert("type".to_owned(), format!("urn:tidegate:idempotency:{}", row.name).into());
        body.insert("title".to_owned(), row.title.into());
        body.insert("status".to_owned(), row.status.into());
        body.insert("detail".to_owned(), detail.into());
        if let Self::OutcomeUnknown { since } = self {
            body.insert("since".to_owned(), (since.0 / Micros::SECOND.0).into());
        }
        if let Self::NotStored(told) = self {
            body.insert("original-status".to_owned(), told.status.into());
        }
        Value::Object(body).to_string().into_bytes()
    }
}

impl Answer {
    /// The stored answer once more.
    pub fn replay(stored: &StoredAnswer) -> Self {
        let mut headers = stored.headers.clone();
        headers.push(("idempotent-replayed".into(), b"true".to_vec()));
        let value = |name: &str| {
            let line = stored.headers.iter().find(|(found, _)| **found == *name);
            line.map(|(_, value)| value.as_slice()).unwrap_or_default()
        };
        Self {
            status: stored.status,
            grpc_code: number(value("grpc-status")).unwrap_or_default(),
            message: percent_decoded(value("grpc-message")),
            headers,
            body: stored.body.clone(),
            details: "idem_replay",
        }
    }
}

/// As gRPC encodes messages; what is no text is shown as far as it can be.
fn percent_decoded(text: &[u8]) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        let escaped = after.first_chunk().and_then(|digits: &[u8; 2]| {
            u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
        });
        let (after, byte) = match (byte, escaped) {
            (b'%', Some(escaped)) => (after.get(2..).unwrap_or_default(), escaped),
            _ => (after, *byte),
        };
        decoded.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Seconds after which to come again: most requests are done long before their lease would end.
fn soon(lease_left: Duration, jitter: f64) -> u64 {
    let whole = lease_left.as_secs().saturating_add(u64::from(lease_left.subsec_nanos() > 0));
    spread(whole.max(1), jitter)
}

/// A number of seconds from 1 to `most`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a number between 0 and a few thousand"
)]
fn spread(most: u64, jitter: f64) -> u64 {
    (1 + (most as f64 * jitter) as u64).min(most)
}
