//! Who calls: names that Envoy verified, never those that a client can choose.

use super::head::{RequestHead, values};
use crate::rules::Value;
use crate::rules::idempotency::{Anonymous, CertificateName, IdentitySource, Scope};

/// Who calls, as part of an operation's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    /// For whom, empty if callers are not grouped.
    pub(super) tenant: String,
    /// Who.
    pub(super) principal: String,
    /// Whether nothing is known of it.
    pub(super) is_anonymous: bool,
}

/// The first whole number that a double may hold for another one.
const END_OF_WHOLE: f64 = 9_007_199_254_740_992.0;

/// Fewest characters of a key that all anonymous callers share: it must be hard to guess.
const ANONYMOUS_MIN_LENGTH: usize = 16;

impl Caller {
    /// The caller of a request, or nothing if it must not be served.
    pub(super) fn of(head: &RequestHead, scope: &Scope) -> Option<Self> {
        let tenant = match first(head, &scope.tenant) {
            None if !scope.tenant.is_empty() => return None,
            found => found.unwrap_or_default(),
        };
        match (first(head, &scope.principal), scope.anonymous) {
            (Some(principal), _) => Some(Self { tenant, principal, is_anonymous: false }),
            (None, Anonymous::Reject) => None,
            (None, Anonymous::Shared) => {
                Some(Self { tenant, principal: String::new(), is_anonymous: true })
            }
        }
    }

    /// Fewest characters of its keys.
    pub(super) fn min_key_length(&self, chosen: Option<usize>) -> usize {
        chosen.unwrap_or(if self.is_anonymous { ANONYMOUS_MIN_LENGTH } else { 1 })
    }
}

/// The first name that is there, behind its kind: names of two kinds never meet.
fn first(head: &RequestHead, sources: &[IdentitySource]) -> Option<String> {
    sources.iter().find_map(|source| {
        let name = name(head, source).filter(|name| !name.is_empty())?;
        Some(format!("{}:{name}", source.kind()))
    })
}

fn name(head: &RequestHead, source: &IdentitySource) -> Option<String> {
    match source {
        IdentitySource::Certificate(name) => {
            let certificate = head.certificate.as_ref()?;
            Some(match name {
                CertificateName::UriSan => certificate.uri_san.clone(),
                CertificateName::DnsSan => certificate.dns_san.clone(),
            })
        }
        IdentitySource::JwtClaim(way) => claim(head, way),
        IdentitySource::TrustedHeader(name) => {
            let mut lines = values(&head.headers, name);
            let line = lines.next().filter(|_| lines.next().is_none())?;
            String::from_utf8(line.to_vec()).ok()
        }
    }
}

fn claim(head: &RequestHead, way: &[Box<str>]) -> Option<String> {
    let (last, way) = way.split_last()?;
    let mut map = &head.claims;
    for step in way {
        let Some(Value::Map(next)) = map.get(&**step) else { return None };
        map = next;
    }
    match map.get(&**last)? {
        Value::Text(text) => Some(text.clone()),
        // A subject that is a number: whole, and none that a double holds for its neighbours, too.
        Value::Number(number) if number.fract() == 0.0 && number.abs() < END_OF_WHOLE => {
            Some(number.to_string())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Map(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idempotency::head::Certificate;
    use crate::rules::Map;
    use crate::rules::idempotency::KeySpace;

    fn scope(principal: Vec<IdentitySource>, tenant: Vec<IdentitySource>) -> Scope {
        Scope {
            principal: principal.into(),
            tenant: tenant.into(),
            anonymous: Anonymous::Reject,
            key_space: KeySpace::Principal,
        }
    }

    fn head() -> RequestHead {
        let payload = Map::from_iter([
            ("sub".to_owned(), Value::Text("alice".to_owned())),
            ("n".to_owned(), Value::Number(7.0)),
            ("half".to_owned(), Value::Number(0.5)),
            ("most".to_owned(), Value::Number(END_OF_WHOLE - 1.0)),
            ("large".to_owned(), Value::Number(END_OF_WHOLE)),
        ]);
        RequestHead {
            headers: vec![
                ("x-user".to_owned(), b"bob".to_vec()),
                ("x-twice".to_owned(), b"a".to_vec()),
                ("x-twice".to_owned(), b"b".to_vec()),
                ("x-empty".to_owned(), Vec::new()),
                ("x-bytes".to_owned(), b"\xff".to_vec()),
            ],
            certificate: Some(Certificate {
                uri_san: "spiffe://shop/web".to_owned(),
                dns_san: String::new(),
            }),
            claims: Map::from_iter([("payload".to_owned(), Value::Map(payload))]),
            ..RequestHead::default()
        }
    }

    fn jwt(way: &[&str]) -> IdentitySource {
        IdentitySource::JwtClaim(way.iter().map(|step| (*step).into()).collect())
    }

    fn header(name: &str) -> IdentitySource {
        IdentitySource::TrustedHeader(name.into())
    }

    fn principal(sources: Vec<IdentitySource>) -> Option<String> {
        Caller::of(&head(), &scope(sources, Vec::new())).map(|caller| caller.principal)
    }

    #[test]
    fn a_caller_is_named_by_what_was_verified() {
        let uri = IdentitySource::Certificate(CertificateName::UriSan);
        assert_eq!(principal(vec![uri]).as_deref(), Some("uri_san:spiffe://shop/web"));
        assert_eq!(principal(vec![jwt(&["payload", "sub"])]).as_deref(), Some("jwt_claim:alice"));
        assert_eq!(principal(vec![jwt(&["payload", "n"])]).as_deref(), Some("jwt_claim:7"));
        let most = principal(vec![jwt(&["payload", "most"])]);
        assert_eq!(most.as_deref(), Some("jwt_claim:9007199254740991"));
        assert_eq!(principal(vec![header("x-user")]).as_deref(), Some("trusted_header:bob"));
    }

    #[test]
    fn what_is_no_single_name_is_none() {
        let dns = IdentitySource::Certificate(CertificateName::DnsSan);
        for source in [
            dns,
            jwt(&["payload", "half"]),
            jwt(&["payload", "large"]),
            jwt(&["payload"]),
            jwt(&["payload", "sub", "x"]),
            jwt(&["other", "sub"]),
            header("x-twice"),
            header("x-empty"),
            header("x-bytes"),
            header("x-absent"),
        ] {
            assert_eq!(principal(vec![source.clone()]), None, "{source:?}");
            let both = principal(vec![source, header("x-user")]);
            assert_eq!(both.as_deref(), Some("trusted_header:bob"));
        }
    }

    #[test]
    fn names_of_two_kinds_never_meet() {
        let mut head = head();
        head.headers.push(("x-other".to_owned(), b"alice".to_vec()));
        let of = |source| Caller::of(&head, &scope(vec![source], Vec::new())).unwrap().principal;
        assert_ne!(of(jwt(&["payload", "sub"])), of(header("x-other")));
    }

    #[test]
    fn who_has_no_tenant_or_no_name_is_refused_unless_anonymous_callers_share() {
        let user = || vec![header("x-user")];
        assert!(Caller::of(&head(), &scope(user(), vec![header("x-absent")])).is_none());
        let grouped = Caller::of(&head(), &scope(user(), vec![header("x-user")])).unwrap();
        assert_eq!(grouped.tenant, "trusted_header:bob");
        assert_eq!(grouped.min_key_length(None), 1);
        let shared = Scope { anonymous: Anonymous::Shared, ..scope(Vec::new(), Vec::new()) };
        let anonymous = Caller::of(&head(), &shared).unwrap();
        assert!(anonymous.is_anonymous && anonymous.principal.is_empty());
        assert_eq!((anonymous.min_key_length(None), anonymous.min_key_length(Some(3))), (16, 3));
    }
}
