//! A request that the loaded policies answer with a limit, for a newcomer to try.

use crate::rules::{Allows, Entry, Level, RuleId, RuleSet};
use serde_json::Value;
use std::net::SocketAddr;

/// What a value-less descriptor is asked with.
const ANY: &str = "example";

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Example {
    domain: String,
    entries: Vec<(String, String)>,
}

impl Example {
    /// One for the first rule in the files that limits anything.
    pub(super) fn of(rules: &RuleSet) -> Option<Self> {
        let ids = (0..u32::try_from(rules.rules.len()).ok()?).map(RuleId);
        ids.filter(|id| is_limited(rules, *id)).find_map(|id| {
            rules.sorted_domains().into_iter().find_map(|domain| {
                let entries = path_to(&domain.root, id)?;
                let found = domain.find(&as_entries(&entries))?.rule == id;
                found.then(|| Self { domain: domain.name.to_string(), entries })
            })
        })
    }

    /// A command line that asks over HTTP.
    pub(super) fn curl(&self, http: SocketAddr) -> String {
        format!("curl -d {} http://{http}/json", quoted(&self.body()))
    }

    /// A command line that asks over gRPC.
    pub(super) fn grpcurl(&self, grpc: SocketAddr) -> String {
        let method = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
        format!("grpcurl -plaintext -d {} {grpc} {method}", quoted(&self.body()))
    }

    /// The request as JSON, the domain first.
    fn body(&self) -> String {
        let entry = |(key, value): &(String, String)| {
            format!(r#"{{"key":{},"value":{}}}"#, json(key), json(value))
        };
        let entries: Vec<String> = self.entries.iter().map(entry).collect();
        let (domain, entries) = (json(&self.domain), entries.join(","));
        format!(r#"{{"domain":{domain},"descriptors":[{{"entries":[{entries}]}}]}}"#)
    }
}

fn json(text: &str) -> Value {
    Value::from(text)
}

fn is_limited(rules: &RuleSet, id: RuleId) -> bool {
    rules.rule(id).is_some_and(|rule| match &rule.allows {
        Allows::Unlimited { .. } => false,
        Allows::Limits(limits) => limits.iter().any(|limit| limit.limit.requests > 0),
    })
}

fn path_to(level: &Level, rule: RuleId) -> Option<Vec<(String, String)>> {
    level.nodes().iter().find_map(|node| {
        let below =
            if node.rule == Some(rule) { Vec::new() } else { path_to(&node.children, rule)? };
        let value = node.value.as_deref().unwrap_or(ANY);
        let own = (node.key.replace('*', ANY), value.replace('*', ANY));
        Some(std::iter::once(own).chain(below).collect())
    })
}

fn as_entries(entries: &[(String, String)]) -> Vec<Entry<'_>> {
    entries.iter().map(|(key, value)| Entry { key, value }).collect()
}

/// For a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
