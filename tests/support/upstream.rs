//! The service behind Envoy: answers 200 to everything, counts, and sends the headers it is told.

use ::http::{HeaderName, HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A running service.
pub struct Upstream {
    /// Where it serves.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    n_requests: AtomicU64,
    headers: Mutex<Vec<(HeaderName, HeaderValue)>>,
}

impl Upstream {
    /// Starts it on a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        let task = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Self { address, shared, task }
    }

    /// How many requests reached it.
    pub fn n_requests(&self) -> u64 {
        self.shared.n_requests.load(Ordering::SeqCst)
    }

    /// Sends these headers with each answer from now on.
    pub fn answer_with(&self, headers: &[(&'static str, &str)]) {
        let parse = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        *self.shared.headers.lock().unwrap() = headers.iter().map(parse).collect();
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        let answer = service_fn(move |_: Request<Incoming>| {
            let response = shared.answer();
            async move { Ok::<_, Infallible>(response) }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
    }
}

impl Shared {
    fn answer(&self) -> Response<String> {
        self.n_requests.fetch_add(1, Ordering::SeqCst);
        let mut response = Response::new("served\n".to_owned());
        response.headers_mut().extend(self.headers.lock().unwrap().iter().cloned());
        response
    }
}
