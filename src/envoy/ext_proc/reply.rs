//! What Envoy is told.

use crate::idempotency::{Answer, RESULT, RETENTION};
use envoy_types::pb::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::ProcessingMode;
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::{
    BodySendMode, HeaderSendMode,
};
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    BodyResponse, CommonResponse, GrpcStatus, HeaderMutation, HeadersResponse, ImmediateResponse,
    ProcessingResponse, TrailersResponse,
};
use envoy_types::pb::envoy::r#type::v3::HttpStatus;
use envoy_types::pb::google::protobuf::BoolValue;

/// Headers that no client may send: ours, also as services read them that do not tell `_` from `-`,
/// and those of the upstream, which might only repeat them.
const OURS: [&str; 9] = [
    "x-idempotency-fence",
    "x-idempotency-attempt",
    "x-idempotency-operation",
    "x_idempotency_fence",
    "x_idempotency_attempt",
    "x_idempotency_operation",
    "idempotent-replayed",
    RESULT,
    RETENTION,
];

/// Headers by which an upstream speaks to us, and one that only we send.
const FOR_US: [&str; 3] = [RESULT, RETENTION, "idempotent-replayed"];

/// What Envoy is to send next. Bodies it does not name are not sent, so each names all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Nothing.
    Nothing,
    /// The request's body, then the answer's headers.
    Request,
    /// The answer's headers.
    Answer,
    /// The answer's body, piece by piece, and what follows it.
    Rest,
    /// What follows the answer's body.
    Trailers,
}

impl Wanted {
    fn mode(self) -> ProcessingMode {
        let (buffered, streamed, none) =
            (BodySendMode::Buffered, BodySendMode::Streamed, BodySendMode::None);
        let (send, skip) = (HeaderSendMode::Send, HeaderSendMode::Skip);
        let (request_body, headers, body, trailers) = match self {
            Self::Nothing => (none, skip, none, skip),
            Self::Request => (buffered, send, none, skip),
            Self::Answer => (none, send, none, skip),
            // Without its trailers an answer that broke off looks like one that is whole.
            Self::Rest => (none, send, streamed, send),
            Self::Trailers => (none, send, none, send),
        };
        ProcessingMode {
            request_header_mode: send.into(),
            response_header_mode: headers.into(),
            request_body_mode: request_body.into(),
            response_body_mode: body.into(),
            request_trailer_mode: skip.into(),
            response_trailer_mode: trailers.into(),
        }
    }
}

/// Which message is replied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// A request's headers.
    RequestHeaders,
    /// Its body.
    RequestBody,
    /// Its trailers.
    RequestTrailers,
    /// An answer's headers.
    ResponseHeaders,
    /// A piece of its body.
    ResponseBody,
    /// Its trailers.
    ResponseTrailers,
}

/// Go on.
pub(super) fn go_on(to: To) -> ProcessingResponse {
    continued(to, HeaderMutation::default(), None)
}

/// Go on with a request as it is, but for headers that are ours.
pub(super) fn let_pass(to: To) -> ProcessingResponse {
    let wanted = matches!(to, To::RequestHeaders | To::ResponseHeaders).then_some(Wanted::Nothing);
    continued(to, without(&OURS), wanted)
}

/// Go on with a request, and send its body.
pub(super) fn ask_for_body() -> ProcessingResponse {
    continued(To::RequestHeaders, without(&OURS), Some(Wanted::Request))
}

/// Send a request to the upstream, with these headers.
pub(super) fn forward(to: To, headers: &[(&'static str, String)]) -> ProcessingResponse {
    let set_headers =
        headers.iter().map(|(name, value)| set(name, value.clone().into_bytes(), false));
    let mutation = HeaderMutation { set_headers: set_headers.collect(), ..without(&OURS) };
    let wanted = (to == To::RequestHeaders).then_some(Wanted::Answer);
    continued(to, mutation, wanted)
}

/// Go on with an answer.
pub(super) fn deliver(wanted: Wanted) -> ProcessingResponse {
    continued(To::ResponseHeaders, without(&FOR_US), Some(wanted))
}

/// Answer the client by this, and end.
pub(super) fn answer(answer: Answer, is_grpc: bool) -> ProcessingResponse {
    let (headers, body) = if is_grpc {
        let is_kept = |name: &str| ["retry-after", "idempotent-replayed"].contains(&name);
        let headers = answer.headers.into_iter().filter(|(name, _)| is_kept(name));
        (headers.collect(), answer.message.into_bytes())
    } else {
        (answer.headers, answer.body)
    };
    let immediate = ImmediateResponse {
        status: Some(HttpStatus { code: answer.status.into() }),
        headers: Some(HeaderMutation { set_headers: lines(headers), remove_headers: Vec::new() }),
        body,
        grpc_status: is_grpc.then_some(GrpcStatus { status: answer.grpc_code }),
        details: answer.details.to_owned(),
    };
    ProcessingResponse {
        response: Some(Response::ImmediateResponse(immediate)),
        ..ProcessingResponse::default()
    }
}

fn continued(to: To, mutation: HeaderMutation, wanted: Option<Wanted>) -> ProcessingResponse {
    let trailers = |mutation| TrailersResponse { header_mutation: Some(mutation) };
    let common = |mutation| {
        Some(CommonResponse { header_mutation: Some(mutation), ..CommonResponse::default() })
    };
    let response = match to {
        To::RequestHeaders => {
            Response::RequestHeaders(HeadersResponse { response: common(mutation) })
        }
        To::ResponseHeaders => {
            Response::ResponseHeaders(HeadersResponse { response: common(mutation) })
        }
        To::RequestBody => Response::RequestBody(BodyResponse { response: common(mutation) }),
        To::ResponseBody => Response::ResponseBody(BodyResponse { response: common(mutation) }),
        To::RequestTrailers => Response::RequestTrailers(trailers(mutation)),
        To::ResponseTrailers => Response::ResponseTrailers(trailers(mutation)),
    };
    ProcessingResponse {
        response: Some(response),
        mode_override: wanted.map(Wanted::mode),
        ..ProcessingResponse::default()
    }
}

fn without(names: &[&str]) -> HeaderMutation {
    let names = names.iter().map(|name| (*name).to_owned());
    HeaderMutation { set_headers: Vec::new(), remove_headers: names.collect() }
}

/// Headers in their order: the first line of a name replaces what Envoy would send, the others are
/// added to it.
fn lines(headers: Vec<(Box<str>, Vec<u8>)>) -> Vec<HeaderValueOption> {
    let mut lines: Vec<HeaderValueOption> = Vec::with_capacity(headers.len());
    for (name, value) in headers {
        let is_named = |line: &HeaderValueOption| {
            line.header.as_ref().is_some_and(|header| header.key == *name)
        };
        let append = lines.iter().any(is_named);
        lines.push(set(&name, value, append));
    }
    lines
}

/// Envoy reads only `raw_value` here, and of the two ways to append only the older one.
#[expect(deprecated, reason = "Envoy does not read the newer field (envoyproxy/envoy#29861)")]
fn set(name: &str, value: Vec<u8>, append: bool) -> HeaderValueOption {
    let header = HeaderValue { key: name.to_owned(), raw_value: value, ..HeaderValue::default() };
    HeaderValueOption {
        header: Some(header),
        append: Some(BoolValue { value: append }),
        ..HeaderValueOption::default()
    }
}
