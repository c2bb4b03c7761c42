//! Where Envoy's protobuf types stop: the rate-limit service, conversions, headers.

mod caller;
mod codec;
mod convert;
mod denied;
mod direct;
mod ext_proc;
mod headers;
mod json;
mod metadata;
mod patience;
pub mod proto;
mod reflection;
mod respond;
#[cfg(test)]
mod sample;
mod service;
mod timeout;
pub mod xds;

pub use caller::Caller;
pub use convert::Invalid;
pub use direct::{DirectApi, proto as direct_proto};
pub use ext_proc::{ExtProc, MAX_MESSAGE};
pub use headers::{InvalidHeaderName, LimitHeaders};
pub use json::{JsonError, answer, decode_request, encode_response};
pub use patience::{Patience, TimedBody};
pub use reflection::{
    direct_reflection_v1, direct_reflection_v1alpha, reflection_v1, reflection_v1alpha,
};
pub use service::{Error, RateLimit, RateLimitGrpc};

/// Process settings of the rate-limit service.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of the limit headers, if they are to be added (`LIMIT_RESPONSE_HEADERS_ENABLED`).
    pub limit_headers: Option<LimitHeaders>,
    /// `RETRY_AFTER_HEADER_ENABLED`: refusals carry `retry-after`.
    pub retry_after_header: bool,
    /// `RESPONSE_DYNAMIC_METADATA`: answers say which rules decided.
    pub dynamic_metadata: bool,
    /// `JSON_ALLOW_REFUNDS`: hits may be given back over HTTP.
    pub json_allow_refunds: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limit_headers: None,
            retry_after_header: true,
            dynamic_metadata: false,
            json_allow_refunds: false,
        }
    }
}
