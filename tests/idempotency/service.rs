//! The service behind Envoy: counts what it runs, and does what the request's path says.

use futures_util::StreamExt;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A running service.
pub struct Service {
    /// Where it serves.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// A request that reached it.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its headers.
    pub headers: HeaderMap,
}

struct Shared {
    ran: Mutex<Vec<Ran>>,
    gate: watch::Sender<u64>,
}

type Body = UnsyncBoxBody<Bytes, io::Error>;

impl Service {
    /// Starts it on a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { ran: Mutex::default(), gate: watch::Sender::new(0) });
        let task = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Self { address, shared, task }
    }

    /// Every request that reached it.
    pub fn ran(&self) -> Vec<Ran> {
        self.shared.ran.lock().unwrap().clone()
    }

    /// How many requests reached it.
    pub fn n_ran(&self) -> usize {
        self.shared.ran.lock().unwrap().len()
    }

    /// Lets what waits at the gate go on: requests whose path begins with `/slow`, one piece of each
    /// `/events`, and `/cut`, which then breaks off.
    pub fn open_gate(&self) {
        self.shared.gate.send_modify(|opened| *opened += 1);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        let answer = service_fn(move |request| Arc::clone(&shared).answer(request));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
    }
}

impl Shared {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> io::Result<Response<Body>> {
        let mut gate = self.gate.subscribe();
        gate.mark_unchanged();
        let (head, body) = request.into_parts();
        body.collect().await.map_err(io::Error::other)?;
        let path = head.uri.path_and_query().unwrap().to_string();
        let n = self.note(Ran { headers: head.headers.clone() });
        let query = query(&path);
        let number = |name: &str| query.get(name).and_then(|value| value.parse::<usize>().ok());
        if path.starts_with("/slow") {
            gate.changed().await.map_err(io::Error::other)?;
        }
        if path.starts_with("/reset") {
            return Err(io::Error::other("reset"));
        }
        let status = number("status").unwrap_or(201);
        let mut response = Response::builder().status(u16::try_from(status).unwrap());
        for (name, value) in &head.headers {
            if let Some(name) = name.as_str().strip_prefix("x-answer-") {
                response = response.header(name, value);
            }
        }
        let text = Bytes::from(format!("{{\"run\":{n}}}"));
        let body = if path.starts_with("/events") {
            response = response.header("content-type", "text/event-stream");
            events(gate, number("n").unwrap_or(1))
        } else if path.starts_with("/cut") {
            cut(gate, text)
        } else if let Some(n_bytes) = number("chunked") {
            pieces([Ok(Bytes::from(vec![b'x'; n_bytes]))])
        } else {
            let text = number("bytes").map_or(text, |n| Bytes::from(vec![b'x'; n]));
            Full::new(text).map_err(|never| match never {}).boxed_unsync()
        };
        Ok(response.body(body).unwrap())
    }

    fn note(&self, ran: Ran) -> usize {
        let mut all = self.ran.lock().unwrap();
        all.push(ran);
        all.len()
    }
}

/// One event each time that the gate is opened.
fn events(gate: watch::Receiver<u64>, n: usize) -> Body {
    let events = futures_util::stream::unfold((gate, 0), move |(mut gate, at)| async move {
        if at == n {
            return None;
        }
        gate.changed().await.ok()?;
        Some((Ok(Frame::data(Bytes::from(format!("data: {at}\n\n")))), (gate, at + 1)))
    });
    StreamBody::new(events).boxed_unsync()
}

/// A body that breaks off when the gate is opened.
fn cut(mut gate: watch::Receiver<u64>, text: Bytes) -> Body {
    let begun = futures_util::stream::iter([Ok(Frame::data(text))]);
    let broken = futures_util::stream::once(async move {
        gate.changed().await.ok();
        Err(io::Error::other("cut"))
    });
    StreamBody::new(begun.chain(broken)).boxed_unsync()
}

/// A body of unknown length.
fn pieces<const N: usize>(pieces: [io::Result<Bytes>; N]) -> Body {
    let frames = futures_util::stream::iter(pieces.map(|piece| piece.map(Frame::data)));
    StreamBody::new(frames).boxed_unsync()
}

fn query(path: &str) -> HashMap<String, String> {
    let (_, query) = path.split_once('?').unwrap_or((path, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
