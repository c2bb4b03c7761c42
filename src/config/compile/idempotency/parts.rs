//! What a route, or the defaults of all routes, says beyond what it is for.

use super::super::fields::{Field, Fields, Sink};
use crate::config::raw::Place;
use crate::config::shape::Level;
use crate::rules::OnLeaseExpired;
use crate::rules::idempotency::{
    Anonymous, BodyRule, FingerprintRule, IdempotentRoute, IdentitySource, KeyRule, KeySpace,
    Matches, ResponseRule, Scope, ServerError, StatusSet, StoreFailure,
};
use std::time::Duration;

/// Names, such as those of headers.
type Names = Box<[Box<str>]>;

/// A value and where its key stands.
pub(super) type Given<T> = Option<(Place, T)>;

/// What is given; the rest is none.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    key_headers: Given<Names>,
    required: Given<bool>,
    min_length: Given<usize>,
    pub(super) principal: Given<Box<[IdentitySource]>>,
    /// Whether there is one that cannot be read, which is a fault already.
    pub(super) principal_is_faulty: bool,
    tenant: Given<Box<[IdentitySource]>>,
    pub(super) anonymous: Given<Anonymous>,
    key_space: Given<KeySpace>,
    body: Given<BodyRule>,
    fingerprint_headers: Given<Names>,
    max_request_body: Given<usize>,
    pub(super) lease: Given<Duration>,
    pub(super) max_execution: Given<Duration>,
    pub(super) retention: Given<Duration>,
    pub(super) on_lease_expired: Given<OnLeaseExpired>,
    pub(super) store_failure: Given<StoreFailure>,
    stored_statuses: Given<StatusSet>,
    server_error: Given<ServerError>,
    max_body: Given<usize>,
    response_headers: Given<Names>,
    shadow: Given<bool>,
}

const LEASE: Duration = Duration::from_secs(60);
const RETENTION: Duration = Duration::from_secs(24 * 3600);
const MAX_REQUEST_BODY: usize = 1 << 20;
const MAX_BODY: usize = 256 << 10;

/// Headers that say what a body is, or where a resource is.
const RESPONSE_HEADERS: [&str; 9] = [
    "content-type",
    "content-encoding",
    "content-language",
    "content-location",
    "content-disposition",
    "location",
    "etag",
    "last-modified",
    "link",
];

const LEASE_ENDS: [(&str, OnLeaseExpired); 2] =
    [("hold", OnLeaseExpired::Hold), ("takeover", OnLeaseExpired::Takeover)];
const STORE_FAILURES: [(&str, StoreFailure); 2] =
    [("closed", StoreFailure::Closed), ("open", StoreFailure::Open)];
const ANONYMOUS: [(&str, Anonymous); 2] =
    [("reject", Anonymous::Reject), ("shared", Anonymous::Shared)];
const KEY_SPACES: [(&str, KeySpace); 2] =
    [("principal", KeySpace::Principal), ("route", KeySpace::Route)];
const BODIES: [(&str, BodyRule); 2] =
    [("raw", BodyRule::Raw), ("json_canonical", BodyRule::JsonCanonical)];
const SERVER_ERRORS: [(&str, ServerError); 3] =
    [("release", ServerError::Release), ("store", ServerError::Store), ("hold", ServerError::Hold)];

impl Parts {
    /// Reads the keys that routes and defaults share.
    pub(super) fn read<'a>(sink: &mut Sink<'a>, fields: &Fields<'a>) -> Self {
        let mut parts = Self {
            max_request_body: given(fields, "max_request_body", |it| sink.size(it, 8 << 20)),
            lease: given(fields, "lease", |it| sink.duration(it, 1, 3600)),
            max_execution: given(fields, "max_execution", |it| sink.duration(it, 1, 720 * 3600)),
            retention: given(fields, "retention", |it| sink.duration(it, 60, 720 * 3600)),
            on_lease_expired: given(fields, "on_lease_expired", |it| sink.word(it, &LEASE_ENDS)),
            store_failure: given(fields, "store_failure", |it| sink.word(it, &STORE_FAILURES)),
            shadow: given(fields, "shadow", |it| sink.flag(it)),
            ..Self::default()
        };
        let mut below = |name, level, read: fn(&mut Self, &mut Sink<'a>, &Fields<'a>)| {
            let fields = fields.get(name).and_then(|field| sink.fields(field.value, level));
            if let Some(fields) = fields {
                read(&mut parts, sink, &fields);
            }
        };
        below("key", Level::IdempotencyKey, Self::read_key);
        below("scope", Level::Scope, Self::read_scope);
        below("fingerprint", Level::Fingerprint, Self::read_fingerprint);
        below("response", Level::Response, Self::read_response);
        parts
    }

    fn read_key<'a>(&mut self, sink: &mut Sink<'a>, fields: &Fields<'a>) {
        self.key_headers = given(fields, "headers", |it| sink.headers(it));
        self.required = given(fields, "required", |it| sink.flag(it));
        self.min_length = given(fields, "min_length", |it| sink.key_length(it));
        if let Some((place, headers)) = &self.key_headers
            && headers.is_empty()
        {
            sink.error(*place, "`headers` is empty: no request could have a key");
        }
    }

    fn read_scope<'a>(&mut self, sink: &mut Sink<'a>, fields: &Fields<'a>) {
        self.principal = given(fields, "principal", |it| sink.identities(it));
        self.principal_is_faulty = fields.get("principal").is_some() && self.principal.is_none();
        self.tenant = given(fields, "tenant", |it| sink.identities(it));
        self.anonymous = given(fields, "anonymous", |it| sink.word(it, &ANONYMOUS));
        self.key_space = given(fields, "key_space", |it| sink.word(it, &KEY_SPACES));
    }

    fn read_fingerprint<'a>(&mut self, sink: &mut Sink<'a>, fields: &Fields<'a>) {
        self.body = given(fields, "body", |it| sink.word(it, &BODIES));
        self.fingerprint_headers = given(fields, "headers", |it| sink.headers(it));
    }

    fn read_response<'a>(&mut self, sink: &mut Sink<'a>, fields: &Fields<'a>) {
        self.stored_statuses = given(fields, "stored_statuses", |it| sink.statuses(it));
        self.server_error = given(fields, "server_error", |it| sink.word(it, &SERVER_ERRORS));
        self.max_body = given(fields, "max_body", |it| sink.size(it, 4 << 20));
        self.response_headers = given(fields, "headers", |it| sink.kept_headers(it));
    }

    /// These, and those of the defaults where there is none.
    pub(super) fn over(self, defaults: &Self) -> Self {
        let defaults = defaults.clone();
        Self {
            key_headers: self.key_headers.or(defaults.key_headers),
            required: self.required.or(defaults.required),
            min_length: self.min_length.or(defaults.min_length),
            principal: self.principal.or(defaults.principal),
            principal_is_faulty: self.principal_is_faulty || defaults.principal_is_faulty,
            tenant: self.tenant.or(defaults.tenant),
            anonymous: self.anonymous.or(defaults.anonymous),
            key_space: self.key_space.or(defaults.key_space),
            body: self.body.or(defaults.body),
            fingerprint_headers: self.fingerprint_headers.or(defaults.fingerprint_headers),
            max_request_body: self.max_request_body.or(defaults.max_request_body),
            lease: self.lease.or(defaults.lease),
            max_execution: self.max_execution.or(defaults.max_execution),
            retention: self.retention.or(defaults.retention),
            on_lease_expired: self.on_lease_expired.or(defaults.on_lease_expired),
            store_failure: self.store_failure.or(defaults.store_failure),
            stored_statuses: self.stored_statuses.or(defaults.stored_statuses),
            server_error: self.server_error.or(defaults.server_error),
            max_body: self.max_body.or(defaults.max_body),
            response_headers: self.response_headers.or(defaults.response_headers),
            shadow: self.shadow.or(defaults.shadow),
        }
    }

    /// The lease that holds.
    pub(super) fn lease(&self) -> Duration {
        value(self.lease.as_ref()).unwrap_or(LEASE)
    }

    /// The retention that holds.
    pub(super) fn retention(&self) -> Duration {
        value(self.retention.as_ref()).unwrap_or(RETENTION)
    }

    /// How long a claim is renewed.
    pub(super) fn max_execution(&self) -> Duration {
        value(self.max_execution.as_ref()).unwrap_or_else(|| self.lease() * 10)
    }

    /// The route that these make.
    pub(super) fn route(self, name: &str, matches: Matches) -> IdempotentRoute {
        IdempotentRoute {
            name: name.into(),
            matches,
            lease: self.lease(),
            max_execution: self.max_execution(),
            retention: self.retention(),
            on_lease_expired: value(self.on_lease_expired.as_ref()).unwrap_or_default(),
            store_failure: value(self.store_failure.as_ref()).unwrap_or_default(),
            shadow: value(self.shadow.as_ref()).unwrap_or_default(),
            key: KeyRule {
                headers: value(self.key_headers.as_ref())
                    .unwrap_or_else(|| ["idempotency-key".into()].into()),
                required: value(self.required.as_ref()).unwrap_or_default(),
                min_length: value(self.min_length.as_ref()),
            },
            scope: Scope {
                principal: value(self.principal.as_ref()).unwrap_or_default(),
                tenant: value(self.tenant.as_ref()).unwrap_or_default(),
                anonymous: value(self.anonymous.as_ref()).unwrap_or_default(),
                key_space: value(self.key_space.as_ref()).unwrap_or_default(),
            },
            fingerprint: FingerprintRule {
                body: value(self.body.as_ref()).unwrap_or_default(),
                headers: value(self.fingerprint_headers.as_ref())
                    .unwrap_or_else(|| ["content-type".into()].into()),
                max_request_body: value(self.max_request_body.as_ref()).unwrap_or(MAX_REQUEST_BODY),
            },
            response: ResponseRule {
                stored: value(self.stored_statuses.as_ref()).unwrap_or_default(),
                server_error: value(self.server_error.as_ref()).unwrap_or_default(),
                max_body: value(self.max_body.as_ref()).unwrap_or(MAX_BODY),
                headers: value(self.response_headers.as_ref())
                    .unwrap_or_else(|| RESPONSE_HEADERS.map(Into::into).into()),
            },
        }
    }
}

fn given<'a, T>(
    fields: &Fields<'a>,
    name: &str,
    read: impl FnOnce(Option<Field<'a>>) -> Option<T>,
) -> Given<T> {
    let field = fields.get(name)?;
    Some((field.key_place, read(Some(field))?))
}

fn value<T: Clone>(given: Option<&(Place, T)>) -> Option<T> {
    given.map(|(_, value)| value.clone())
}
