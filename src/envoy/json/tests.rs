use super::super::proto::{DescriptorStatus, Entry, RateLimit, RateLimitDescriptor, Unit};
use super::super::proto::{HeaderValue as WireHeader, RateLimitOverride};
use super::*;
use crate::limiter;

fn decode(json: &str) -> Result<RateLimitRequest, JsonError> {
    decode_request(json.as_bytes())
}

fn reason(json: &str) -> String {
    decode(json).unwrap_err().to_string()
}

#[test]
fn requests_are_read_in_camel_and_in_snake_case() {
    let expected = RateLimitRequest {
        domain: "shop".into(),
        descriptors: vec![RateLimitDescriptor {
            entries: vec![Entry { key: "k".into(), value: "v".into() }],
            limit: Some(RateLimitOverride {
                requests_per_unit: 5,
                unit: 2,
                unit_multiplier: Some(3),
            }),
            hits_addend: Some(0),
            is_negative_hits: true,
        }],
        hits_addend: 7,
    };
    let camel = r#"{"domain": "shop", "hitsAddend": 7, "descriptors": [{
        "entries": [{"key": "k", "value": "v"}], "hitsAddend": "0", "isNegativeHits": true,
        "limit": {"requestsPerUnit": 5, "unit": "MINUTE", "unitMultiplier": 3}}]}"#;
    let snake = r#"{"domain": "shop", "hits_addend": 7, "descriptors": [{
        "entries": [{"key": "k", "value": "v"}], "hits_addend": 0, "is_negative_hits": true,
        "limit": {"requests_per_unit": 5, "unit": 2, "unit_multiplier": 3}}]}"#;
    assert_eq!(decode(camel).unwrap(), expected);
    assert_eq!(decode(snake).unwrap(), expected);
    assert_eq!(decode("{}").unwrap(), RateLimitRequest::default());
}

#[test]
fn a_week_is_asked_for_by_its_number() {
    let message = decode(r#"{"descriptors": [{"limit": {"unit": 7}}]}"#).unwrap();
    assert_eq!(message.descriptors[0].limit.as_ref().unwrap().unit, 7);
}

#[test]
fn what_is_no_request_is_an_error_that_says_why() {
    assert_eq!(reason(""), "EOF while parsing a value at line 1 column 0");
    assert_eq!(reason("}"), "expected value at line 1 column 1");
    assert_eq!(reason("{} {}"), "trailing characters at line 1 column 4");
    assert_eq!(
        reason(r#"{"domian": "shop"}"#),
        "unrecognized field name 'domian' at line 1 column 9"
    );
    assert!(decode(r#"{"hitsAddend": -1}"#).is_err());
    assert!(decode("[]").is_err());
    assert!(decode_request(b"{\"domain\": \"\xff\"}").is_err());
}

fn encode(response: &RateLimitResponse) -> String {
    String::from_utf8(encode_response(response).unwrap()).unwrap()
}

#[test]
fn answers_leave_out_zeros_and_name_enums_and_write_durations_in_seconds() {
    let response = RateLimitResponse {
        overall_code: Code::OverLimit.into(),
        statuses: vec![
            DescriptorStatus {
                code: Code::OverLimit.into(),
                current_limit: Some(RateLimit {
                    requests_per_unit: 10,
                    unit: Unit::Week.into(),
                    name: String::new(),
                    unit_multiplier: Some(2),
                }),
                limit_remaining: 0,
                duration_until_reset: Some(prost_types::Duration { seconds: 58, nanos: 0 }),
                quota: None,
            },
            DescriptorStatus {
                code: Code::Ok.into(),
                limit_remaining: u32::MAX,
                ..DescriptorStatus::default()
            },
        ],
        raw_body: b"no".to_vec(),
        ..RateLimitResponse::default()
    };
    assert_eq!(
        encode(&response),
        concat!(
            r#"{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT","#,
            r#""currentLimit":{"requestsPerUnit":10,"unit":"WEEK","unitMultiplier":2},"#,
            r#""durationUntilReset":"58s"},{"code":"OK","limitRemaining":4294967295}],"#,
            r#""rawBody":"bm8="}"#
        )
    );
}

/// Checks status, content type and body.
fn check(
    answer: Result<RateLimitResponse, JsonError>,
    status: u16,
    content_type: &str,
    body: &str,
) -> HeaderMap {
    let http = http_response(answer);
    assert_eq!(http.status().as_u16(), status);
    assert_eq!(http.headers()[CONTENT_TYPE], content_type);
    assert_eq!(std::str::from_utf8(http.body()).unwrap(), body);
    http.headers().clone()
}

fn with_code(code: Code) -> RateLimitResponse {
    RateLimitResponse { overall_code: code.into(), ..RateLimitResponse::default() }
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

#[test]
fn the_http_status_follows_the_overall_code() {
    // Vector 118; the reason after `Bad Request` is ours.
    check(Ok(with_code(Code::Ok)), 200, JSON, r#"{"overallCode":"OK"}"#);
    check(Ok(with_code(Code::OverLimit)), 429, JSON, r#"{"overallCode":"OVER_LIMIT"}"#);
    check(Ok(with_code(Code::Unknown)), 500, JSON, "{}");
    let empty = "Bad Request: EOF while parsing a value at line 1 column 0\n";
    check(Err(decode("").unwrap_err()), 400, TEXT, empty);
    let error = JsonError::Service(limiter::Error::EmptyDomain.into());
    check(Err(error), 400, TEXT, "Bad Request: rate limit domain must not be empty\n");
}

#[test]
fn headers_for_clients_are_headers_here() {
    let header = |key: &str, value: &str| WireHeader {
        key: key.into(),
        value: value.into(),
        raw_value: Vec::new(),
    };
    let mut response = with_code(Code::OverLimit);
    response.response_headers_to_add = vec![
        header("RateLimit-Limit", "10"),
        header("retry-after", "58"),
        header("content-type", "text/html"),
        header("bad name", "x"),
        header("bad-value", "a\r\nb"),
    ];
    let body = encode(&response);
    let headers = check(Ok(response), 429, JSON, &body);
    assert_eq!(headers["ratelimit-limit"], "10");
    assert_eq!(headers["retry-after"], "58");
    assert_eq!(headers.len(), 3);
}

#[test]
fn refunds_need_to_be_allowed() {
    let asked = decode(r#"{"descriptors": [{}, {"isNegativeHits": true}]}"#).unwrap();
    assert_eq!(
        check_refunds(&asked, false).unwrap_err().to_string(),
        "descriptors[1].isNegativeHits: refunds need JSON_ALLOW_REFUNDS=true here"
    );
    assert!(check_refunds(&asked, true).is_ok());
    assert!(check_refunds(&decode("{}").unwrap(), false).is_ok());
}
