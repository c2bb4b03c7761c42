//! How long to wait before the next connection: twice as long each time, until one was of use.

use super::End;
use crate::settings::XdsRetry;
use std::time::Duration;

/// Waits that grow.
#[derive(Debug)]
pub(super) struct Backoff {
    retry: XdsRetry,
    /// How many times the first wait is doubled.
    n_doubled: u32,
}

impl Backoff {
    pub(super) fn new(retry: XdsRetry) -> Self {
        Self { retry, n_doubled: 0 }
    }

    /// A set was accepted: the next wait is a first one.
    pub(super) fn reset(&mut self) {
        self.n_doubled = 0;
    }

    /// The wait after a connection that ended so.
    pub(super) fn after(&mut self, end: &End) -> Duration {
        let XdsRetry { unreachable, broken, max, jitter } = self.retry;
        let first = if matches!(end, End::NotConnected(_)) { unreachable } else { broken };
        let factor = 2_u32.checked_pow(self.n_doubled).unwrap_or(u32::MAX);
        self.n_doubled = self.n_doubled.saturating_add(1);
        let wait = first.saturating_mul(factor).min(max);
        // Servers that lost their xDS server together must not come back together.
        wait.mul_f32(1.0 - jitter * fastrand::f32())
    }
}

#[cfg(test)]
mod tests {
    use super::super::connect::NotConnected;
    use super::*;
    use std::io;

    fn backoff(jitter: f32) -> Backoff {
        Backoff::new(XdsRetry {
            unreachable: Duration::from_secs(3),
            broken: Duration::from_secs(10),
            max: Duration::from_secs(60),
            jitter,
        })
    }

    fn unreachable() -> End {
        End::NotConnected(NotConnected::Refused(io::ErrorKind::ConnectionRefused.into()))
    }

    #[test]
    fn waits_double_up_to_the_longest_and_begin_anew_after_a_success() {
        let mut backoff = backoff(0.0);
        let mut waits = || backoff.after(&unreachable()).as_secs();
        assert_eq!([(); 7].map(|()| waits()), [3, 6, 12, 24, 48, 60, 60]);
        for _ in 0..100 {
            backoff.after(&unreachable());
        }
        assert_eq!(backoff.after(&unreachable()).as_secs(), 60);
        backoff.reset();
        assert_eq!(backoff.after(&End::Closed).as_secs(), 10);
        assert_eq!(backoff.after(&End::Closed).as_secs(), 20);
    }

    #[test]
    fn jitter_shortens_by_no_more_than_its_part() {
        let waits: Vec<f32> =
            (0..1000).map(|_| backoff(0.5).after(&End::Closed).as_secs_f32()).collect();
        assert!(waits.iter().all(|wait| (4.9..=10.0).contains(wait)), "{waits:?}");
        assert!(waits.iter().any(|wait| *wait < 6.0) && waits.iter().any(|wait| *wait > 9.0));
    }
}
