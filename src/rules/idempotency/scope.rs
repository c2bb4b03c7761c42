//! Whose key it is: who the caller is, as told by those who verified it.

/// Whose key it is. Two callers with one key are two operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Who calls: the first of these that is there.
    pub principal: Box<[IdentitySource]>,
    /// For whom: the first of these that is there; empty: callers are not grouped.
    pub tenant: Box<[IdentitySource]>,
    /// What happens to callers that nothing is known of.
    pub anonymous: Anonymous,
    /// How far a key reaches.
    pub key_space: KeySpace,
}

/// Where a verified name of the caller stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentitySource {
    /// In the client's certificate, which Envoy verified.
    Certificate(CertificateName),
    /// In a token that Envoy's `jwt_authn` verified: the way to it in the forwarded metadata.
    JwtClaim(Box<[Box<str>]>),
    /// In a header, in lower case, that no client can set.
    TrustedHeader(Box<str>),
}

/// A name in a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateName {
    /// Its first URI, as SPIFFE's.
    UriSan,
    /// Its first DNS name.
    DnsSan,
}

/// What happens to callers that nothing is known of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// They are refused.
    #[default]
    Reject,
    /// All of them share their keys: who knows a key gets its answer.
    Shared,
}

/// How far a caller's key reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeySpace {
    /// Over all routes: the same key with another request is an error.
    #[default]
    Principal,
    /// One route: the same key on another is another operation.
    Route,
}

impl IdentitySource {
    /// The kind of it, which is part of the identity: names of different kinds never meet.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Certificate(CertificateName::UriSan) => "uri_san",
            Self::Certificate(CertificateName::DnsSan) => "dns_san",
            Self::JwtClaim(_) => "jwt_claim",
            Self::TrustedHeader(_) => "trusted_header",
        }
    }
}
