//! Dynamic metadata: what was asked, which rules answered, and what those rules carry along.

use super::proto::{RateLimitDescriptor, RateLimitOverride, RateLimitRequest, Unit};
use super::respond::Decided;
use crate::limiter::{Code, DecidedBy, Status, passed_metadata};
use crate::rules::{Map, RuleSet, Value as RuleValue};
use prost_types::value::Kind;
use prost_types::{Struct, Value};
use std::collections::BTreeMap;

type Fields = BTreeMap<String, Value>;

/// The metadata of an answer.
pub(super) fn of(asked: &RateLimitRequest, decided: Decided<'_>) -> Struct {
    let descriptors = asked.descriptors.iter().zip(decided.statuses);
    let descriptors = descriptors.map(|(wire, status)| descriptor(wire, status, decided.rules));
    let mut fields = Fields::from([
        ("domain".into(), asked.domain.as_str().into()),
        ("descriptors".into(), list(descriptors)),
    ]);
    if asked.hits_addend != 0 {
        fields.insert("hitsAddend".into(), number(asked.hits_addend.into()));
    }
    let passed = passed_metadata(decided.statuses, decided.rules);
    if !passed.is_empty() {
        fields.insert("metadata".into(), map(&passed));
    }
    Struct { fields }
}

fn descriptor(wire: &RateLimitDescriptor, status: &Status, rules: &RuleSet) -> Value {
    let mut fields = Fields::new();
    add_asked(&mut fields, wire);
    add_decided(&mut fields, status);
    if let Some(rule) = status.rule.and_then(|id| rules.rule(id)) {
        let source = format!("{}:{}", rule.source.file, rule.source.line);
        fields.insert("rule".into(), rule.path.as_ref().into());
        fields.insert("source".into(), source.into());
    }
    Value::from(fields)
}

fn add_asked(fields: &mut Fields, wire: &RateLimitDescriptor) {
    let entries = wire.entries.iter().map(|e| format!("{}={}", e.key, e.value).into());
    fields.insert("entries".into(), list(entries));
    if let Some(limit) = &wire.limit {
        fields.insert("limit".into(), override_text(limit).into());
    }
    if let Some(hits) = wire.hits_addend {
        fields.insert("hitsAddend".into(), number(hits));
    }
}

fn add_decided(fields: &mut Fields, status: &Status) {
    fields.insert("code".into(), code_word(status.code).into());
    fields.insert("decidedBy".into(), decided_by_word(status.decided_by).into());
    if let DecidedBy::Fallback { reason, .. } = status.decided_by {
        fields.insert("storeFailure".into(), reason.reason().into());
    }
    if status.never_fits {
        fields.insert("neverFits".into(), true.into());
    }
}

fn value(value: &RuleValue) -> Value {
    match value {
        RuleValue::Null => Kind::NullValue(0).into(),
        RuleValue::Bool(truth) => (*truth).into(),
        RuleValue::Number(number) => (*number).into(),
        RuleValue::Text(text) => text.as_str().into(),
        RuleValue::List(values) => list(values.iter().map(self::value)),
        RuleValue::Map(map) => self::map(map),
    }
}

fn map(map: &Map) -> Value {
    Value::from(map.iter().map(|(name, v)| (name.clone(), value(v))).collect::<Fields>())
}

/// The override in protobuf's text format.
fn override_text(limit: &RateLimitOverride) -> String {
    let unit = Unit::try_from(limit.unit).unwrap_or_default().as_str_name();
    let per_unit = format!("requests_per_unit:{} unit:{unit}", limit.requests_per_unit);
    match limit.unit_multiplier {
        Some(multiplier) => format!("{per_unit} unit_multiplier:{{value:{multiplier}}}"),
        None => per_unit,
    }
}

fn code_word(code: Code) -> &'static str {
    super::convert::code(code).as_str_name()
}

pub(super) fn decided_by_word(decided_by: DecidedBy) -> &'static str {
    match decided_by {
        DecidedBy::NoLimit => "no_limit",
        DecidedBy::Unlimited => "unlimited",
        DecidedBy::Store => "store",
        DecidedBy::DenyCache => "deny_cache",
        DecidedBy::Fallback { mode, .. } => mode.name(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a Struct knows doubles only")]
fn number(number: u64) -> Value {
    Value::from(number as f64)
}

fn list(values: impl Iterator<Item = Value>) -> Value {
    Value::from(values.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
