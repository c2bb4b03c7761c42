//! What is known of a request before its body, and of an answer before its.

use crate::rules::Map;

/// Headers in their order, names in lower case.
pub type Headers = Vec<(String, Vec<u8>)>;

/// What is known of a request before its body.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestHead {
    /// Its headers, `:method` and `:path` among them.
    pub headers: Headers,
    /// Envoy's name of the route, empty if it has none.
    pub route_name: String,
    /// Who the client's certificate, which Envoy verified, says it is.
    pub certificate: Option<Certificate>,
    /// What Envoy verified of the client's token.
    pub claims: Map,
    /// Whether there is no body.
    pub ends: bool,
}

/// Names in a certificate, empty where it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificate {
    /// Its first URI.
    pub uri_san: String,
    /// Its first DNS name.
    pub dns_san: String,
}

/// What is known of an answer before its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseHead {
    /// Its headers, `:status` among them.
    pub headers: Headers,
    /// Who made it, in Envoy's words; `None`: Envoy was not asked to say.
    pub details: Option<String>,
    /// What went wrong, as bits of Envoy's response flags.
    pub flags: u64,
    /// How often the request was sent to an upstream; `None`: Envoy was not asked to say.
    pub n_attempts: Option<u64>,
    /// Whether there is no body.
    pub ends: bool,
}

impl RequestHead {
    /// The value of a pseudo header, or nothing.
    pub fn pseudo(&self, name: &str) -> &[u8] {
        values(&self.headers, name).next().unwrap_or_default()
    }

    /// Whether the caller speaks gRPC.
    pub fn is_grpc(&self) -> bool {
        self.pseudo("content-type").starts_with(b"application/grpc")
    }
}

impl ResponseHead {
    /// Its status.
    pub fn status(&self) -> Option<u16> {
        number(self.value(":status")?)
    }

    /// Whether the upstream says that a header is for this connection alone.
    pub fn is_of_connection(&self, name: &str) -> bool {
        let named = values(&self.headers, "connection").flat_map(|line| line.split(|b| *b == b','));
        named.map(<[u8]>::trim_ascii).any(|named| named.eq_ignore_ascii_case(name.as_bytes()))
    }

    /// The first value of a header.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        values(&self.headers, name).next()
    }
}

/// The values of a header. Envoy knows `host` by its name in HTTP/2.
pub(super) fn values<'a, 'n>(
    headers: &'a [(String, Vec<u8>)],
    name: &'n str,
) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
    let name = if name == "host" { ":authority" } else { name };
    headers.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_slice())
}

/// A whole number as headers hold it.
pub(super) fn number<N: std::str::FromStr>(value: &[u8]) -> Option<N> {
    let text = std::str::from_utf8(value).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}
