//! From what was decided to the message that says so.

use super::proto::{RateLimitRequest, RateLimitResponse};
use super::{Options, convert, denied, headers, metadata};
use crate::limiter::{Code, Response, Status};
use crate::rules::RuleSet;

/// What was decided, as far as an answer tells it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decided<'a> {
    /// Whether the request may pass.
    pub code: Code,
    /// One per descriptor.
    pub statuses: &'a [Status],
    /// What the rule ids point into.
    pub rules: &'a RuleSet,
}

impl<'a> From<&'a Response> for Decided<'a> {
    fn from(response: &'a Response) -> Self {
        let Response { code, statuses, policies } = response;
        Self { code: *code, statuses, rules: &policies.rules }
    }
}

/// The message that answers `asked`.
pub(super) fn response(
    asked: &RateLimitRequest,
    decided: Decided<'_>,
    options: &Options,
) -> RateLimitResponse {
    let mut response = RateLimitResponse {
        overall_code: convert::code(decided.code).into(),
        statuses: decided.statuses.iter().map(convert::status).collect(),
        response_headers_to_add: headers::of(decided, options),
        ..RateLimitResponse::default()
    };
    if decided.code == Code::OverLimit {
        denied::add_body(&mut response, &asked.domain, decided);
    }
    if options.dynamic_metadata {
        response.dynamic_metadata = Some(metadata::of(asked, decided));
    }
    response
}

impl Decided<'_> {
    /// The status that a refusal rests on: the one that is waited for longest before the request
    /// may pass. Quota limits refuse only together, so the first of them to give way is the one
    /// to wait for. `None` if no descriptor is refused.
    pub(super) fn refusing(&self) -> Option<&Status> {
        let refused = |quota| {
            let of_kind = move |s: &&Status| s.code == Code::OverLimit && s.quota == quota;
            self.statuses.iter().filter(of_kind)
        };
        let quota_refuses = self.statuses.iter().all(|s| !s.quota || s.code == Code::OverLimit);
        let wait = |status: &&Status| status.reset_seconds.unwrap_or_default();
        let quota = refused(true).min_by_key(wait).filter(|_| quota_refuses);
        // Of equal waits the first status wins; `max_by_key` takes the last.
        quota.into_iter().chain(refused(false).rev()).max_by_key(wait)
    }
}
