//! Requests, decisions and policies made by hand, for the tests of this room.

use super::proto::{Entry, RateLimitDescriptor, RateLimitRequest};
use super::respond::Decided;
use crate::limiter::{Code, DecidedBy, Status, StatusLimit};
use crate::rules::{
    Allows, Consume, Defaults, DeniedBody, Domain, Labels, Level, Rule, RuleId, RuleSet, Source,
    Unit,
};

pub(super) fn request(descriptors: &[&[(&str, &str)]]) -> RateLimitRequest {
    RateLimitRequest {
        domain: "shop".into(),
        descriptors: descriptors.iter().map(|entries| descriptor(entries)).collect(),
        hits_addend: 0,
    }
}

pub(super) fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |&(key, value): &(&str, &str)| Entry { key: key.into(), value: value.into() };
    RateLimitDescriptor {
        entries: entries.iter().map(entry).collect(),
        ..RateLimitDescriptor::default()
    }
}

pub(super) fn limit(requests: u32, unit: Unit, name: &str) -> StatusLimit {
    let name = Some(name).filter(|name| !name.is_empty()).map(Into::into);
    StatusLimit { requests, unit, unit_multiplier: 1, name }
}

pub(super) fn unmatched() -> Status {
    Status {
        code: Code::Ok,
        rule: None,
        limit: None,
        remaining: 0,
        reset_seconds: None,
        refused: false,
        never_fits: false,
        quota: false,
        decided_by: DecidedBy::NoLimit,
    }
}

pub(super) fn unlimited() -> Status {
    Status { remaining: u32::MAX, decided_by: DecidedBy::Unlimited, ..unmatched() }
}

pub(super) fn passed(limit: StatusLimit, remaining: u32, reset: u64) -> Status {
    Status {
        limit: Some(limit),
        remaining,
        reset_seconds: Some(reset),
        decided_by: DecidedBy::Store,
        ..unmatched()
    }
}

pub(super) fn refused(limit: StatusLimit, wait: u64) -> Status {
    Status { code: Code::OverLimit, refused: true, ..passed(limit, 0, wait) }
}

pub(super) fn in_shadow(status: Status) -> Status {
    Status { code: Code::Ok, ..status }
}

pub(super) fn as_quota(status: Status) -> Status {
    Status { quota: true, ..status }
}

pub(super) fn by_rule(id: u32, status: Status) -> Status {
    Status { rule: Some(RuleId(id)), ..status }
}

/// An answer without any policies behind it.
pub(super) fn decided(code: Code, statuses: &[Status]) -> Decided<'_> {
    static NO_RULES: std::sync::LazyLock<RuleSet> = std::sync::LazyLock::new(RuleSet::default);
    Decided { code, statuses, rules: &NO_RULES }
}

pub(super) fn rule(path: &str, line: u32) -> Rule {
    Rule {
        source: Source { file: "shop.yaml".into(), line },
        path: path.into(),
        allows: Allows::Unlimited { name: "".into(), replaces: Box::default() },
        shadow_mode: false,
        quota_mode: false,
        detailed_metric: false,
        metadata: None,
        labels: Labels::new("shop", std::iter::empty()),
        labels_vary: false,
    }
}

/// The policies of a domain `shop`.
pub(super) fn rules(denied: Option<DeniedBody>, rules: Vec<Rule>) -> RuleSet {
    let domain = Domain {
        name: "shop".into(),
        root: Level::default(),
        hash_tag: Box::default(),
        consume: Consume::Each,
        defaults: Defaults::default(),
        denied,
    };
    RuleSet { domains: [("shop".into(), domain)].into_iter().collect(), rules }
}
