//! From the resources of a response to the trees that policy files become, so that both are compiled
//! alike and are faulty for the same reasons.

use super::Set;
use super::subscription::TYPE_URL;
use crate::config::{self, Document, Fault, Place, Raw, RawEntry, RawValue, Report, SourceFile};
use envoy_types::pb::envoy::service::discovery::v3::DiscoveryResponse;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Any, Struct, Value};
use envoy_types::pb::ratelimit::config::ratelimit::v3::{
    RateLimitConfig, RateLimitDescriptor, RateLimitPolicy, RateLimitUnit,
};
use prost::Message;
use std::sync::Arc;

/// Longest name of a resource that reports show, in characters.
const MAX_NAME: usize = 200;

/// Everything in a response, or what of it cannot be read: a set is whole or it is none.
pub(super) fn read(response: &DiscoveryResponse) -> Result<Set, Report> {
    if response.type_url != TYPE_URL {
        let fault = Fault::of_file("xDS response", unknown_type(&response.type_url));
        return Err(Report::new(vec![fault]));
    }
    let mut faults = Vec::new();
    let mut resources: Vec<Resource<'_>> = Vec::with_capacity(response.resources.len());
    for (index, any) in response.resources.iter().enumerate() {
        match decode(any) {
            Ok(config) => resources.push(Resource { name: name(&config, index), any, config }),
            Err(what) => faults.push(Fault::of_file(format!("resource {index}"), what)),
        }
    }
    if !faults.is_empty() {
        return Err(Report::new(faults));
    }
    // Servers that keep them in a map send them in any order.
    resources.sort_by(|a, b| (&a.name, &a.any.value).cmp(&(&b.name, &b.any.value)));
    let version = config::version(resources.iter().map(|one| (&*one.name, &*one.any.value)));
    let documents = resources.into_iter().map(|one| document(one.name, one.config)).collect();
    Ok(Set { documents, version })
}

struct Resource<'a> {
    name: String,
    any: &'a Any,
    config: RateLimitConfig,
}

fn decode(any: &Any) -> Result<RateLimitConfig, String> {
    if any.type_url != TYPE_URL {
        return Err(unknown_type(&any.type_url));
    }
    RateLimitConfig::decode(&*any.value).map_err(|error| format!("not a RateLimitConfig: {error}"))
}

fn unknown_type(found: &str) -> String {
    format!("type_url is `{}`, expected `{TYPE_URL}`", shown(found))
}

/// What reports call it.
fn name(config: &RateLimitConfig, index: usize) -> String {
    if config.name.is_empty() { format!("resource {index}") } else { shown(&config.name) }
}

fn shown(text: &str) -> String {
    text.chars().take(MAX_NAME).flat_map(char::escape_debug).collect()
}

fn document(name: String, config: RateLimitConfig) -> Document {
    let raw = Mapping::default()
        .with("domain", text(config.domain))
        .with("descriptors", list(config.descriptors, descriptor));
    Document { file: Arc::new(SourceFile::new(name, String::new())), raw: raw.into() }
}

/// Fields that say nothing are left out: messages cannot tell them from absent ones.
fn descriptor(from: RateLimitDescriptor) -> Raw {
    let mapping = Mapping::default()
        .with("key", text(from.key))
        .with_some("value", (!from.value.is_empty()).then(|| text(from.value)))
        .with_some("rate_limit", from.rate_limit.map(limit))
        .with_flag("shadow_mode", from.shadow_mode)
        .with_flag("detailed_metric", from.detailed_metric)
        .with_flag("quota_mode", from.quota_mode)
        .with_some("metadata", from.metadata.map(fields));
    let has_children = !from.descriptors.is_empty();
    let children = has_children.then(|| list(from.descriptors, descriptor));
    mapping.with_some("descriptors", children).into()
}

fn limit(from: RateLimitPolicy) -> Raw {
    let RateLimitPolicy { unit, requests_per_unit: requests, unlimited, name, replaces } = from;
    let says_requests = !unlimited || requests > 0;
    let replaces = (!replaces.is_empty())
        .then(|| list(replaces, |one| Mapping::default().with("name", text(one.name)).into()));
    Mapping::default()
        .with_some("unit", self::unit(unit).map(text))
        .with_some("requests_per_unit", says_requests.then(|| integer(requests.into())))
        .with_flag("unlimited", unlimited)
        .with_some("name", (!name.is_empty()).then(|| text(name)))
        .with_some("replaces", replaces)
        .into()
}

/// A unit's word; one that nobody knows stands for itself, to be named in the report.
fn unit(number: i32) -> Option<String> {
    match RateLimitUnit::try_from(number) {
        Ok(RateLimitUnit::Unknown) => None,
        Ok(unit) => Some(unit.as_str_name().to_lowercase()),
        Err(_) => Some(number.to_string()),
    }
}

fn fields(from: Struct) -> Raw {
    // A map of protobuf has no order: without one of ours reports would differ from time to time.
    let mut fields: Vec<_> = from.fields.into_iter().collect();
    fields.sort_by(|(a, _), (b, _)| a.cmp(b));
    let entry = |(key, from)| RawEntry { key: text(key), value: value(from) };
    raw(RawValue::Map(fields.into_iter().map(entry).collect()))
}

fn value(from: Value) -> Raw {
    match from.kind {
        None | Some(Kind::NullValue(_)) => raw(RawValue::Null),
        Some(Kind::BoolValue(flag)) => self::flag(flag),
        Some(Kind::NumberValue(number)) => raw(RawValue::Float(number.to_string().into())),
        Some(Kind::StringValue(from)) => text(from),
        Some(Kind::ListValue(from)) => list(from.values, value),
        Some(Kind::StructValue(from)) => fields(from),
    }
}

/// A mapping in the making.
#[derive(Debug, Default)]
struct Mapping(Vec<RawEntry>);

impl Mapping {
    fn with(mut self, key: &str, value: Raw) -> Self {
        self.0.push(RawEntry { key: text(key.to_owned()), value });
        self
    }

    fn with_some(self, key: &str, value: Option<Raw>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    fn with_flag(self, key: &str, set: bool) -> Self {
        self.with_some(key, set.then(|| flag(true)))
    }
}

impl From<Mapping> for Raw {
    fn from(mapping: Mapping) -> Self {
        raw(RawValue::Map(mapping.0))
    }
}

fn raw(value: RawValue) -> Raw {
    Raw { place: Place::default(), value }
}

fn text(text: String) -> Raw {
    raw(RawValue::Text(text.into()))
}

fn integer(number: i64) -> Raw {
    raw(RawValue::Integer(number, number.to_string().into()))
}

fn flag(flag: bool) -> Raw {
    raw(RawValue::Bool(flag, flag.to_string().into()))
}

fn list<T>(items: Vec<T>, item: impl Fn(T) -> Raw) -> Raw {
    raw(RawValue::List(items.into_iter().map(item).collect()))
}

#[cfg(test)]
mod tests;
