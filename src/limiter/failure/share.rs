//! Which part of a limit one server may give out by itself.

use crate::algorithm::{Algorithm, Limit};
use crate::clock::Micros;

/// A ratio above 0 and at most 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    parts: u64,
    of: u64,
}

/// A local bucket saves up what drips into it in that time.
const BURST_TIME: Micros = Micros::from_secs(60);

impl Share {
    /// Everything.
    pub const WHOLE: Self = Self { parts: 1, of: 1 };

    /// `parts / of`, if that is a share.
    pub fn new(parts: u32, of: u32) -> Option<Self> {
        (0 < parts && parts <= of).then(|| Self { parts: parts.into(), of: of.into() })
    }

    /// The bucket that paces a share of a limit: L as the rule, W' = ⌈W / share⌉,
    /// B = max(1, ⌊L · min(W, 60 s) / W'⌋). Refused charges are recorded if the policy says so.
    pub(super) fn pace(self, limit: &Limit, post_paid: bool) -> Limit {
        let wide = |n: u64| u128::from(n);
        let window = (wide(limit.window.0) * wide(self.of)).div_ceil(wide(self.parts)).max(1);
        let saved = wide(limit.requests.into()) * wide(limit.window.min(BURST_TIME).0) / window;
        Limit {
            algorithm: Algorithm::TokenBucket,
            requests: limit.requests,
            window: Micros(u64::try_from(window).unwrap_or(u64::MAX)),
            burst: u32::try_from(saved.max(1)).unwrap_or(u32::MAX),
            count_denied: post_paid,
        }
    }
}

impl Default for Share {
    fn default() -> Self {
        Self::WHOLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(share: (u32, u32), requests: u32, seconds: u64) -> (u64, u32) {
        let limit = Limit {
            algorithm: Algorithm::SlidingWindowLog,
            requests,
            window: Micros::from_secs(seconds),
            burst: 7,
            count_denied: false,
        };
        let paced = Share::new(share.0, share.1).unwrap().pace(&limit, false);
        assert_eq!((paced.algorithm, paced.requests), (Algorithm::TokenBucket, requests));
        (paced.window.0, paced.burst)
    }

    #[test]
    fn a_minute_of_the_share_may_come_at_once() {
        assert_eq!(pace((1, 1), 100, 1), (1_000_000, 100));
        assert_eq!(pace((1, 3), 100, 60), (180_000_000, 33));
        assert_eq!(pace((33, 100), 100, 1), (3_030_304, 32));
        assert_eq!(pace((1, 1), 3600, 3600), (3_600_000_000, 60));
        assert_eq!(pace((1, 3), 10_000, 2_592_000).1, 1);
    }

    #[test]
    fn a_share_is_above_0_and_at_most_1() {
        assert_eq!(Share::new(0, 1), None);
        assert_eq!(Share::new(1, 0), None);
        assert_eq!(Share::new(4, 3), None);
        assert!(Share::new(3, 3).is_some());
    }
}
