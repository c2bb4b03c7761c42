//! What the numbers of a limit may be, and which keys its algorithm has.

use super::fields::{Fields, Sink};
use super::limit::Chosen;
use crate::algorithm::{Algorithm, MAX_LOG};
use crate::rules::{RuleLimit, Unit};

/// A bucket that takes longer to fill than this is a mistake (100 years of 365 days).
const MAX_FILL_SECONDS: u128 = 100 * 365 * 86_400;

/// Entries of a log: more are dear, and more than [`MAX_LOG`] too dear.
const DEAR_LOG: u32 = 10_000;
/// What Redis needs for an entry, in bytes.
const LOG_ENTRY_BYTES: u64 = 118;

impl<'a> Sink<'a> {
    /// Keys of other algorithms: an error where the rule itself names its algorithm.
    pub(super) fn check_meaning(&mut self, fields: &Fields<'a>, chosen: Chosen) {
        let Chosen { algorithm, by_rule } = chosen;
        let meaningless: &[(&str, &str)] = match algorithm {
            Algorithm::FixedWindow(_) => &[("burst", "token_bucket and leaky_bucket")],
            Algorithm::SlidingWindowLog | Algorithm::SlidingWindowCounter => {
                &[("burst", "token_bucket and leaky_bucket"), ("window", "fixed_window")]
            }
            Algorithm::TokenBucket | Algorithm::LeakyBucket => &[("window", "fixed_window")],
        };
        for (name, of) in meaningless {
            let Some(field) = fields.get(name) else { continue };
            let algorithm = algorithm.name();
            if by_rule {
                let message = format!("`{name}` means nothing for {algorithm}, only for {of}");
                self.error(field.key_place, message);
            } else {
                let message = format!(
                    "`{name}` has no effect: it is for {of}, and this rule's algorithm is \
                     {algorithm} by default; name the `algorithm` here"
                );
                self.warn(field.key_place, message);
            }
        }
    }

    /// The fault of a window that is longer than a year.
    pub(super) fn window_too_long(&mut self, fields: &Fields<'a>, unit: Unit, multiplier: u32) {
        let field = fields.get("unit_multiplier").or_else(|| fields.get("unit"));
        let place = field.map_or(fields.place, |field| field.value.place);
        let message = format!(
            "the window of {multiplier} × {} is longer than a year, the longest possible",
            unit.name()
        );
        self.error(place, message);
    }

    /// A bucket must fill or drain within a lifetime.
    pub(super) fn check_fill(&mut self, fields: &Fields<'a>, limit: &RuleLimit) {
        let limit = &limit.limit;
        if !has_burst(limit.algorithm) || limit.requests == 0 {
            return;
        }
        let window = u128::from(limit.window.ceil_secs());
        let seconds = (u128::from(limit.burst) * window).div_ceil(u128::from(limit.requests));
        if seconds > MAX_FILL_SECONDS {
            let place = fields.get("burst").map_or(fields.place, |field| field.value.place);
            let years = seconds / (365 * 86_400);
            let message = format!(
                "a burst of {} takes {years} years at this rate, expected at most 100",
                limit.burst
            );
            self.error(place, message);
        }
    }

    /// A log must fit into memory.
    pub(super) fn check_log(&mut self, fields: &Fields<'a>, limit: &RuleLimit) {
        let requests = limit.limit.requests;
        if limit.limit.algorithm != Algorithm::SlidingWindowLog || requests <= DEAR_LOG {
            return;
        }
        let place = fields.get("requests_per_unit").map_or(fields.place, |it| it.value.place);
        if limit.limit.is_oversized_log() {
            let message = format!(
                "sliding_window_log keeps every request of a window, at most {MAX_LOG}; \
                 sliding_window_counter has no such bound"
            );
            self.error(place, message);
        } else {
            let bytes = u64::from(requests) * LOG_ENTRY_BYTES;
            let message = format!(
                "sliding_window_log keeps every request of a window: up to {bytes} bytes for each \
                 bucket; sliding_window_counter needs only a few"
            );
            self.warn(place, message);
        }
    }
}

/// Whether `burst` means something for it.
pub(super) fn has_burst(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket)
}
