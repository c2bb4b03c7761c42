//! How rate-limit messages become bytes: as protobuf, in buffers of their size.

use super::proto::{RateLimitRequest, RateLimitResponse};
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstDecoder, ProstEncoder};

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
    type Decoder = ProstDecoder<RateLimitRequest>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(BufferSettings::new(BUFFER_SIZE, YIELD_THRESHOLD))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(BufferSettings::new(BUFFER_SIZE, YIELD_THRESHOLD))
    }
}
