//! One limit of a rule: what its bucket is measured against and what else the answer needs.

use crate::algorithm::{Algorithm, Anchor, Limit};
use crate::clock::Micros;
use std::sync::Arc;

/// The unit of a window, as in policy files and in Envoy's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A second.
    Second,
    /// 60 seconds.
    Minute,
    /// 3600 seconds.
    Hour,
    /// 86,400 seconds.
    Day,
    /// 7 days.
    Week,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
}

/// What the server answers for a limit whose store cannot decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FailureMode {
    /// Let it pass.
    Open,
    /// Refuse it.
    Closed,
    /// A paced token bucket in this server's memory decides.
    #[default]
    Local,
    /// Answer the request with an error, so that Envoy's own setting decides.
    Error,
}

/// What a limit is made of where it names nothing: a domain's `defaults` over the process's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// How to decide.
    pub algorithm: Algorithm,
    /// What to answer when the store cannot.
    pub failure_mode: FailureMode,
    /// Burst for the buckets that have one.
    pub burst: Option<u32>,
    /// Whether refused charges are recorded; `None`: as the algorithm's own default.
    pub count_denied: Option<bool>,
    /// Part of the bucket key.
    pub version: Option<Box<str>>,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::FixedWindow(Anchor::Epoch),
            failure_mode: FailureMode::default(),
            burst: None,
            count_denied: None,
            version: None,
        }
    }
}

/// One limit of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleLimit {
    /// What its bucket is measured against.
    pub limit: Limit,
    /// Unit of its window.
    pub unit: Unit,
    /// Its window is unit × this, at least 1.
    pub unit_multiplier: u32,
    /// Its name, empty if none.
    pub name: Arc<str>,
    /// Names of limits that this one removes from the request.
    pub replaces: Box<[Box<str>]>,
    /// What to answer when the store cannot.
    pub failure_mode: FailureMode,
    /// Whether the policy itself says `count_denied: true`.
    pub post_paid: bool,
    /// Last part of its bucket key: algorithm, window and version.
    pub kind: Box<str>,
}

impl Unit {
    /// Every unit, shortest first.
    pub const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// Its length in seconds.
    pub const fn seconds(self) -> u64 {
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
            Self::Week => 604_800,
            Self::Month => 2_592_000,
            Self::Year => 31_536_000,
        }
    }

    /// Its word in policy files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// The window of `multiplier` units (0 means 1), unless it is longer than a year.
    pub fn window(self, multiplier: u32) -> Option<Micros> {
        let window = Micros::from_secs(self.seconds().checked_mul(multiplier.max(1).into())?);
        (window <= crate::algorithm::MAX_WINDOW).then_some(window)
    }
}

impl FailureMode {
    /// Every mode.
    pub const ALL: [Self; 4] = [Self::Open, Self::Closed, Self::Local, Self::Error];

    /// Its word in policy files and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Local => "local",
            Self::Error => "error",
        }
    }
}

impl Defaults {
    /// The limit of a request's override: everything but these three is the defaults'.
    /// `None` if its window is longer than a year.
    pub fn limit(&self, requests: u32, unit: Unit, unit_multiplier: u32) -> Option<RuleLimit> {
        LimitParts {
            requests,
            unit,
            unit_multiplier,
            defaults: self.clone(),
            name: Arc::default(),
            replaces: Box::default(),
        }
        .build()
    }
}

/// What a [`RuleLimit`] is made of.
#[derive(Clone, Debug)]
pub struct LimitParts {
    /// Hits per window.
    pub requests: u32,
    /// Unit of the window.
    pub unit: Unit,
    /// The window is unit × this; 0 means 1.
    pub unit_multiplier: u32,
    /// Everything that has a default, with what the rule itself names laid over it.
    pub defaults: Defaults,
    /// Its name, empty if none.
    pub name: Arc<str>,
    /// Names of limits that this one removes from the request.
    pub replaces: Box<[Box<str>]>,
}

impl LimitParts {
    /// The limit; `None` if its window is longer than a year.
    pub fn build(self) -> Option<RuleLimit> {
        let Self { requests, unit, unit_multiplier, defaults, name, replaces } = self;
        let window = unit.window(unit_multiplier)?;
        let algorithm = defaults.algorithm;
        let limit = Limit {
            algorithm,
            requests,
            window,
            burst: defaults.burst.unwrap_or(default_burst(algorithm, requests)),
            count_denied: defaults
                .count_denied
                .unwrap_or(matches!(algorithm, Algorithm::FixedWindow(_))),
        };
        Some(RuleLimit {
            limit,
            unit,
            unit_multiplier: unit_multiplier.max(1),
            name,
            replaces,
            failure_mode: defaults.failure_mode,
            post_paid: defaults.count_denied == Some(true),
            kind: kind(algorithm, window, defaults.version.as_deref()),
        })
    }
}

fn default_burst(algorithm: Algorithm, requests: u32) -> u32 {
    match algorithm {
        Algorithm::TokenBucket => requests,
        Algorithm::FixedWindow(_)
        | Algorithm::SlidingWindowLog
        | Algorithm::SlidingWindowCounter
        | Algorithm::LeakyBucket => 1,
    }
}

/// `token_bucket/60`, `fixed_window/first_hit/3600`, `token_bucket/60/v2`: seconds, then version.
fn kind(algorithm: Algorithm, window: Micros, version: Option<&str>) -> Box<str> {
    let mut kind = String::from(algorithm.name());
    if let Algorithm::FixedWindow(anchor) = algorithm {
        kind.push('/');
        kind.push_str(anchor.name());
    }
    kind.push('/');
    kind.push_str(&window.ceil_secs().to_string());
    if let Some(version) = version {
        kind.push('/');
        super::key::escape(&mut kind, version);
    }
    kind.into()
}
