//! The keys of the policy language: the one list of what they are and where they belong.

pub(super) mod idempotency;

use super::nearest::nearest;

/// A mapping that has keys of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// The top of a document.
    Domain,
    /// Under a domain's `defaults`.
    Defaults,
    /// An item of `descriptors`.
    Descriptor,
    /// Under `rate_limit`, or an item of it.
    RateLimit,
    /// An item of `replaces`.
    Replaces,
    /// The top of an idempotency policy.
    Top,
    /// Under its `idempotency`.
    Idempotency,
    /// Under the `defaults` of that.
    IdempotencyDefaults,
    /// An item of `routes`.
    Route,
    /// Under the `key` of a route.
    IdempotencyKey,
    /// Under its `scope`.
    Scope,
    /// An item of `principal` or `tenant`.
    Identity,
    /// Under its `fingerprint`.
    Fingerprint,
    /// Under its `response`.
    Response,
}

/// A key.
#[derive(Debug)]
pub(super) struct Key {
    /// Its one spelling.
    pub(super) name: &'static str,
    /// Where it has a meaning.
    pub(super) levels: &'static [Level],
    /// What its value must be.
    pub(super) expected: &'static str,
}

/// How a mapping takes a key.
#[derive(Debug)]
pub(super) enum Standing {
    /// It belongs there.
    Here(&'static Key),
    /// It belongs elsewhere: it is read over.
    Elsewhere(&'static Key),
    /// It is none of ours; perhaps that one was meant.
    Unknown(Option<&'static str>),
}

use Level::{
    Defaults, Descriptor, Domain, Fingerprint, Idempotency, IdempotencyDefaults, IdempotencyKey,
    Identity, RateLimit, Replaces, Response, Route, Scope, Top,
};

/// Every key of a rate-limit policy.
pub(super) const KEYS: &[Key] = &[
    key("domain", &[Domain], "the name of the domain"),
    key("defaults", &[Domain], "a mapping of defaults such as `algorithm: token_bucket`"),
    key("hash_tag", &[Domain], "a list of descriptor keys such as `[remote_address]`"),
    key("consume", &[Domain], "`each` or `all_or_nothing`"),
    key("denied_body", &[Domain], "a text, with `{rule}`, `{limit}` and `{reset}` filled in"),
    key("denied_content_type", &[Domain], "a media type such as `application/json`"),
    key("descriptors", &[Domain, Descriptor], "a list of descriptors such as `- key: user`"),
    key("key", &[Descriptor], "the key of a descriptor entry"),
    key("value", &[Descriptor], "a text, in which `*` stands for any characters"),
    key("rate_limit", &[Descriptor], "a limit (`unit`, `requests_per_unit`) or a list of them"),
    key("shadow_mode", &[Descriptor], "true or false"),
    key("quota_mode", &[Descriptor], "true or false"),
    key("detailed_metric", &[Descriptor], "true or false"),
    key("value_to_metric", &[Descriptor], "true or false"),
    key("share_threshold", &[Descriptor], "true or false"),
    key("strip_query", &[Descriptor], "true or false"),
    key("metadata", &[Descriptor], "a mapping"),
    key("unit", &[RateLimit], "second, minute, hour, day, week, month or year"),
    key("requests_per_unit", &[RateLimit], "a whole number from 0 to 4294967295"),
    key("unit_multiplier", &[RateLimit], "a whole number from 0 to 4294967295"),
    key("unlimited", &[RateLimit], "true or false"),
    key("name", &[RateLimit, Replaces], "the name of a limit"),
    key("replaces", &[RateLimit], "a list of names such as `- name: other_limit`"),
    key("window", &[RateLimit], "`epoch` or `first_hit`"),
    key(
        "algorithm",
        &[RateLimit, Defaults],
        "fixed_window, sliding_window_log, sliding_window_counter, token_bucket or leaky_bucket",
    ),
    key("burst", &[RateLimit, Defaults], "a whole number from 1 to 4294967295"),
    key("count_denied", &[RateLimit, Defaults], "true or false"),
    key("failure_mode", &[RateLimit, Defaults], "open, closed, local or error"),
    key("version", &[RateLimit, Defaults], "a text that becomes part of the bucket's key"),
];

const fn key(name: &'static str, levels: &'static [Level], expected: &'static str) -> Key {
    Key { name, levels, expected }
}

impl Level {
    /// Where its keys stand, in words.
    pub(super) const fn whereabouts(self) -> &'static str {
        match self {
            Domain => "at the top of the file, beside `domain`",
            Defaults => "under the domain's `defaults`",
            Descriptor => "in a descriptor, beside its `key`",
            RateLimit => "under `rate_limit`",
            Replaces => "under `replaces`",
            Top => "at the top of the file",
            Idempotency => "under `idempotency`",
            IdempotencyDefaults => "under the `defaults` of `idempotency`",
            Route => "in a route, beside its `name`",
            IdempotencyKey => "under a route's `key`",
            Scope => "under a route's `scope`",
            Identity => "in an item of `principal` or `tenant`",
            Fingerprint => "under a route's `fingerprint`",
            Response => "under a route's `response`",
        }
    }

    /// What it is, in words.
    pub(super) const fn expected(self) -> &'static str {
        match self {
            Domain => "a mapping with `domain` and `descriptors`",
            Defaults => "a mapping such as `algorithm: token_bucket`",
            Descriptor => "a descriptor such as `- key: user`",
            RateLimit => "a limit with `unit` and `requests_per_unit`",
            Replaces => "an item such as `- name: other_limit`",
            Top => "a mapping with `idempotency`",
            Idempotency => "a mapping with `routes`",
            IdempotencyDefaults => "a mapping such as `lease: 60s`",
            Route => "a route such as `- name: payments`",
            IdempotencyKey => "a mapping such as `required: true`",
            Scope => "a mapping with `principal` or `anonymous`",
            Identity => "a source such as `- mtls: uri_san`",
            Fingerprint => "a mapping such as `body: json_canonical`",
            Response => "a mapping such as `max_body: 256KiB`",
        }
    }

    /// Whether a key that belongs elsewhere may stand here, without effect.
    pub(super) fn bears_misplaced_keys(self) -> bool {
        std::ptr::eq(self.keys(), KEYS)
    }

    /// How it takes a key of that name.
    pub(super) fn standing(self, name: &str) -> Standing {
        let mut named = self.keys().iter().filter(|key| key.name == name).peekable();
        let elsewhere = named.peek().copied();
        match named.find(|key| key.levels.contains(&self)).or(elsewhere) {
            Some(key) if key.levels.contains(&self) => Standing::Here(key),
            Some(key) => Standing::Elsewhere(key),
            None => Standing::Unknown(self.nearest(name)),
        }
    }

    /// Every key of its language.
    const fn keys(self) -> &'static [Key] {
        match self {
            Domain | Defaults | Descriptor | RateLimit | Replaces => KEYS,
            Top | Idempotency | IdempotencyDefaults | Route | IdempotencyKey | Scope | Identity
            | Fingerprint | Response => idempotency::KEYS,
        }
    }

    /// The key that was probably meant: one of its own rather than another.
    fn nearest(self, name: &str) -> Option<&'static str> {
        let own = self.keys().iter().filter(|key| key.levels.contains(&self)).map(|key| key.name);
        nearest(name, own).or_else(|| nearest(name, self.keys().iter().map(|key| key.name)))
    }
}
