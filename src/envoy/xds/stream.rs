//! One stream to the xDS server: takes its responses one by one, and answers each.

use super::backoff::Backoff;
use super::connect::{Calls, NotConnected};
use super::resource;
use super::subscription::{ResponseId, Subscription};
use super::{Offer, Set};
use crate::config::Report;
use crate::settings::XdsSettings;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use http::Uri;
use std::error::Error;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Status};

/// How long the server may take to read an answer of ours.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// Before a set is refused for the same reasons again: many servers send it anew at once.
const REFUSED_AGAIN: Duration = Duration::from_secs(1);

/// How a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum End {
    /// There was none.
    #[error(transparent)]
    NotConnected(#[from] NotConnected),
    /// It broke, or the server does not want us.
    #[error("{}{}", said(.0), advice(.0))]
    Broken(#[from] Status),
    /// The server closed the stream in order.
    #[error("the server closed the stream")]
    Closed,
    /// The server does not read what we say.
    #[error("the server does not read our answers")]
    Deaf,
    /// This server is about to end.
    #[error("policies are not asked for any more")]
    NobodyAsks,
}

/// What a stream is run with.
#[derive(Debug)]
pub(super) struct Stream<'a> {
    pub(super) settings: &'a XdsSettings,
    pub(super) offers: &'a mpsc::Sender<Offer>,
    pub(super) backoff: &'a mut Backoff,
}

impl Stream<'_> {
    /// Runs it to its end. The server may be silent for as long as it has nothing to say.
    pub(super) async fn run(self, calls: Calls, origin: Uri) -> End {
        match self.converse(calls, origin).await {
            Ok(()) => End::Closed,
            Err(end) => end,
        }
    }

    async fn converse(self, calls: Calls, origin: Uri) -> Result<(), End> {
        let mut subscription = Subscription::new(self.settings);
        let (requests, outgoing) = mpsc::channel(1);
        say(&requests, subscription.hello()).await?;
        let mut client = AggregatedDiscoveryServiceClient::with_origin(calls, origin)
            .max_decoding_message_size(self.settings.max_message);
        let request = self.request(ReceiverStream::new(outgoing));
        let mut responses = client.stream_aggregated_resources(request).await?.into_inner();
        let mut refusal = None;
        while let Some(response) = responses.message().await? {
            let id = ResponseId::of(&response);
            let taken = self.offer(response).await?;
            let before = std::mem::replace(&mut refusal, taken.clone().err());
            match &taken {
                Ok(()) => self.backoff.reset(),
                Err(_) if before == refusal => sleep(REFUSED_AGAIN).await,
                Err(_) => {}
            }
            say(&requests, subscription.answer(id, taken)).await?;
        }
        Ok(())
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let headers = self.settings.headers.iter().cloned().collect();
        *request.metadata_mut() = MetadataMap::from_headers(headers);
        request
    }

    /// Offers what a response holds, and says what became of it.
    async fn offer(&self, response: DiscoveryResponse) -> Result<Result<(), String>, End> {
        let read = spawn_blocking(move || resource::read(&response)).await;
        let set: Result<Set, Report> = read.map_err(|_| End::NobodyAsks)?;
        let (answer, answered) = oneshot::channel();
        self.offers.send(Offer { set, answer }).await.map_err(|_| End::NobodyAsks)?;
        answered.await.map_err(|_| End::NobodyAsks)
    }
}

async fn say(requests: &mpsc::Sender<DiscoveryRequest>, what: DiscoveryRequest) -> Result<(), End> {
    match requests.send_timeout(what, READ_WITHIN).await {
        // The stream itself says why it is gone.
        Ok(()) | Err(mpsc::error::SendTimeoutError::Closed(_)) => Ok(()),
        Err(mpsc::error::SendTimeoutError::Timeout(_)) => Err(End::Deaf),
    }
}

/// What the server said, or what broke underneath.
fn said(status: &Status) -> String {
    let mut said = status.message().to_owned();
    let mut cause = status.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
        cause = error.source();
    }
    let said: String = said.chars().take(500).flat_map(char::escape_debug).collect();
    format!("the stream broke ({}): {said}", status.code().description())
}

fn advice(status: &Status) -> &'static str {
    if status.code() == Code::OutOfRange {
        "; XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES sets the limit"
    } else {
        ""
    }
}
