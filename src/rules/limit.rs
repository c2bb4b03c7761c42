//! One limit of a rule: what its bucket is measured against and what else the answer needs.

use crate::algorithm::{Algorithm, Limit};
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

impl Defaults {
    /// The limit of a request's override: everything but these three is the defaults'.
    /// `None` if its window is longer than a year.
    pub fn limit(&self, requests: u32, unit: Unit, multiplier: u32) -> Option<RuleLimit> {
        todo!("{requests} {unit:?} {multiplier}")
    }
}
