//! Our rate-limit messages and those of the envoy-types crate are the same on the wire, but for
//! the two fields of Envoy 1.40 that only ours have.
#![allow(clippy::unwrap_used, reason = "a failed test should panic")]

use envoy_types::pb::envoy::service::ratelimit::v3 as theirs;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use prost::Message;
use prost_types::value::Kind;
use prost_types::{Duration, ListValue, Struct, Timestamp, Value};
use tidegate::envoy::proto::{
    DescriptorStatus, Entry, HeaderValue, Quota, RateLimit, RateLimitDescriptor, RateLimitOverride,
    RateLimitRequest, RateLimitResponse, quota,
};

proptest! {
    #[test]
    fn requests_are_the_same_bytes(ours in request()) {
        let bytes = ours.encode_to_vec();
        let theirs = theirs::RateLimitRequest::decode(bytes.as_slice()).unwrap();
        prop_assert_eq!(&theirs.encode_to_vec(), &bytes);
        prop_assert_eq!(RateLimitRequest::decode(bytes.as_slice()).unwrap(), ours);
    }

    #[test]
    fn responses_mean_the_same(ours in response()) {
        let theirs = theirs::RateLimitResponse::decode(ours.encode_to_vec().as_slice()).unwrap();
        // The order of a map's entries may differ, so bytes are compared once they are read.
        let back = RateLimitResponse::decode(theirs.encode_to_vec().as_slice()).unwrap();
        prop_assert_eq!(back, ours);
    }

    #[test]
    fn any_bytes_are_a_request_to_both_or_to_none(bytes in vec(any::<u8>(), 0..64)) {
        let ours = RateLimitRequest::decode(bytes.as_slice());
        let theirs = theirs::RateLimitRequest::decode(bytes.as_slice());
        prop_assert_eq!(ours.is_ok(), theirs.is_ok());
    }

    #[test]
    fn unknown_fields_are_ignored(ours in request(), number in 100u32..1_000, value: u64) {
        let mut bytes = ours.encode_to_vec();
        prost::encoding::uint64::encode(number, &value, &mut bytes);
        prop_assert_eq!(RateLimitRequest::decode(bytes.as_slice()).unwrap(), ours);
    }
}

#[test]
fn the_multiplier_of_an_override_is_field_3() {
    let limit = RateLimitOverride { unit_multiplier: Some(5), ..RateLimitOverride::default() };
    assert_eq!(limit.encode_to_vec(), [3 << 3 | 2, 2, 1 << 3, 5]);
}

#[test]
fn the_multiplier_of_a_limit_is_field_4() {
    let limit = RateLimit { unit_multiplier: Some(5), ..RateLimit::default() };
    assert_eq!(limit.encode_to_vec(), [4 << 3 | 2, 2, 1 << 3, 5]);
}

#[test]
fn hits_of_zero_are_not_absent_hits() {
    let zero = RateLimitDescriptor { hits_addend: Some(0), ..RateLimitDescriptor::default() };
    let bytes = zero.encode_to_vec();
    assert_eq!(bytes, [3 << 3 | 2, 0]);
    assert_eq!(RateLimitDescriptor::decode(bytes.as_slice()).unwrap(), zero);
}

#[test]
fn our_descriptors_are_named_as_envoys_are() {
    let pool = prost_reflect::DescriptorPool::decode(tidegate::envoy::proto::DESCRIPTORS).unwrap();
    let service = pool.get_service_by_name("envoy.service.ratelimit.v3.RateLimitService").unwrap();
    let method = service.methods().next().unwrap();
    assert_eq!(method.full_name(), "envoy.service.ratelimit.v3.RateLimitService.ShouldRateLimit");
    assert_eq!(method.input().full_name(), "envoy.service.ratelimit.v3.RateLimitRequest");
    assert_eq!(method.output().full_name(), "envoy.service.ratelimit.v3.RateLimitResponse");
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just("\0".to_owned()), ".{0,20}", "[a-z]{300}"]
}

fn request() -> impl Strategy<Value = RateLimitRequest> {
    (text(), vec(descriptor(), 0..5), any::<u32>()).prop_map(
        |(domain, descriptors, hits_addend)| RateLimitRequest { domain, descriptors, hits_addend },
    )
}

fn descriptor() -> impl Strategy<Value = RateLimitDescriptor> {
    let entry = (text(), text()).prop_map(|(key, value)| Entry { key, value });
    let limit = (any::<u32>(), any::<i32>()).prop_map(|(requests_per_unit, unit)| {
        RateLimitOverride { requests_per_unit, unit, unit_multiplier: None }
    });
    let fields = (vec(entry, 0..5), option::of(limit), any::<Option<u64>>(), any::<bool>());
    fields.prop_map(|(entries, limit, hits_addend, is_negative_hits)| RateLimitDescriptor {
        entries,
        limit,
        hits_addend,
        is_negative_hits,
    })
}

fn response() -> impl Strategy<Value = RateLimitResponse> {
    let headers = || vec(header(), 0..3);
    let fields = (
        any::<i32>(),
        vec(status(), 0..4),
        headers(),
        headers(),
        any::<Vec<u8>>(),
        option::of(fields()),
        option::of(quota()),
    );
    fields.prop_map(|(overall_code, statuses, response, request, raw_body, metadata, quota)| {
        RateLimitResponse {
            overall_code,
            statuses,
            response_headers_to_add: response,
            request_headers_to_add: request,
            raw_body,
            dynamic_metadata: metadata,
            quota,
        }
    })
}

fn status() -> impl Strategy<Value = DescriptorStatus> {
    let limit = (any::<u32>(), any::<i32>(), text());
    let limit = limit.prop_map(|(requests_per_unit, unit, name)| RateLimit {
        requests_per_unit,
        unit,
        name,
        unit_multiplier: None,
    });
    let duration = any::<(i64, i32)>().prop_map(|(seconds, nanos)| Duration { seconds, nanos });
    let fields =
        (any::<i32>(), option::of(limit), any::<u32>(), option::of(duration), option::of(quota()));
    fields.prop_map(|(code, current_limit, limit_remaining, duration_until_reset, quota)| {
        DescriptorStatus { code, current_limit, limit_remaining, duration_until_reset, quota }
    })
}

fn quota() -> impl Strategy<Value = Quota> {
    let until = any::<(i64, i32)>().prop_map(|(seconds, nanos)| {
        quota::ExpirationSpecifier::ValidUntil(Timestamp { seconds, nanos })
    });
    (any::<u32>(), option::of(until), text()).prop_map(|(requests, expiration_specifier, id)| {
        Quota { requests, id, expiration_specifier }
    })
}

fn header() -> impl Strategy<Value = HeaderValue> {
    (text(), text(), any::<Vec<u8>>()).prop_map(|(key, value, raw_value)| HeaderValue {
        key,
        value,
        raw_value,
    })
}

fn fields() -> impl Strategy<Value = Struct> {
    let leaf = prop_oneof![
        Just(Kind::NullValue(0)),
        any::<bool>().prop_map(Kind::BoolValue),
        (-1e9..1e9).prop_map(Kind::NumberValue),
        text().prop_map(Kind::StringValue),
    ];
    let value = leaf.prop_map(Value::from).prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4)
                .prop_map(|values| Kind::ListValue(ListValue { values }).into()),
            named(inner).prop_map(|fields| Kind::StructValue(fields).into()),
        ]
    });
    named(value)
}

fn named(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Struct> {
    proptest::collection::btree_map(text(), value, 0..4).prop_map(|fields| Struct { fields })
}
