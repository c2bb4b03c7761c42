//! What the beginning of an answer means for its operation.

use super::head::{Headers, ResponseHead, number, values};
use crate::rules::idempotency::{ResponseRule, Storing};
use std::ops::RangeInclusive;
use std::time::Duration;

/// What the beginning of an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is kept once it is whole.
    Keep,
    /// It is said behind the body, as gRPC does.
    Later,
    /// It is the outcome, but cannot be kept.
    Note(NotKept),
    /// It is no outcome: the next one runs it.
    Release(Released),
    /// Nobody knows whether it ran.
    Unknown(Unknown),
}

/// Why an answer is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotKept {
    /// It is too large.
    Size,
    /// It is a stream without an end in sight.
    Stream,
    /// Envoy cannot replay messages of gRPC.
    Grpc,
}

/// Why an operation is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Released {
    /// Its status is not an outcome.
    Status,
    /// The upstream said so.
    Override,
    /// It was not sent to the upstream.
    NotSent,
}

/// Why nobody knows whether it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Envoy answered in place of the upstream.
    LocalReply,
    /// The answer broke off.
    UpstreamReset,
    /// The client went away, or Envoy did.
    ClientReset,
    /// This process ends.
    Shutdown,
    /// The upstream, or the policy, said so.
    Held,
    /// A defect of ours.
    Failed,
}

/// By which an upstream says what its answer means.
pub const RESULT: &str = "idempotency-result";

/// By which an upstream says for how many seconds its answer is kept.
pub const RETENTION: &str = "idempotency-retention";

/// Seconds that an upstream may ask for.
const RETENTIONS: RangeInclusive<u64> = 60..=30 * 86_400;

/// Who made an answer if the upstream did.
const VIA_UPSTREAM: &str = "via_upstream";

/// Envoy's response flags.
mod flag {
    pub(super) const NO_HEALTHY_UPSTREAM: u64 = 1 << 1;
    pub(super) const CONNECTION_FAILURE: u64 = 1 << 5;
    pub(super) const OVERFLOW: u64 = 1 << 7;
    pub(super) const NO_ROUTE: u64 = 1 << 8;
    pub(super) const RATE_LIMITED: u64 = 1 << 11;
    /// Stands beside the last attempt's failure.
    pub(super) const RETRY_LIMIT: u64 = 1 << 15;
}

/// Envoy's words for a request that is larger than its buffers.
const REQUEST_TOO_LARGE: &str = "request_payload_too_large";

impl Verdict {
    /// What an answer means under a rule.
    pub(super) fn of(head: &ResponseHead, rule: &ResponseRule) -> Self {
        match head.details.as_deref() {
            Some(VIA_UPSTREAM) => Self::of_upstream(head, rule),
            Some(_) => Self::of_local_reply(head),
            // It may be either: only what would be kept anyhow is believed.
            None => match Self::of_upstream(head, rule) {
                Self::Release(Released::Status) => Self::Unknown(Unknown::LocalReply),
                verdict @ (Self::Keep
                | Self::Later
                | Self::Note(_)
                | Self::Release(_)
                | Self::Unknown(_)) => verdict,
            },
        }
    }

    fn of_upstream(head: &ResponseHead, rule: &ResponseRule) -> Self {
        let said = match head.value(RESULT) {
            Some(b"store") => Some(Storing::Store),
            Some(b"release") => Some(Storing::Release),
            Some(b"hold") => Some(Storing::Hold),
            _ => None,
        };
        let has_messages = is_grpc(head) && !head.ends;
        if has_messages && said.is_none() && head.status() == Some(200) {
            return Self::Later;
        }
        let by_status = || status(head).map_or(Storing::Hold, |status| rule.meaning(status));
        match said.unwrap_or_else(by_status) {
            Storing::Store if has_messages => Self::Note(NotKept::Grpc),
            Storing::Store => not_kept(head, rule).map_or(Self::Keep, Self::Note),
            Storing::Release if said.is_some() => Self::Release(Released::Override),
            Storing::Release => Self::Release(Released::Status),
            Storing::Hold => Self::Unknown(Unknown::Held),
        }
    }

    /// What the trailers of a gRPC answer mean.
    pub(super) fn of_trailers(trailers: &Headers, rule: &ResponseRule) -> Self {
        let Some(status) = grpc_status(trailers) else {
            return Self::Unknown(Unknown::UpstreamReset);
        };
        match rule.meaning(status) {
            Storing::Store => Self::Note(NotKept::Grpc),
            Storing::Release => Self::Release(Released::Status),
            Storing::Hold => Self::Unknown(Unknown::Held),
        }
    }

    /// Envoy answered by itself. Only what proves that no upstream has seen the request frees it:
    /// with retries, an attempt before the one that failed may have run. Envoy 1.40 counts an attempt
    /// that finds no host.
    fn of_local_reply(head: &ResponseHead) -> Self {
        const FAILED_ATTEMPT: u64 =
            flag::CONNECTION_FAILURE | flag::OVERFLOW | flag::NO_HEALTHY_UPSTREAM;
        const NEVER_TRIED: u64 = flag::NO_ROUTE | flag::RATE_LIMITED;
        let is_only =
            |those: u64| head.flags & those != 0 && head.flags & !(those | flag::RETRY_LIMIT) == 0;
        let is_too_large =
            head.status() == Some(413) && head.details.as_deref() == Some(REQUEST_TOO_LARGE);
        let is_not_sent = match head.n_attempts {
            Some(0) => is_only(FAILED_ATTEMPT | NEVER_TRIED) || is_too_large,
            Some(1) => is_only(FAILED_ATTEMPT),
            _ => false,
        };
        if is_not_sent {
            Self::Release(Released::NotSent)
        } else {
            Self::Unknown(Unknown::LocalReply)
        }
    }
}

fn is_grpc(head: &ResponseHead) -> bool {
    head.value("content-type").is_some_and(|value| value.starts_with(b"application/grpc"))
}

/// The status of HTTP, or for gRPC the one that means the same.
fn status(head: &ResponseHead) -> Option<u16> {
    if is_grpc(head) { grpc_status(&head.headers) } else { head.status() }
}

/// The status of HTTP that means the same as a code of gRPC, if there is one.
fn grpc_status(headers: &Headers) -> Option<u16> {
    let code: u16 = values(headers, "grpc-status").next().and_then(number)?;
    Some(match code {
        0 => 200,
        // INVALID_ARGUMENT, FAILED_PRECONDITION, OUT_OF_RANGE
        3 | 9 | 11 => 400,
        // UNAUTHENTICATED, PERMISSION_DENIED
        16 => 401,
        7 => 403,
        // NOT_FOUND, UNIMPLEMENTED
        5 | 12 => 404,
        // ALREADY_EXISTS
        6 => 409,
        // RESOURCE_EXHAUSTED, and ABORTED, which is to be tried again
        8 | 10 => 429,
        _ => 500,
    })
}

/// Whether an answer cannot be kept whatever its body will be.
fn not_kept(head: &ResponseHead, rule: &ResponseRule) -> Option<NotKept> {
    let length = head.value("content-length").and_then(number::<u64>);
    let most = u64::try_from(rule.max_body).unwrap_or(u64::MAX);
    if !head.ends && length.is_some_and(|length| length > most) {
        return Some(NotKept::Size);
    }
    let is_stream = head
        .value("content-type")
        .is_some_and(|value| value.to_ascii_lowercase().starts_with(b"text/event-stream"));
    is_stream.then_some(NotKept::Stream)
}

/// How long the upstream wants its answer kept.
pub(super) fn retention(head: &ResponseHead, otherwise: Duration) -> Duration {
    let said = head.value(RETENTION).and_then(number::<u64>);
    said.map_or(otherwise, |seconds| {
        Duration::from_secs(seconds.clamp(*RETENTIONS.start(), *RETENTIONS.end()))
    })
}

impl NotKept {
    /// Every one.
    pub(super) const ALL: [Self; 3] = [Self::Size, Self::Stream, Self::Grpc];

    /// Its word in metrics.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Stream => "stream",
            Self::Grpc => "grpc",
        }
    }
}

impl Released {
    /// Every one.
    pub(super) const ALL: [Self; 3] = [Self::Status, Self::Override, Self::NotSent];

    /// Its word in metrics.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Override => "override",
            Self::NotSent => "not_sent",
        }
    }
}

impl Unknown {
    /// Every one.
    pub const ALL: [Self; 6] = [
        Self::LocalReply,
        Self::UpstreamReset,
        Self::ClientReset,
        Self::Shutdown,
        Self::Held,
        Self::Failed,
    ];

    /// Its word in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::LocalReply => "local_reply",
            Self::UpstreamReset => "upstream_reset",
            Self::ClientReset => "client_reset",
            Self::Shutdown => "shutdown",
            Self::Held => "held",
            Self::Failed => "failed",
        }
    }
}

#[cfg(test)]
mod tests;
