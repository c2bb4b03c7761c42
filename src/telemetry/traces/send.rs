//! The way to the collector: OTLP over HTTP/1.1, or over gRPC. One connection for each batch, of
//! which there are few.

use crate::settings::{TlsFault, TraceProtocol, TraceSettings, authorities};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Takes spans.
#[derive(Debug)]
pub(super) struct Collector {
    settings: TraceSettings,
    tls: Option<Arc<ClientConfig>>,
}

/// Why spans were not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unsent {
    #[error("the collector cannot be reached: {0}")]
    Unreachable(#[from] io::Error),
    #[error("the collector does not understand us: {0}")]
    Broken(#[from] hyper::Error),
    #[error("the collector answers with status {0}")]
    Refused(StatusCode),
    #[error("the collector answers with gRPC status {0}")]
    RefusedByGrpc(String),
    #[error("the collector does not answer in time")]
    Overdue,
}

/// More than that of an answer is not read.
const MAX_ANSWER: usize = 64 << 10;

trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

type Io = TokioIo<Box<dyn Wire>>;

impl Collector {
    pub(super) fn new(settings: TraceSettings) -> Result<Self, TlsFault> {
        let encrypted = settings.endpoint.scheme_str() == Some("https");
        let tls = encrypted.then(|| tls(&settings)).transpose()?.map(Arc::new);
        Ok(Self { settings, tls })
    }

    /// Sends an encoded batch.
    pub(super) async fn send(&self, batch: Vec<u8>) -> Result<(), Unsent> {
        let sending = async {
            let io = self.connect().await?;
            match self.settings.protocol {
                TraceProtocol::Http => self.send_http(io, batch).await,
                TraceProtocol::Grpc => self.send_grpc(io, batch).await,
            }
        };
        timeout(self.settings.timeout, sending).await.unwrap_or(Err(Unsent::Overdue))
    }

    async fn connect(&self) -> io::Result<Io> {
        let endpoint = &self.settings.endpoint;
        let host = endpoint.host().unwrap_or_default().trim_matches(['[', ']']);
        let default = if self.tls.is_some() { 443 } else { 80 };
        let stream = TcpStream::connect((host, endpoint.port_u16().unwrap_or(default))).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return Ok(TokioIo::new(Box::new(stream))) };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await?;
        Ok(TokioIo::new(Box::new(stream)))
    }

    async fn send_http(&self, io: Io, batch: Vec<u8>) -> Result<(), Unsent> {
        let endpoint = &self.settings.endpoint;
        let path = endpoint.path_and_query().map_or("/", |path| path.as_str());
        let mut request = self.request(path.parse().unwrap_or_default(), batch);
        insert(request.headers_mut(), header::CONTENT_TYPE, "application/x-protobuf");
        if let Some(host) = endpoint.authority().and_then(|host| host.as_str().parse().ok()) {
            request.headers_mut().insert(header::HOST, host);
        }
        let (mut sender, connection) = http1::handshake(io).await?;
        let answer = async {
            let answer: Response<Incoming> = sender.send_request(request).await?;
            Ok(answer.status())
        };
        let status = driven(answer, connection).await?;
        if status.is_success() { Ok(()) } else { Err(Unsent::Refused(status)) }
    }

    async fn send_grpc(&self, io: Io, batch: Vec<u8>) -> Result<(), Unsent> {
        let length = u32::try_from(batch.len()).unwrap_or(u32::MAX);
        let frame = [&[0], &length.to_be_bytes()[..], &batch].concat();
        let mut request = self.request(self.settings.endpoint.clone(), frame);
        insert(request.headers_mut(), header::CONTENT_TYPE, "application/grpc");
        insert(request.headers_mut(), header::TE, "trailers");
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
        let answer = async {
            let (head, body) = sender.send_request(request).await?.into_parts();
            if !head.status.is_success() {
                return Err(Unsent::Refused(head.status));
            }
            let trailers = Limited::new(body, MAX_ANSWER).collect().await.ok();
            let trailers = trailers.and_then(|body| body.trailers().cloned());
            let status = |of: &HeaderMap| of.get("grpc-status").cloned();
            let status = trailers.as_ref().and_then(status).or_else(|| status(&head.headers));
            match status.as_ref().map(HeaderValue::as_bytes) {
                Some(b"0") => Ok(()),
                other => Err(Unsent::RefusedByGrpc(
                    String::from_utf8_lossy(other.unwrap_or(b"none")).escape_debug().to_string(),
                )),
            }
        };
        driven(answer, connection).await
    }

    fn request(&self, uri: Uri, body: Vec<u8>) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::from(body));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = uri;
        request.headers_mut().extend(self.settings.headers.iter().cloned());
        request
    }
}

fn insert(headers: &mut HeaderMap, name: header::HeaderName, value: &'static str) {
    headers.insert(name, HeaderValue::from_static(value));
}

/// Waits for an answer while its connection is driven.
async fn driven<T>(
    answer: impl Future<Output = Result<T, Unsent>>,
    connection: impl Future<Output = hyper::Result<()>>,
) -> Result<T, Unsent> {
    let mut answer = std::pin::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        _ = connection => answer.await,
    }
}

fn tls(settings: &TraceSettings) -> Result<ClientConfig, TlsFault> {
    let roots = authorities("OTEL_EXPORTER_OTLP_CERTIFICATE", settings.ca.as_deref())?;
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    if settings.protocol == TraceProtocol::Grpc {
        config.alpn_protocols = vec![b"h2".to_vec()];
    }
    Ok(config)
}
