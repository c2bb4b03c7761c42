//! An explanation as people read it.

use super::{Explanation, Hint, How, Outcome, RuleAt, Step};
use crate::algorithm::Algorithm;
use crate::rules::RuleLimit;
use std::fmt::{self, Display, Formatter};

/// Longer lists end with the number of what was left out.
const MAX_LISTED: usize = 5;

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, step) in self.steps.iter().enumerate() {
            writeln!(f, "{}. {step}", at + 1)?;
        }
        writeln!(f, "{}", self.outcome)?;
        self.hints.iter().try_for_each(|hint| writeln!(f, "hint: {hint}"))
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(node) = &self.node else { return write!(f, "`{}`: no match", self.entry) };
        write!(f, "`{}`: answered by `{node}`, ", self.entry)?;
        match self.how {
            How::Exact => f.write_str("the exact value"),
            How::Pattern { of: 1, .. } => f.write_str("a pattern that matches"),
            How::Pattern { place, of } => {
                write!(f, "the first pattern that matches (number {place} of {of} in the file)")
            }
            How::Default => f.write_str("which takes any value"),
            How::Nothing => Ok(()),
        }
    }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limited { rule, shadow_mode, quota_mode, limits } => {
                write!(f, "rule {rule}")?;
                if *shadow_mode {
                    f.write_str(", shadow mode: counts, but never refuses")?;
                }
                if *quota_mode {
                    f.write_str(", quota mode: refuses only with all other quota rules")?;
                }
                limits.iter().try_for_each(|(limit, bucket)| {
                    write!(f, "\n   {}\n   bucket {bucket}", LimitText(limit))
                })
            }
            Self::Unlimited(rule) => write!(f, "rule {rule}: unlimited, always passes"),
            Self::Whitelisted => f.write_str(
                "no limit: a node without a limit stands exactly here, so this always passes",
            ),
            Self::TooShort(nodes) => {
                write!(f, "no limit: rules stand deeper, the request needs one more entry: ")?;
                list(f, nodes)
            }
            Self::TooDeep(depth) => write!(
                f,
                "no limit: the policy ends after {depth} {} here, the request goes deeper",
                if *depth == 1 { "entry" } else { "entries" }
            ),
            Self::NoMatch => {
                f.write_str("no limit: nothing in the policy matches the last entry above")
            }
            Self::Empty => f.write_str("no limit: the descriptor has no entries"),
        }
    }
}

impl Display for Hint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked { taken, other, rule } => write!(
                f,
                "`{other}` would lead to rule {rule}, but `{taken}` goes before it, \
                 and there is no way back"
            ),
            Self::Order(entries, rule) => {
                write!(f, "the order of entries matters, rule {rule} expects: ")?;
                list(f, entries)
            }
            Self::Extra(entry, rule) => {
                write!(f, "without `{entry}` rule {rule} would answer: every entry must match")
            }
            Self::LetterCase(sent, node) => {
                write!(f, "`{sent}` differs from `{node}` in letter case only, which matters")
            }
            Self::WhiteSpace(sent, node) => {
                write!(f, "`{sent}` differs from `{node}` in white space only, which matters")
            }
            Self::OtherValues(key, values) => {
                write!(f, "`{key}` has no rule for any value, only for: ")?;
                list(f, values)
            }
            Self::SimilarKey(key, nearest) => {
                write!(f, "there is no key `{key}` here, did you mean `{nearest}`?")
            }
            Self::OtherKeys(key, keys) => {
                write!(f, "there is no key `{key}` here, only: ")?;
                list(f, keys)
            }
        }
    }
}

impl Display for RuleAt {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ({}:{})", self.path, self.source.file, self.source.line)
    }
}

/// `10 per minute, token_bucket, window 60 s, burst 20, in a store failure: local`
struct LimitText<'a>(&'a RuleLimit);

impl Display for LimitText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let RuleLimit { limit, unit, unit_multiplier, name, failure_mode, .. } = self.0;
        if !name.is_empty() {
            write!(f, "`{name}`: ")?;
        }
        match unit_multiplier {
            1 => write!(f, "{} per {}", limit.requests, unit.name())?,
            n => write!(f, "{} per {n} {}s", limit.requests, unit.name())?,
        }
        write!(f, ", {}, window {} s", limit.algorithm.name(), limit.window.ceil_secs())?;
        match limit.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                write!(f, ", burst {}", limit.burst)?;
            }
            Algorithm::FixedWindow(anchor) => write!(f, " from {}", anchor.name())?,
            Algorithm::SlidingWindowLog | Algorithm::SlidingWindowCounter => {}
        }
        write!(f, ", in a store failure: {}", failure_mode.name())
    }
}

fn list(f: &mut Formatter<'_>, names: &[String]) -> fmt::Result {
    for (at, name) in names.iter().take(MAX_LISTED).enumerate() {
        write!(f, "{}`{name}`", if at > 0 { ", " } else { "" })?;
    }
    match names.len().saturating_sub(MAX_LISTED) {
        0 => Ok(()),
        more => write!(f, " and {more} more"),
    }
}
