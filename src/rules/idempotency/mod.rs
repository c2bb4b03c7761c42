//! Which requests are protected from running twice, and how: the idempotency policy as compiled.

mod response;
mod scope;

pub use response::{ResponseRule, ServerError, StatusSet, Storing};
pub use scope::{Anonymous, CertificateName, IdentitySource, KeySpace, Scope};

use super::{OnLeaseExpired, pattern};
use std::sync::Arc;
use std::time::Duration;

/// Everything that one file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdempotencyPolicy {
    /// Part of every operation's identity: policies of different namespaces share nothing.
    pub namespace: Box<str>,
    /// In the order of the file: the first that matches holds.
    pub routes: Box<[Arc<IdempotentRoute>]>,
}

/// Requests that are protected in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotentRoute {
    /// Its name, in metrics and, with [`KeySpace::Route`], in identities.
    pub name: Box<str>,
    /// Which requests it is for.
    pub matches: Matches,
    /// Where the client's key is.
    pub key: KeyRule,
    /// Whose key it is.
    pub scope: Scope,
    /// What makes two requests the same.
    pub fingerprint: FingerprintRule,
    /// How long a claim holds without being renewed.
    pub lease: Duration,
    /// How long it is renewed at most.
    pub max_execution: Duration,
    /// How long an operation is remembered.
    pub retention: Duration,
    /// What a lease that ended without an outcome means.
    pub on_lease_expired: OnLeaseExpired,
    /// What is answered when the store cannot.
    pub store_failure: StoreFailure,
    /// Which answers of the upstream are kept, and what of them.
    pub response: ResponseRule,
    /// Observe only: claim and store, but answer nothing by ourselves.
    pub shadow: bool,
}

/// Which requests a route is for. What it does not name matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    /// Methods; never empty.
    pub methods: Box<[Box<str>]>,
    /// Pattern of the path without its query.
    pub path: Option<Box<str>>,
    /// Pattern of Envoy's name of the route.
    pub route_name: Option<Box<str>>,
}

/// What is known of a request when its route is sought.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Its method.
    pub method: &'a str,
    /// Its path without the query.
    pub path: &'a str,
    /// Envoy's name of the route, empty if it has none.
    pub route_name: &'a str,
}

/// Where the client's key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRule {
    /// Headers, in lower case, of which at most one may be there.
    pub headers: Box<[Box<str>]>,
    /// Whether a request without one is refused.
    pub required: bool,
    /// Fewest characters of a key; `None`: 16 for anonymous callers, 1 for others.
    pub min_length: Option<usize>,
}

/// What makes two requests the same, besides method, path and query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FingerprintRule {
    /// How bodies are compared.
    pub body: BodyRule,
    /// Headers, in lower case, that count.
    pub headers: Box<[Box<str>]>,
    /// Largest body, in bytes; a larger one is refused.
    pub max_request_body: usize,
}

/// How bodies are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyRule {
    /// Byte by byte.
    #[default]
    Raw,
    /// JSON by what it means (RFC 8785), anything else byte by byte.
    JsonCanonical,
}

/// What is answered when the store cannot say whether a request ran before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreFailure {
    /// 503: it does not run.
    #[default]
    Closed,
    /// It runs unprotected.
    Open,
}

impl IdempotencyPolicy {
    /// The first route that a request matches.
    pub fn route(&self, target: Target<'_>) -> Option<&Arc<IdempotentRoute>> {
        self.routes.iter().find(|route| route.matches.match_it(target))
    }
}

impl Matches {
    fn match_it(&self, target: Target<'_>) -> bool {
        let fits = |pattern: &Option<Box<str>>, text| {
            pattern.as_deref().is_none_or(|pattern| pattern::matches(pattern, text))
        };
        self.methods.iter().any(|method| **method == *target.method)
            && fits(&self.path, target.path)
            && fits(&self.route_name, target.route_name)
    }
}

impl IdempotentRoute {
    /// How often a claim is renewed.
    pub fn renew_every(&self) -> Duration {
        self.lease / 3
    }
}

#[cfg(test)]
mod tests;
