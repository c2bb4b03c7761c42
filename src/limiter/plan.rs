//! Which limits apply to each descriptor of a request.

use super::{Descriptor, Error, Request};
use crate::algorithm::MAX_LOG;
use crate::rules::{Allows, Domain, Match, Rule, RuleId, RuleLimit, RuleSet};
use smallvec::SmallVec;

/// What applies to each descriptor, in their order. Large, so it is filled where it stands.
#[derive(Debug, Default)]
pub(super) struct Plan<'p> {
    pub(super) descriptors: SmallVec<[Planned<'p>; 4]>,
}

/// What applies to one descriptor.
#[derive(Debug)]
pub(super) enum Planned<'p> {
    /// Nothing.
    Unmatched,
    /// A rule of the policies.
    Rule(Matched<'p>),
    /// The limit that it brings along.
    Override(Box<RuleLimit>),
}

/// A rule that answers a descriptor.
#[derive(Debug)]
pub(super) struct Matched<'p> {
    pub(super) rule: &'p Rule,
    pub(super) found: Match<'p>,
    /// What is left of its limits once others have replaced some.
    pub(super) limits: SmallVec<[&'p RuleLimit; 2]>,
}

/// A limit that is replaced, by name, and the rule that says so.
type Replaced<'p> = (&'p str, RuleId);

impl<'p> Plan<'p> {
    /// Finds what applies to each descriptor of a request.
    pub(super) fn fill(
        &mut self,
        rules: &'p RuleSet,
        domain: &'p Domain,
        request: &Request<'_>,
    ) -> Result<(), Error> {
        for descriptor in &request.descriptors {
            self.descriptors.push(Planned::of(rules, domain, descriptor)?);
        }
        self.replace();
        Ok(())
    }

    /// Drops every limit that another rule of this request replaces. There is no precedence: two
    /// that replace each other both go.
    fn replace(&mut self) {
        let replaced = self.replaced();
        if replaced.is_empty() {
            return;
        }
        for planned in &mut self.descriptors {
            if let Planned::Rule(matched) = planned {
                let rule = matched.found.rule;
                let is_replaced = |limit: &RuleLimit| {
                    replaced.iter().any(|(name, by)| **name == *limit.name && *by != rule)
                };
                matched.limits.retain(|limit| !is_replaced(limit));
            }
        }
    }

    fn replaced(&self) -> SmallVec<[Replaced<'p>; 4]> {
        let mut replaced: SmallVec<[Replaced<'p>; 4]> = SmallVec::new();
        for planned in &self.descriptors {
            if let Planned::Rule(matched) = planned {
                let names = matched.replaces();
                replaced.extend(names.map(|name| (name, matched.found.rule)));
            }
        }
        replaced.sort_unstable();
        replaced.dedup();
        replaced
    }
}

impl<'p> Planned<'p> {
    fn of(
        rules: &'p RuleSet,
        domain: &'p Domain,
        descriptor: &Descriptor<'_>,
    ) -> Result<Self, Error> {
        if let Some(own) = descriptor.limit_override {
            let limit = domain.defaults.limit(own.requests, own.unit, own.unit_multiplier);
            let limit = limit.ok_or(Error::OverrideTooLong)?;
            if limit.limit.is_oversized_log() {
                return Err(Error::OverrideTooLarge(MAX_LOG));
            }
            return Ok(Self::Override(Box::new(limit)));
        }
        let matched = domain.find(&descriptor.entries);
        Ok(matched.and_then(|found| Matched::of(rules, found)).map_or(Self::Unmatched, Self::Rule))
    }

    /// The limits to charge; none if nothing limits it.
    pub(super) fn limits(&self) -> impl Iterator<Item = &RuleLimit> {
        let (of_rule, own): (&[&RuleLimit], _) = match self {
            Self::Unmatched => (&[], None),
            Self::Rule(matched) => (&matched.limits, None),
            Self::Override(limit) => (&[], Some(&**limit)),
        };
        of_rule.iter().copied().chain(own)
    }

    pub(super) fn rule_id(&self) -> Option<RuleId> {
        match self {
            Self::Rule(matched) => Some(matched.found.rule),
            Self::Unmatched | Self::Override(_) => None,
        }
    }

    /// The rule that it matches.
    pub(super) fn rule(&self) -> Option<&'p Rule> {
        match self {
            Self::Rule(matched) => Some(matched.rule),
            Self::Unmatched | Self::Override(_) => None,
        }
    }
}

impl<'p> Matched<'p> {
    fn of(rules: &'p RuleSet, found: Match<'p>) -> Option<Self> {
        let rule = rules.rule(found.rule)?;
        Some(Self { rule, found, limits: limits(rule).iter().collect() })
    }

    fn replaces(&self) -> impl Iterator<Item = &'p str> + use<'p> {
        let own: &'p [Box<str>] = match &self.rule.allows {
            Allows::Unlimited { replaces, .. } => replaces,
            Allows::Limits(_) => &[],
        };
        let of_limits = limits(self.rule).iter().flat_map(|limit| &limit.replaces);
        own.iter().chain(of_limits).map(|name| &**name)
    }
}

/// A rule's limits; none if it is unlimited.
pub(super) fn limits(rule: &Rule) -> &[RuleLimit] {
    match &rule.allows {
        Allows::Unlimited { .. } => &[],
        Allows::Limits(limits) => limits,
    }
}
