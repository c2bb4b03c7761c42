//! An xDS server that hands out policies as go-control-plane does: it sends its state to whoever
//! holds another version, also again to whoever has just refused it.

use super::eventually;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse,
};
pub use envoy_types::pb::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
pub use envoy_types::pb::google::protobuf::Any;
pub use envoy_types::pb::ratelimit::config::ratelimit::v3::{
    RateLimitConfig, RateLimitDescriptor as Node, RateLimitPolicy, RateLimitUnit as Unit,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

pub const TYPE_URL: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/// A running xDS server. It and its connections end with it.
pub struct XdsServer {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    state: watch::Sender<Option<DiscoveryResponse>>,
    /// Everything that clients said, with the headers of their call.
    said: Mutex<Vec<(DiscoveryRequest, MetadataMap)>>,
}

impl XdsServer {
    pub async fn start() -> Self {
        Self::start_on("127.0.0.1:0".parse().unwrap(), None).await
    }

    pub async fn start_on(address: SocketAddr, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        let task = tokio::spawn(serve(listener, tls, Arc::clone(&shared)));
        Self { address, shared, task }
    }

    /// Sends these policies from now on.
    pub fn publish(&self, version: &str, policies: &[RateLimitConfig]) {
        self.send(response(version, policies));
    }

    /// Sends any response from now on.
    pub fn send(&self, response: DiscoveryResponse) {
        self.shared.state.send_replace(Some(response));
    }

    /// All that clients have said so far.
    pub fn said(&self) -> Vec<DiscoveryRequest> {
        self.shared.said.lock().unwrap().iter().map(|(said, _)| said.clone()).collect()
    }

    /// The headers of the first call.
    pub fn headers(&self) -> MetadataMap {
        self.shared.said.lock().unwrap()[0].1.clone()
    }

    /// Waits until a client has accepted a version.
    pub async fn accepted(&self, version: &str) {
        eventually(&format!("version {version} to be accepted"), async || {
            let accepts = |said: &DiscoveryRequest| {
                said.version_info == version && said.error_detail.is_none()
            };
            self.said().iter().any(accepts).then_some(())
        })
        .await;
    }

    /// Waits for the refusal after the first `n` and gives its text.
    pub async fn refusal(&self, n: usize) -> String {
        eventually("a refusal", async || {
            let refusals = self.said().into_iter().filter_map(|said| said.error_detail);
            refusals.map(|detail| detail.message).nth(n)
        })
        .await
    }

    /// How often clients refused.
    pub fn n_refusals(&self) -> usize {
        self.said().iter().filter(|said| said.error_detail.is_some()).count()
    }

    /// How many streams were opened.
    pub fn n_streams(&self) -> usize {
        self.said().iter().filter(|said| said.response_nonce.is_empty()).count()
    }
}

impl Drop for XdsServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The whole state.
pub fn response(version: &str, policies: &[RateLimitConfig]) -> DiscoveryResponse {
    let any = |policy: &RateLimitConfig| Any {
        type_url: TYPE_URL.to_owned(),
        value: prost::Message::encode_to_vec(policy),
    };
    DiscoveryResponse {
        version_info: version.to_owned(),
        type_url: TYPE_URL.to_owned(),
        resources: policies.iter().map(any).collect(),
        ..DiscoveryResponse::default()
    }
}

/// A policy whose resource is called as its domain.
pub fn policy(domain: &str, descriptors: Vec<Node>) -> RateLimitConfig {
    RateLimitConfig { name: domain.to_owned(), domain: domain.to_owned(), descriptors }
}

/// A node that limits.
pub fn limit(key: &str, value: &str, unit: Unit, requests_per_unit: u32) -> Node {
    let limit = RateLimitPolicy { unit: unit.into(), requests_per_unit, ..Default::default() };
    Node { rate_limit: Some(limit), ..above(key, value, vec![]) }
}

/// A node with others below.
pub fn above(key: &str, value: &str, descriptors: Vec<Node>) -> Node {
    Node { key: key.to_owned(), value: value.to_owned(), descriptors, ..Default::default() }
}

async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve_one(stream, tls.clone(), Arc::clone(&shared)));
    }
}

async fn serve_one(stream: TcpStream, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let service = AggregatedDiscoveryServiceServer::new(Ads(shared));
    let router = Routes::new(service).prepare().into_axum_router();
    let (builder, service) =
        (Builder::new(TokioExecutor::new()).http2_only(), TowerToHyperService::new(router));
    let Some(tls) = tls else {
        return drop(builder.serve_connection(TokioIo::new(stream), service).await);
    };
    if let Ok(stream) = tls.accept(stream).await {
        let _ = builder.serve_connection(TokioIo::new(stream), service).await;
    }
}

struct Ads(Arc<Shared>);

#[tonic::async_trait]
impl AggregatedDiscoveryService for Ads {
    type StreamAggregatedResourcesStream = ReceiverStream<Result<DiscoveryResponse, Status>>;
    type DeltaAggregatedResourcesStream = ReceiverStream<Result<DeltaDiscoveryResponse, Status>>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        let (sender, responses) = mpsc::channel(1);
        let (headers, _, requests) = request.into_parts();
        tokio::spawn(converse(Arc::clone(&self.0), headers, requests, sender));
        Ok(Response::new(ReceiverStream::new(responses)))
    }

    async fn delta_aggregated_resources(
        &self,
        _: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        Err(Status::unimplemented("state of the world only"))
    }
}

async fn converse(
    shared: Arc<Shared>,
    headers: MetadataMap,
    mut requests: Streaming<DiscoveryRequest>,
    responses: mpsc::Sender<Result<DiscoveryResponse, Status>>,
) {
    let mut states = shared.state.subscribe();
    let mut n_sent = 0;
    // The version that the client holds, once it has said so and waits for another one.
    let mut holds: Option<String> = None;
    loop {
        let due = holds.as_ref().and_then(|version| {
            let state = states.borrow_and_update();
            state.clone().filter(|state| state.version_info != *version)
        });
        if let Some(state) = due {
            n_sent += 1;
            holds = None;
            let sent = DiscoveryResponse { nonce: n_sent.to_string(), ..state };
            if responses.send(Ok(sent)).await.is_err() {
                return;
            }
        }
        tokio::select! {
            request = requests.message() => {
                let Ok(Some(request)) = request else { return };
                let answers_last = request.response_nonce.is_empty()
                    || request.response_nonce == n_sent.to_string();
                if answers_last && request.type_url == TYPE_URL {
                    holds = Some(request.version_info.clone());
                }
                shared.said.lock().unwrap().push((request, headers.clone()));
            }
            changed = states.changed() => if changed.is_err() { return },
        }
    }
}
