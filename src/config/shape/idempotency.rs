//! The keys of idempotency policies.

use super::Level::{
    Fingerprint, Idempotency, IdempotencyDefaults as Defaults, IdempotencyKey, Identity, Response,
    Route, Scope, Top,
};
use super::{Key, key};

const FLAG: &str = "true or false";

/// Every key of an idempotency policy.
pub(in crate::config) const KEYS: &[Key] = &[
    key("idempotency", &[Top], "a mapping with `routes`"),
    key("namespace", &[Idempotency], "a text that no other policy of this store has"),
    key("defaults", &[Idempotency], "a mapping such as `lease: 60s`"),
    key("routes", &[Idempotency], "a list of routes such as `- name: payments`"),
    key("name", &[Route], "a name of letters, digits, `_`, `-` and `.`"),
    key("methods", &[Route], "a list of methods such as `[POST, PATCH]`"),
    key("path", &[Route], "a path, in which `*` stands for any characters"),
    key("route_name", &[Route], "Envoy's name of a route, in which `*` stands for any characters"),
    key("key", &[Route, Defaults], "a mapping such as `required: true`"),
    key("scope", &[Route, Defaults], "a mapping with `principal` or `anonymous`"),
    key("fingerprint", &[Route, Defaults], "a mapping such as `body: json_canonical`"),
    key("response", &[Route, Defaults], "a mapping such as `max_body: 256KiB`"),
    key("max_request_body", &[Route, Defaults], "a size from 0 to 8MiB, such as `1MiB`"),
    key("lease", &[Route, Defaults], "a duration from 1s to 1h, such as `60s`"),
    key("max_execution", &[Route, Defaults], "a duration such as `10m`, not shorter than `lease`"),
    key("retention", &[Route, Defaults], "a duration from 1m to 720h, such as `24h`"),
    key("on_lease_expired", &[Route, Defaults], "`hold` or `takeover`"),
    key("store_failure", &[Route, Defaults], "`closed` or `open`"),
    key("shadow", &[Route, Defaults], FLAG),
    key("headers", &[IdempotencyKey], "a list of headers such as `[idempotency-key]`"),
    key("required", &[IdempotencyKey], FLAG),
    key("min_length", &[IdempotencyKey], "a whole number from 1 to 255"),
    key("principal", &[Scope], "a list of sources such as `- mtls: uri_san`"),
    key("tenant", &[Scope], "a list of sources such as `- jwt_claim: payload.tenant`"),
    key("anonymous", &[Scope], "`reject` or `shared`"),
    key("key_space", &[Scope], "`principal` or `route`"),
    key("mtls", &[Identity], "`uri_san` or `dns_san`"),
    key("jwt_claim", &[Identity], "the way to a claim, such as `payload.sub`"),
    key("trusted_header", &[Identity], "the name of a header that no client can set"),
    key("body", &[Fingerprint], "`raw` or `json_canonical`"),
    key("headers", &[Fingerprint], "a list of headers such as `[content-type]`"),
    key("max_body", &[Response], "a size from 0 to 4MiB, such as `256KiB`"),
    key("headers", &[Response], "a list of headers such as `[content-type, location]`"),
    key("stored_statuses", &[Response], "a list of statuses below 500, such as `[2xx, 404]`"),
    key("server_error", &[Response], "`release`, `store` or `hold`"),
];
