//! An OpenTelemetry collector that keeps what it is sent, and takes it or not.

use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use std::convert::Infallible;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;

use ::http::{HeaderMap, Request, Response};

type Body = http_body_util::combinators::BoxBody<Bytes, Infallible>;

/// A running collector.
pub struct Collector {
    pub port: u16,
    received: mpsc::UnboundedReceiver<Received>,
}

/// One batch of spans.
pub struct Received {
    pub path: String,
    pub headers: HeaderMap,
    /// As it came, without gRPC's frame.
    pub bytes: Bytes,
}

impl Collector {
    pub async fn start(takes: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, received) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, takes, sender.clone()));
            }
        });
        Self { port, received }
    }

    /// The next batch.
    pub async fn receive(&mut self) -> Received {
        let received = tokio::time::timeout(super::PATIENCE, self.received.recv()).await;
        received.expect("a batch of spans").unwrap()
    }
}

impl Received {
    /// As OpenTelemetry reads it.
    pub fn decode(&self) -> ExportTraceServiceRequest {
        ExportTraceServiceRequest::decode(self.bytes.clone()).unwrap()
    }
}

async fn serve(stream: TcpStream, takes: bool, sender: mpsc::UnboundedSender<Received>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let sender = sender.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let content_type = head.headers.get("content-type");
            let is_grpc = content_type.is_some_and(|found| found == "application/grpc");
            let bytes = if is_grpc { unframed(&body) } else { body };
            let path = head.uri.path().to_owned();
            sender.send(Received { path, headers: head.headers, bytes }).ok();
            Ok::<_, Infallible>(if is_grpc { over_grpc(takes) } else { over_http(takes) })
        }
    });
    let _ =
        Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

fn unframed(body: &Bytes) -> Bytes {
    let length = u32::from_be_bytes(body[1..5].try_into().unwrap());
    assert_eq!((body[0], length as usize), (0, body.len() - 5));
    body.slice(5..)
}

fn over_http(takes: bool) -> Response<Body> {
    let status = if takes { 200 } else { 503 };
    Response::builder().status(status).body(Full::default().boxed()).unwrap()
}

fn over_grpc(takes: bool) -> Response<Body> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", if takes { 0 } else { 14 }.into());
    let frames = [Frame::data(Bytes::from_static(&[0; 5])), Frame::trailers(trailers)];
    let frames = tokio_stream::iter(frames).map(Ok::<_, Infallible>);
    Response::new(StreamBody::new(frames).boxed())
}
