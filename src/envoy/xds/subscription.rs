//! What the xDS server is told: what we want, what we took, what we refused and why.

use crate::settings::XdsSettings;
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::config::core::v3::node::UserAgentVersionType;
use envoy_types::pb::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};
use envoy_types::pb::google::rpc::Status;

/// The kind of resource that we want.
pub(super) const TYPE_URL: &str =
    "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/// Longest text of a refusal, in bytes.
const MAX_DETAIL: usize = 16 << 10;

/// The subscription to all policies, over one stream.
#[derive(Debug)]
pub(super) struct Subscription {
    node: Node,
    /// Version of the last response that we took.
    accepted: String,
}

/// What tells one response from others.
#[derive(Clone, Debug)]
pub(super) struct ResponseId {
    version: String,
    nonce: String,
}

impl Subscription {
    pub(super) fn new(settings: &XdsSettings) -> Self {
        let text = |text: &String| Value { kind: Some(Kind::StringValue(text.clone())) };
        let pairs = settings.node_metadata.iter().map(|(key, value)| (key.clone(), text(value)));
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let node = Node {
            id: settings.node_id.clone(),
            metadata: Some(Struct { fields: pairs.collect() }),
            user_agent_name: "tidegate".to_owned(),
            user_agent_version_type: Some(UserAgentVersionType::UserAgentVersion(version)),
            ..Node::default()
        };
        Self { node, accepted: String::new() }
    }

    /// The first request of a stream. It names no version although we may hold one of an earlier
    /// stream: a server that was restarted may call other policies by the same version, and would
    /// not send them.
    pub(super) fn hello(&self) -> DiscoveryRequest {
        DiscoveryRequest {
            version_info: self.accepted.clone(),
            node: Some(self.node.clone()),
            type_url: TYPE_URL.to_owned(),
            ..DiscoveryRequest::default()
        }
    }

    /// Says whether a response was taken.
    pub(super) fn answer(&mut self, id: ResponseId, taken: Result<(), String>) -> DiscoveryRequest {
        let error_detail = match taken {
            Ok(()) => {
                self.accepted = id.version;
                None
            }
            Err(detail) => Some(Status {
                code: tonic::Code::InvalidArgument.into(),
                message: shortened(detail),
                ..Status::default()
            }),
        };
        DiscoveryRequest { response_nonce: id.nonce, error_detail, ..self.hello() }
    }
}

impl ResponseId {
    pub(super) fn of(response: &DiscoveryResponse) -> Self {
        Self { version: response.version_info.clone(), nonce: response.nonce.clone() }
    }
}

fn shortened(text: String) -> String {
    if text.len() <= MAX_DETAIL {
        return text;
    }
    text.char_indices().take_while(|(at, _)| *at < MAX_DETAIL).map(|(_, char)| char).collect()
}
