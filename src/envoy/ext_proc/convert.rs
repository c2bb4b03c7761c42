//! Envoy's messages as the use case understands them.

use crate::idempotency::{Certificate, Headers, RequestHead, ResponseHead};
use crate::rules::{Map, Value};
use envoy_types::pb::envoy::config::core::v3::HeaderMap;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpHeaders, HttpTrailers, ProcessingRequest};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value as ProtoValue};

/// Under which name Envoy's filter sends attributes.
const FILTER: &str = "envoy.filters.http.ext_proc";

/// Under which name Envoy's filter for tokens leaves what it verified.
const JWT: &str = "envoy.filters.http.jwt_authn";

/// The head of a request.
pub(super) fn request_head(message: &ProcessingRequest, headers: &HttpHeaders) -> RequestHead {
    let attributes = Attributes::of(message);
    let claims = message.metadata_context.as_ref().and_then(|all| all.filter_metadata.get(JWT));
    RequestHead {
        headers: lines(headers.headers.as_ref()),
        route_name: attributes.text("xds.route_name").unwrap_or_default().to_owned(),
        certificate: attributes.is_true("connection.mtls").then(|| Certificate {
            uri_san: attributes.owned("connection.uri_san_peer_certificate"),
            dns_san: attributes.owned("connection.dns_san_peer_certificate"),
        }),
        claims: claims.map(map).unwrap_or_default(),
        ends: headers.end_of_stream,
    }
}

/// The head of an answer.
pub(super) fn response_head(message: &ProcessingRequest, headers: &HttpHeaders) -> ResponseHead {
    let attributes = Attributes::of(message);
    ResponseHead {
        headers: lines(headers.headers.as_ref()),
        details: attributes.text("response.code_details").map(ToOwned::to_owned),
        flags: attributes.number("response.flags").unwrap_or_default(),
        n_attempts: attributes.number("upstream.request_attempt_count"),
        ends: headers.end_of_stream,
    }
}

/// What follows the body of an answer.
pub(super) fn trailers(trailers: &HttpTrailers) -> Headers {
    lines(trailers.trailers.as_ref())
}

/// Envoy puts values into `raw_value`, older ones into `value`.
fn lines(headers: Option<&HeaderMap>) -> Headers {
    let lines = headers.iter().flat_map(|all| &all.headers);
    let line = lines.map(|line| {
        let value =
            if line.raw_value.is_empty() { line.value.as_bytes() } else { &line.raw_value[..] };
        (line.key.clone(), value.to_vec())
    });
    line.collect()
}

/// What Envoy says of a request beside its headers.
struct Attributes<'a>(Option<&'a Struct>);

impl<'a> Attributes<'a> {
    fn of(message: &'a ProcessingRequest) -> Self {
        Self(message.attributes.get(FILTER))
    }

    fn kind(&self, name: &str) -> Option<&'a Kind> {
        self.0?.fields.get(name)?.kind.as_ref()
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        if let Kind::StringValue(text) = self.kind(name)? { Some(text) } else { None }
    }

    fn owned(&self, name: &str) -> String {
        self.text(name).unwrap_or_default().to_owned()
    }

    fn is_true(&self, name: &str) -> bool {
        matches!(self.kind(name), Some(Kind::BoolValue(true)))
    }

    /// A whole number that a double holds exactly.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    fn number(&self, name: &str) -> Option<u64> {
        const MAX: f64 = 9_007_199_254_740_992.0;
        let Kind::NumberValue(number) = self.kind(name)? else { return None };
        (number.fract() == 0.0 && (0.0..=MAX).contains(number)).then_some(*number as u64)
    }
}

fn map(all: &Struct) -> Map {
    all.fields.iter().map(|(name, found)| (name.clone(), value(found))).collect()
}

fn value(found: &ProtoValue) -> Value {
    match &found.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(flag)) => Value::Bool(*flag),
        Some(Kind::NumberValue(number)) => Value::Number(*number),
        Some(Kind::StringValue(text)) => Value::Text(text.clone()),
        Some(Kind::ListValue(list)) => Value::List(list.values.iter().map(value).collect()),
        Some(Kind::StructValue(all)) => Value::Map(map(all)),
    }
}
