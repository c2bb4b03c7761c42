//! How rate-limit messages become bytes: as protobuf, in buffers of their size.

use super::proto::{
    Entry, RateLimitDescriptor, RateLimitOverride, RateLimitRequest, RateLimitResponse,
};
use prost::bytes::Buf;
use prost::{DecodeError, Message};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::ProstEncoder;

/// Most messages are a few hundred bytes; tonic would set 8 KiB aside for each.
const BUFFER_SIZE: usize = 512;
/// As tonic's default: an answer is one message and is sent when it is complete.
const YIELD_THRESHOLD: usize = 32 * 1024;

/// The codec of the rate-limit service.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateLimitCodec;

impl Codec for RateLimitCodec {
    type Encode = RateLimitResponse;
    type Decode = RateLimitRequest;
    type Encoder = ProstEncoder<RateLimitResponse>;
    type Decoder = RequestDecoder;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(BufferSettings::new(BUFFER_SIZE, YIELD_THRESHOLD))
    }

    fn decoder(&mut self) -> Self::Decoder {
        RequestDecoder
    }
}

/// Reads requests, whatever the bytes of their texts are.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestDecoder;

impl Decoder for RequestDecoder {
    type Item = RateLimitRequest;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        // All of a message is in one chunk.
        let read = request(buffer.chunk()).map_err(|error| Status::internal(error.to_string()));
        buffer.advance(buffer.remaining());
        read.map(Some)
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER_SIZE, YIELD_THRESHOLD)
    }
}

/// Envoy passes on what clients write into headers. If bytes that are no UTF-8 failed the call, a
/// client could switch off every limit of its request with one of them.
fn request(bytes: &[u8]) -> Result<RateLimitRequest, DecodeError> {
    RateLimitRequest::decode(bytes)
        .or_else(|error| RawRequest::decode(bytes).map(Into::into).map_err(|_| error))
}

/// A request with texts of any bytes.
#[derive(Clone, PartialEq, Message)]
struct RawRequest {
    #[prost(bytes = "vec", tag = "1")]
    domain: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<RawDescriptor>,
    #[prost(uint32, tag = "3")]
    hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
struct RawDescriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<RawEntry>,
    #[prost(message, optional, tag = "2")]
    limit: Option<RateLimitOverride>,
    #[prost(message, optional, tag = "3")]
    hits_addend: Option<u64>,
    #[prost(bool, tag = "4")]
    is_negative_hits: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Message)]
struct RawEntry {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

impl From<RawRequest> for RateLimitRequest {
    fn from(raw: RawRequest) -> Self {
        Self {
            domain: text(&raw.domain),
            descriptors: raw.descriptors.into_iter().map(Into::into).collect(),
            hits_addend: raw.hits_addend,
        }
    }
}

impl From<RawDescriptor> for RateLimitDescriptor {
    fn from(raw: RawDescriptor) -> Self {
        Self {
            entries: raw.entries.into_iter().map(Into::into).collect(),
            limit: raw.limit,
            hits_addend: raw.hits_addend,
            is_negative_hits: raw.is_negative_hits,
        }
    }
}

impl From<RawEntry> for Entry {
    fn from(raw: RawEntry) -> Self {
        Self { key: text(&raw.key), value: text(&raw.value) }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw() -> RawRequest {
        let entry = RawEntry { key: b"user".into(), value: b"ann\xff".into() };
        let descriptor = RawDescriptor {
            entries: vec![entry],
            limit: Some(RateLimitOverride { requests_per_unit: 5, unit: 2, unit_multiplier: None }),
            hits_addend: Some(3),
            is_negative_hits: true,
        };
        RawRequest { domain: b"shop".into(), descriptors: vec![descriptor], hits_addend: 7 }
    }

    #[test]
    fn bytes_that_are_no_utf_8_are_replaced_and_nothing_else_changes() {
        let mut raw = raw();
        let read = request(&raw.encode_to_vec()).unwrap();
        assert_eq!(read.descriptors[0].entries[0].value, "ann\u{fffd}");
        raw.descriptors[0].entries[0].value = "ann\u{fffd}".into();
        assert_eq!(read, RateLimitRequest::decode(raw.encode_to_vec().as_slice()).unwrap());
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let bytes = raw().encode_to_vec();
        assert!(request(&bytes[..bytes.len() - 1]).is_err());
    }
}
