//! What the idempotency filter tells operators. Labels come from policies and from fixed words,
//! never from a client.

use super::declare::Declare;
use prometheus::{Histogram, HistogramVec, IntCounterVec, IntGauge};
use std::time::Duration;

/// Every series of the idempotency filter.
#[derive(Debug)]
pub struct IdempotencySeries {
    requests: IntCounterVec,
    completes: IntCounterVec,
    releases: IntCounterVec,
    renews: IntCounterVec,
    unknown: IntCounterVec,
    not_stored: IntCounterVec,
    store_seconds: HistogramVec,
    execution_seconds: Histogram,
    replay_age_seconds: Histogram,
    stored_bytes: Histogram,
    lease_left_seconds: Histogram,
    in_flight: IntGauge,
    policy_loads: IntCounterVec,
}

/// The words of labels.
#[derive(Clone, Debug, Default)]
pub struct IdempotencyWords {
    /// What completions and renewals come to.
    pub results: Vec<&'static str>,
    /// Why operations are given back.
    pub releases: Vec<&'static str>,
    /// Why nobody knows an outcome.
    pub unknown: Vec<&'static str>,
    /// Why answers are not stored.
    pub not_stored: Vec<&'static str>,
}

/// What became of a request with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// It runs.
    Claimed,
    /// It runs, and may have run before.
    Takeover,
    /// It was answered from the store.
    Replayed,
    /// Another attempt runs.
    InProgress,
    /// Its key was used for something else.
    Mismatch,
    /// Nobody knows whether it ran.
    OutcomeUnknown,
    /// It ran, and its answer was not stored.
    Tombstone,
    /// It runs unprotected.
    Bypass,
    /// It has no key that can be used.
    InvalidKey,
    /// Its body is too large.
    TooLarge,
    /// Its body has not come in time.
    TooSlow,
    /// It ended before its body was there.
    Unfinished,
    /// The record is of another version.
    Unverifiable,
    /// The store could not say.
    StoreUnavailable,
}

/// What is asked of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordOp {
    /// To run an operation.
    Claim,
    /// To go on running it.
    Renew,
    /// To keep its outcome.
    Complete,
    /// To give it back.
    Release,
}

impl RequestOutcome {
    /// Every one.
    const ALL: [Self; 14] = [
        Self::Claimed,
        Self::Takeover,
        Self::Replayed,
        Self::InProgress,
        Self::Mismatch,
        Self::OutcomeUnknown,
        Self::Tombstone,
        Self::Bypass,
        Self::InvalidKey,
        Self::TooLarge,
        Self::TooSlow,
        Self::Unfinished,
        Self::Unverifiable,
        Self::StoreUnavailable,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Takeover => "takeover",
            Self::Replayed => "replayed",
            Self::InProgress => "in_progress",
            Self::Mismatch => "mismatch",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::Tombstone => "tombstone",
            Self::Bypass => "bypass",
            Self::InvalidKey => "invalid_key",
            Self::TooLarge => "too_large",
            Self::TooSlow => "too_slow",
            Self::Unfinished => "unfinished",
            Self::Unverifiable => "unverifiable",
            Self::StoreUnavailable => "store_unavailable",
        }
    }
}

impl RecordOp {
    const fn word(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Renew => "renew",
            Self::Complete => "complete",
            Self::Release => "release",
        }
    }
}

impl IdempotencySeries {
    pub(super) fn new(declare: &Declare) -> Self {
        Self {
            requests: declare.idempotency_requests(),
            completes: declare.idempotency_completes(),
            releases: declare.idempotency_releases(),
            renews: declare.idempotency_renews(),
            unknown: declare.idempotency_unknown(),
            not_stored: declare.idempotency_not_stored(),
            store_seconds: declare.idempotency_store_seconds(),
            execution_seconds: declare.idempotency_execution_seconds(),
            replay_age_seconds: declare.idempotency_replay_age_seconds(),
            stored_bytes: declare.idempotency_stored_bytes(),
            lease_left_seconds: declare.idempotency_lease_left_seconds(),
            in_flight: declare.idempotency_in_flight(),
            policy_loads: declare.idempotency_policy_loads(),
        }
    }

    /// Shows series from now on, at zero, by the words of their labels.
    pub fn declare_words(&self, words: &IdempotencyWords) {
        let all = [
            (&self.completes, &words.results),
            (&self.renews, &words.results),
            (&self.releases, &words.releases),
            (&self.unknown, &words.unknown),
            (&self.not_stored, &words.not_stored),
        ];
        for (counters, words) in all {
            for word in words {
                _ = counters.with_label_values(&[word]);
            }
        }
    }

    /// Shows the series of a route from now on, at zero.
    pub fn declare_route(&self, route: &str) {
        for outcome in RequestOutcome::ALL {
            _ = self.requests.with_label_values(&[route, outcome.word()]);
        }
    }

    /// Counts a request of a route.
    pub fn request(&self, route: &str, outcome: RequestOutcome) {
        self.requests.with_label_values(&[route, outcome.word()]).inc();
    }

    /// Counts a completion by what it came to.
    pub fn completed(&self, result: &'static str) {
        self.completes.with_label_values(&[result]).inc();
    }

    /// Counts a release by its reason.
    pub fn released(&self, reason: &'static str) {
        self.releases.with_label_values(&[reason]).inc();
    }

    /// Counts a renewal by what it came to.
    pub fn renewed(&self, result: &'static str) {
        self.renews.with_label_values(&[result]).inc();
    }

    /// Counts an operation whose outcome nobody knows, by its cause.
    pub fn unknown(&self, cause: &'static str) {
        self.unknown.with_label_values(&[cause]).inc();
    }

    /// Counts an answer that was not stored, by its reason.
    pub fn not_stored(&self, reason: &'static str) {
        self.not_stored.with_label_values(&[reason]).inc();
    }

    /// Notes how long the store took.
    pub fn store_took(&self, op: RecordOp, took: Duration) {
        self.store_seconds.with_label_values(&[op.word()]).observe(took.as_secs_f64());
    }

    /// Notes how long an operation ran, and what was left of its lease.
    pub fn executed(&self, took: Duration, lease_left: Duration) {
        self.execution_seconds.observe(took.as_secs_f64());
        self.lease_left_seconds.observe(lease_left.as_secs_f64());
    }

    /// Notes how old a replayed answer is.
    pub fn replayed(&self, age: Duration) {
        self.replay_age_seconds.observe(age.as_secs_f64());
    }

    /// Notes the size of a body that is stored.
    pub fn stored(&self, n_bytes: usize) {
        #[expect(clippy::cast_precision_loss, reason = "a few megabytes")]
        self.stored_bytes.observe(n_bytes as f64);
    }

    /// Counts a policy that was put in force, or refused.
    pub fn policy_loaded(&self, is_sound: bool) {
        let result = if is_sound { "ok" } else { "error" };
        self.policy_loads.with_label_values(&[result]).inc();
    }

    /// An operation begins to be under way.
    pub fn began(&self) {
        self.in_flight.inc();
    }

    /// An operation is under way no longer.
    pub fn ended(&self) {
        self.in_flight.dec();
    }
}
