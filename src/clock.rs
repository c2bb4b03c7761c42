//! Where time comes from: the system's clock, or one that a test holds.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A point in time or a length of time, in whole microseconds; points count from the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub u64);

/// Tells the time.
pub trait Clock: Debug + Send + Sync {
    /// The time since the Unix epoch.
    fn now(&self) -> Micros;
}

/// Wall time when it was made, carried on by the monotonic clock: it never steps.
#[derive(Debug)]
pub struct SystemClock {
    started_at: Micros,
    started: Instant,
}

/// A clock that stands still until a test moves it.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl Micros {
    /// One second.
    pub const SECOND: Self = Self(1_000_000);

    /// That many seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(Self::SECOND.0))
    }

    /// Whole seconds, rounded up.
    pub const fn ceil_secs(self) -> u64 {
        self.0.div_ceil(Self::SECOND.0)
    }

    /// `self + other`, at most `u64::MAX`.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// `self - other`, at least zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl From<Duration> for Micros {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }
}

impl From<Micros> for Duration {
    fn from(micros: Micros) -> Self {
        Self::from_micros(micros.0)
    }
}

impl SystemClock {
    /// A clock that starts from the wall time of now.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system")]
    pub fn new() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started_at: since_epoch.into(), started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Micros {
        self.started_at.saturating_add(self.started.elapsed().into())
    }
}

impl ManualClock {
    /// A clock that says `now`.
    pub fn at(now: Micros) -> Self {
        Self(AtomicU64::new(now.0))
    }

    /// Sets the time, also backwards.
    pub fn set(&self, now: Micros) {
        self.0.store(now.0, Ordering::Relaxed);
    }

    /// Moves the time forward.
    pub fn advance(&self, by: Micros) {
        self.0.fetch_add(by.0, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Micros {
        Micros(self.0.load(Ordering::Relaxed))
    }
}
