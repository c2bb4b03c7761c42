//! Stops asking a server that does not answer.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tokio::sync::Notify;

/// Opens after [`Breaker::MAX_FAILURES`] failures in a row; only a probe closes it.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: AtomicU32,
    open: AtomicBool,
    opened: Notify,
}

impl Breaker {
    /// So many failures in a row are none too few.
    const MAX_FAILURES: u32 = 5;

    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// A call was answered.
    pub(super) fn succeeded(&self) {
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// A call failed. Says whether that opened it.
    pub(super) fn failed(&self) -> bool {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let opens = failures >= Self::MAX_FAILURES && !self.open.swap(true, Ordering::Relaxed);
        if opens {
            self.opened.notify_one();
        }
        opens
    }

    /// A probe was answered. Says whether that closed it.
    pub(super) fn close(&self) -> bool {
        self.succeeded();
        self.open.swap(false, Ordering::Relaxed)
    }

    /// Waits until it opens.
    pub(super) async fn opened(&self) {
        self.opened.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_failures_in_a_row_open_it_and_only_a_probe_closes_it() {
        let breaker = Breaker::default();
        for _ in 0..4 {
            assert!(!breaker.failed());
        }
        breaker.succeeded();
        for _ in 0..4 {
            assert!(!breaker.failed());
        }
        assert!(!breaker.is_open());
        assert!(breaker.failed());
        assert!(!breaker.failed(), "it opens once");
        breaker.succeeded();
        assert!(breaker.is_open());
        assert!(breaker.close());
        assert!(!breaker.is_open() && !breaker.close());
    }
}
