//! A client of the rate-limit API, made from other people's protobuf types than the server's.

pub use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
pub use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
pub use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
pub use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus,
};

pub use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{UInt64Value, Value};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

/// A connected client.
pub struct Client(RateLimitServiceClient<Channel>);

/// A channel to a server.
pub async fn channel(server: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{server}")).unwrap().connect().await.unwrap()
}

/// A client of the rate-limit API.
pub async fn connect(server: SocketAddr) -> Client {
    Client(RateLimitServiceClient::new(channel(server).await))
}

/// A stream over TLS to a server by the name `localhost`.
pub async fn tls_stream(
    server: SocketAddr,
    config: Arc<ClientConfig>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(server).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(config).connect(name, stream).await
}

/// A client of the rate-limit API over TLS.
pub async fn connect_over_tls(
    server: SocketAddr,
    config: Arc<ClientConfig>,
) -> Result<Client, tonic::transport::Error> {
    Ok(Client::over(channel_over_tls(server, config).await?))
}

/// A channel over TLS.
pub async fn channel_over_tls(
    server: SocketAddr,
    config: Arc<ClientConfig>,
) -> Result<Channel, tonic::transport::Error> {
    let connect = tower::service_fn(move |_| {
        let config = Arc::clone(&config);
        async move { tls_stream(server, config).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://localhost").connect_with_connector(connect).await
}

impl Client {
    /// A client over a channel.
    pub fn over(channel: Channel) -> Self {
        Self(RateLimitServiceClient::new(channel))
    }

    /// The answer to a request.
    pub async fn ask(&mut self, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
        self.0.should_rate_limit(request).await.map(tonic::Response::into_inner)
    }

    /// The answer to one descriptor, and who decided it.
    pub async fn decided_by(
        &mut self,
        domain: &str,
        entries: &[(&str, &str)],
    ) -> Result<(Code, String), Status> {
        let answer = self.ask(request(domain, vec![descriptor(entries)])).await?;
        let by = metadata(&answer, "decidedBy").remove(0);
        Ok((answer.overall_code(), by))
    }

    /// The status of a request with one descriptor.
    pub async fn status(
        &mut self,
        domain: &str,
        descriptor: RateLimitDescriptor,
    ) -> DescriptorStatus {
        let mut answer = self.ask(request(domain, vec![descriptor])).await.unwrap();
        assert_eq!(answer.statuses.len(), 1, "{answer:?}");
        answer.statuses.remove(0)
    }
}

/// Texts of each descriptor's dynamic metadata, such as `decidedBy`; empty where it has none.
pub fn metadata(answer: &RateLimitResponse, name: &str) -> Vec<String> {
    let text = |value: &Value| match &value.kind {
        Some(Kind::StringValue(text)) => text.clone(),
        _ => String::new(),
    };
    let field = |value: &Value| match &value.kind {
        Some(Kind::StructValue(of)) => of.fields.get(name).map(text).unwrap_or_default(),
        _ => String::new(),
    };
    let metadata = answer.dynamic_metadata.as_ref().expect("RESPONSE_DYNAMIC_METADATA=true");
    match &metadata.fields["descriptors"].kind {
        Some(Kind::ListValue(list)) => list.values.iter().map(field).collect(),
        other => panic!("{other:?}"),
    }
}

/// A request of one hit.
pub fn request(domain: &str, descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest { domain: domain.to_owned(), descriptors, hits_addend: 0 }
}

/// A descriptor of these entries.
pub fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..Default::default() }
}

/// A descriptor that only looks.
pub fn peek(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(UInt64Value { value: 0 }), ..descriptor(entries) }
}
