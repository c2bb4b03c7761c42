//! Reading the values of idempotency policies.

use super::super::fields::{Field, Sink};
use crate::config::raw::{Raw, RawValue};
use crate::config::shape::Level;
use crate::rules::idempotency::{CertificateName, IdentitySource, StatusSet};
use crate::settings;
use std::time::Duration;

/// Headers that speak of one connection or one moment, not of an answer.
const NEVER_KEPT: [&str; 12] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "idempotent-replayed",
];

/// Beginnings of such headers.
const NEVER_KEPT_BEGIN: [&str; 4] = ["x-envoy-", "x-ratelimit-", "ratelimit", "idempotency-"];

const CERTIFICATE_NAMES: [(&str, CertificateName); 2] =
    [("uri_san", CertificateName::UriSan), ("dns_san", CertificateName::DnsSan)];

impl<'a> Sink<'a> {
    /// A length of time, of so many seconds at least and at most.
    pub(super) fn duration(
        &mut self,
        field: Option<Field<'a>>,
        least: u64,
        most: u64,
    ) -> Option<Duration> {
        let field = field?;
        let range = Duration::from_secs(least)..=Duration::from_secs(most);
        let found = field.value.text().and_then(|text| settings::read_duration(text).ok());
        let found = found.filter(|found| range.contains(found));
        if found.is_none() {
            self.unexpected(field, "");
        }
        found
    }

    /// A number of bytes: `1048576`, `1024KiB` or `1MiB`.
    pub(super) fn size(&mut self, field: Option<Field<'a>>, most: usize) -> Option<usize> {
        let field = field?;
        let found = field.value.literal().and_then(bytes).filter(|found| *found <= most);
        if found.is_none() {
            self.unexpected(field, "");
        }
        found
    }

    /// Fewest characters of a key.
    pub(super) fn key_length(&mut self, field: Option<Field<'a>>) -> Option<usize> {
        let field = field?;
        let length = self.count(Some(field))?;
        if (1..=255).contains(&length) {
            return usize::try_from(length).ok();
        }
        self.unexpected(field, "");
        None
    }

    /// Methods of requests.
    pub(super) fn methods(&mut self, field: Option<Field<'a>>) -> Option<Box<[Box<str>]>> {
        let field = field?;
        let is_method =
            |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_uppercase());
        let n_faults = self.faults.len();
        let methods = self.texts(field, |text| is_method(text).then(|| text.into()));
        if methods.is_empty() && self.faults.len() == n_faults {
            self.error(field.key_place, "`methods` is empty: no request could match");
        }
        Some(methods)
    }

    /// Names of headers, in lower case.
    pub(super) fn headers(&mut self, field: Option<Field<'a>>) -> Option<Box<[Box<str>]>> {
        Some(self.texts(field?, header))
    }

    /// Names of headers that an answer keeps.
    pub(super) fn kept_headers(&mut self, field: Option<Field<'a>>) -> Option<Box<[Box<str>]>> {
        let field = field?;
        let names = self.headers(Some(field))?;
        for item in self.list(Some(field)) {
            let Some(name) = item.text().and_then(header).filter(|name| is_never_kept(name)) else {
                continue;
            };
            let message = format!("`{}` cannot be kept: it is made anew for each answer", &name);
            self.error(item.place, message);
        }
        Some(names)
    }

    /// Statuses: `404`, or `2xx` for a whole class.
    pub(super) fn statuses(&mut self, field: Option<Field<'a>>) -> Option<StatusSet> {
        let field = field?;
        let mut set = StatusSet::none();
        for item in self.list(Some(field)) {
            if let Some((first, last)) = item.literal().and_then(status_range) {
                (first..=last).for_each(|status| set.insert(status));
                continue;
            }
            let message = format!(
                "`stored_statuses` holds {}, expected `2xx`, `3xx`, `4xx` or a status from 200 to \
                 499; `server_error` speaks of those above",
                item.described()
            );
            self.error(item.place, message);
        }
        Some(set)
    }

    /// Where names of callers stand.
    pub(super) fn identities(&mut self, field: Option<Field<'a>>) -> Option<Box<[IdentitySource]>> {
        let items = self.list(Some(field?));
        // All of them, so that every fault is found.
        let found: Vec<_> = items.iter().map(|item| self.identity(item)).collect();
        found.into_iter().collect()
    }

    fn identity(&mut self, raw: &'a Raw) -> Option<IdentitySource> {
        let n_faults = self.faults.len();
        let fields = self.fields(raw, Level::Identity)?;
        let mut found = fields.those_of(&["mtls", "jwt_claim", "trusted_header"]);
        let (first, second) = (found.next(), found.next());
        let Some(field) = first.filter(|_| second.is_none()) else {
            if first.is_some() || self.faults.len() == n_faults {
                self.error(raw.place, "expected one of `mtls`, `jwt_claim` and `trusted_header`");
            }
            return None;
        };
        match field.key.name {
            "mtls" => self.word(Some(field), &CERTIFICATE_NAMES).map(IdentitySource::Certificate),
            "jwt_claim" => self.text(Some(field)).and_then(|text| self.claim(field, text)),
            _ => self.text(Some(field)).and_then(|text| self.trusted_header(field, text)),
        }
    }

    fn claim(&mut self, field: Field<'a>, text: &str) -> Option<IdentitySource> {
        if text.split('.').count() < 2 || text.split('.').any(str::is_empty) {
            let advice = ": first the `payload_in_metadata` of the provider, then the claim";
            self.unexpected(field, advice);
            return None;
        }
        Some(IdentitySource::JwtClaim(text.split('.').map(Into::into).collect()))
    }

    fn trusted_header(&mut self, field: Field<'a>, text: &str) -> Option<IdentitySource> {
        let name = header(text);
        if name.is_none() {
            self.unexpected(field, "");
        }
        name.map(IdentitySource::TrustedHeader)
    }

    /// The items of a list of texts; what cannot be read is a fault.
    fn texts<T>(&mut self, field: Field<'a>, read: impl Fn(&str) -> Option<T>) -> Box<[T]> {
        let mut found = Vec::new();
        for item in self.list(Some(field)) {
            let is_float = matches!(item.value, RawValue::Float(_));
            if let Some(text) = item.literal().filter(|_| !is_float).and_then(&read) {
                found.push(text);
                continue;
            }
            let (name, expected) = (field.key.name, field.key.expected);
            let message = format!("`{name}` holds {}, expected {expected}", item.described());
            self.error(item.place, message);
        }
        found.into()
    }
}

/// A header's name in lower case, if it is one.
fn header(text: &str) -> Option<Box<str>> {
    let lower = text.to_ascii_lowercase();
    http::HeaderName::from_bytes(lower.as_bytes()).ok().map(|name| name.as_str().into())
}

fn is_never_kept(name: &str) -> bool {
    NEVER_KEPT.contains(&name) || NEVER_KEPT_BEGIN.iter().any(|begin| name.starts_with(begin))
}

fn bytes(text: &str) -> Option<usize> {
    let (digits, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let unit: usize = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        _ => return None,
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}

fn status_range(text: &str) -> Option<(u16, u16)> {
    let class = text.strip_suffix("xx").and_then(|class| class.parse::<u16>().ok());
    let (first, last) = match class {
        Some(class) => (class.checked_mul(100)?, class.checked_mul(100)?.checked_add(99)?),
        None => text.parse().map(|status| (status, status)).ok()?,
    };
    (200 <= first && last < 500).then_some((first, last))
}
