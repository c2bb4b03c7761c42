//! Rate-limit requests as JSON over HTTP: protobuf's own mapping, in and out.

use super::proto::{Code, DESCRIPTORS, RateLimitRequest, RateLimitResponse};
use super::service::{Error, RateLimit};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use std::sync::LazyLock;

/// Why a body is not answered.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// It is not JSON, or not that of a request.
    #[error(transparent)]
    Syntax(#[from] serde_json::Error),
    /// Its fields do not fit the message.
    #[error(transparent)]
    Fields(#[from] prost::DecodeError),
    /// It gives hits back, which is off.
    #[error("descriptors[{place}].isNegativeHits: refunds need JSON_ALLOW_REFUNDS=true here")]
    Refund {
        /// Which descriptor, from 0.
        place: usize,
    },
    /// The service has no answer.
    #[error(transparent)]
    Service(#[from] Error),
}

/// Answers `/json`: 200 for OK, 429 for a refusal, 400 with the reason for everything else, as
/// envoyproxy/ratelimit does.
pub async fn answer(service: &RateLimit, body: &[u8]) -> Response<Vec<u8>> {
    http_response(decide(service, body).await)
}

/// Reads a request; field names in camel or snake case, unknown ones are errors.
pub fn decode_request(body: &[u8]) -> Result<RateLimitRequest, JsonError> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let message = DynamicMessage::deserialize(REQUEST.clone(), &mut json)?;
    json.end()?;
    Ok(message.transcode_to()?)
}

/// Writes an answer; fields of value zero are left out.
pub fn encode_response(response: &RateLimitResponse) -> Result<Vec<u8>, JsonError> {
    let mut message = DynamicMessage::new(RESPONSE.clone());
    message.transcode_from(response)?;
    Ok(serde_json::to_vec(&message)?)
}

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the build wrote them")]
    DescriptorPool::decode(DESCRIPTORS).expect("the descriptors of the build can be decoded")
});
static REQUEST: LazyLock<MessageDescriptor> = LazyLock::new(|| descriptor("RateLimitRequest"));
static RESPONSE: LazyLock<MessageDescriptor> = LazyLock::new(|| descriptor("RateLimitResponse"));

#[expect(clippy::expect_used, reason = "the build wrote them")]
fn descriptor(name: &str) -> MessageDescriptor {
    let name = format!("envoy.service.ratelimit.v3.{name}");
    POOL.get_message_by_name(&name).expect("the descriptors of the build hold the messages")
}

async fn decide(service: &RateLimit, body: &[u8]) -> Result<RateLimitResponse, JsonError> {
    let asked = decode_request(body)?;
    check_refunds(&asked, service.options().json_allow_refunds)?;
    Ok(service.answer(&asked, None).await?)
}

fn check_refunds(asked: &RateLimitRequest, allowed: bool) -> Result<(), JsonError> {
    match asked.descriptors.iter().position(|descriptor| descriptor.is_negative_hits) {
        Some(place) if !allowed => Err(JsonError::Refund { place }),
        Some(_) | None => Ok(()),
    }
}

fn http_response(answer: Result<RateLimitResponse, JsonError>) -> Response<Vec<u8>> {
    match answer {
        Ok(response) => json_response(&response),
        Err(error) => text_response(StatusCode::BAD_REQUEST, &format!("Bad Request: {error}\n")),
    }
}

fn json_response(response: &RateLimitResponse) -> Response<Vec<u8>> {
    let Ok(body) = encode_response(response) else {
        return text_response(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error\n");
    };
    let mut http = Response::new(body);
    *http.status_mut() = status(response.overall_code());
    add_headers(http.headers_mut(), response);
    http.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    http
}

fn text_response(status: StatusCode, text: &str) -> Response<Vec<u8>> {
    let mut http = Response::new(text.into());
    *http.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    http.headers_mut().insert(CONTENT_TYPE, plain);
    http
}

fn status(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
        Code::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The headers that Envoy would add. The content type is overwritten later: it is that of the
/// refusal's own body, which is one of the JSON's fields here.
fn add_headers(headers: &mut HeaderMap, response: &RateLimitResponse) {
    for header in &response.response_headers_to_add {
        let name = HeaderName::from_bytes(header.key.as_bytes());
        let value = HeaderValue::from_str(&header.value);
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
}

#[cfg(test)]
mod tests;
