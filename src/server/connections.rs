//! Accepts connections and sees each to its end: at its age, at the stop, or when it is cut off.

use super::bind::Listener;
use super::greeting::Greeting;
use axum::body::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::codegen::{Service, StdError};

/// How long a connection may take to send its first byte, or an HTTP/1 request its headers.
const FIRST_BYTES: Duration = Duration::from_secs(30);

/// Bytes with which an HTTP/2 connection begins.
const PREFACE: usize = 24;

/// How long they may take once the first is there.
const PREFACE_WITHIN: Duration = Duration::from_secs(10);

/// How often a silent peer is asked whether it is still there.
const PING: Duration = Duration::from_secs(60);

/// How long it may take to answer that.
const PONG: Duration = Duration::from_secs(20);

/// Envoy sends all of its calls over one connection per worker.
const MAX_CONCURRENT_STREAMS: u32 = 4096;

/// Shared by all calls of a connection.
const CONNECTION_WINDOW: u32 = 8 << 20;

/// Calls that their caller gave up before they were looked at: an Envoy whose time-outs are short
/// must not lose its connection when we are slow for a moment.
const MAX_PENDING_RESETS: usize = 1024;

/// How the connections of a listener are served.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    builder: Arc<Builder<TokioExecutor>>,
    max_age: Option<MaxAge>,
    /// How many bytes a peer must send before it is served.
    n_greeting: usize,
    life: Life,
}

/// What answers the requests of a connection.
pub(super) trait Serves:
    Service<
        Request<Incoming>,
        Response = Response<Self::Body>,
        Error = Infallible,
        Future: Send + 'static,
    > + Clone
    + Send
    + Sync
    + 'static
{
    /// Of its answers.
    type Body: Body<Data = Bytes, Error: Into<StdError>> + Send + 'static;
}

impl<S, B> Serves for S
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError>,
{
    type Body = B;
}

/// When a connection is asked to go, and how long after that it is cut off.
#[derive(Clone, Copy, Debug)]
pub(super) struct MaxAge {
    pub(super) age: Duration,
    pub(super) grace: Duration,
}

/// What ends everything that lives long.
#[derive(Clone, Debug, Default)]
pub(super) struct Life {
    /// All that runs, to be awaited.
    pub(super) tasks: TaskTracker,
    /// Accept nothing new, finish what is under way.
    pub(super) stop: CancellationToken,
    /// Let go of what is still under way.
    pub(super) cut: CancellationToken,
}

impl Connections {
    /// HTTP/1.
    pub(super) fn http(life: Life) -> Self {
        let mut builder = Builder::new(TokioExecutor::new()).http1_only();
        builder.http1().timer(TokioTimer::new()).header_read_timeout(FIRST_BYTES);
        Self { builder: Arc::new(builder), max_age: None, n_greeting: 0, life }
    }

    /// HTTP/2, for few connections with many calls each.
    pub(super) fn grpc(max_age: Option<MaxAge>, life: Life) -> Self {
        let mut builder = Builder::new(TokioExecutor::new()).http2_only();
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(PING)
            .keep_alive_timeout(PONG)
            .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
            .auto_date_header(false);
        Self { builder: Arc::new(builder), max_age, n_greeting: PREFACE, life }
    }

    /// Serves a listener until the stop.
    pub(super) fn serve(self, listener: Listener, service: impl Serves) {
        let tasks = self.life.tasks.clone();
        tasks.spawn(async move {
            let stop = self.life.stop.clone();
            stop.run_until_cancelled(self.accept_all(&listener, &service)).await;
        });
    }

    async fn accept_all(&self, listener: &Listener, service: &impl Serves) {
        loop {
            if let Err(error) = self.accept(listener, service).await {
                rest_after(&error).await;
            }
        }
    }

    async fn accept(&self, listener: &Listener, service: &impl Serves) -> io::Result<()> {
        let (connections, service) = (self.clone(), service.clone());
        match listener {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                self.life.tasks.spawn(async move {
                    if connections.has_first_byte(stream.readable()).await {
                        connections.run(stream, service).await;
                    }
                });
            }
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                self.life.tasks.spawn(async move {
                    if connections.has_first_byte(stream.readable()).await {
                        connections.run(stream, service).await;
                    }
                });
            }
        }
        Ok(())
    }

    /// Whoever connects and says nothing is not kept.
    async fn has_first_byte(&self, readable: impl Future<Output = io::Result<()>>) -> bool {
        let first = self.life.stop.run_until_cancelled(timeout(FIRST_BYTES, readable)).await;
        matches!(first, Some(Ok(Ok(()))))
    }

    async fn run(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        service: impl Serves,
    ) {
        let service = TowerToHyperService::new(service);
        let (stream, greeted) = Greeting::of(stream, self.n_greeting);
        let mut connection = pin!(self.builder.serve_connection(TokioIo::new(stream), service));
        let ended = tokio::select! {
            biased;
            ended = connection.as_mut() => ended,
            () = self.is_mute(greeted) => Ok(()),
            () = self.is_to_go() => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection.as_mut() => ended,
                    () = self.is_cut_off() => Ok(()),
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended");
        }
    }

    /// Whoever does not begin in time is not kept, nor whoever has not begun at the stop.
    async fn is_mute(&self, greeted: oneshot::Receiver<()>) {
        tokio::select! {
            biased;
            Ok(()) = greeted => std::future::pending().await,
            () = self.life.stop.cancelled() => {}
            () = sleep(PREFACE_WITHIN) => {}
        }
    }

    async fn is_to_go(&self) {
        let old = async {
            match self.max_age {
                Some(MaxAge { age, .. }) => sleep(with_jitter(age)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.life.stop.cancelled() => {}
            () = old => {}
        }
    }

    async fn is_cut_off(&self) {
        let overdue = async {
            match self.max_age {
                Some(MaxAge { grace, .. }) => sleep(grace).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.life.cut.cancelled() => {}
            () = overdue => {}
        }
    }
}

/// A peer that is gone again is nothing; with no file descriptor left, waiting may help.
async fn rest_after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, NotConnected};
    let gone = [ConnectionAborted, ConnectionReset, Interrupted, NotConnected];
    if !gone.contains(&error.kind()) && error.kind() != io::ErrorKind::InvalidInput {
        tracing::warn!(%error, "a connection could not be accepted");
        sleep(Duration::from_secs(1)).await;
    }
}

/// Ten per cent more or less, so that connections made together do not all end together.
fn with_jitter(age: Duration) -> Duration {
    let random = RandomState::new().hash_one(()) % 2001;
    age.saturating_mul(u32::try_from(9_000 + random).unwrap_or(10_000)) / 10_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use tokio::io::{AsyncWriteExt, duplex};
    use tokio::time::Instant;

    /// Serves one peer that has sent `bytes` and keeps its end open.
    async fn serve(bytes: &[u8], life: &Life) {
        let (mut peer, ours) = duplex(1024);
        peer.write_all(bytes).await.unwrap();
        Connections::grpc(None, life.clone()).run(ours, Router::new()).await;
        drop(peer);
    }

    #[tokio::test(start_paused = true)]
    async fn who_begins_and_falls_silent_is_not_kept() {
        let started = Instant::now();
        serve(b"P", &Life::default()).await;
        assert_eq!(started.elapsed(), PREFACE_WITHIN);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_not_begun_does_not_delay_the_stop() {
        let (started, life) = (Instant::now(), Life::default());
        life.stop.cancel();
        serve(b"PRI * HTTP/2.0", &life).await;
        assert_eq!(started.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_begun_is_kept() {
        let life = Life::default();
        let bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        assert!(timeout(2 * PREFACE_WITHIN, serve(bytes, &life)).await.is_err());
    }

    #[test]
    fn jitter_is_at_most_ten_per_cent() {
        let age = Duration::from_secs(1000);
        let ages: Vec<Duration> = (0..1000).map(|_| with_jitter(age)).collect();
        assert!(ages.iter().all(|a| (900..=1100).contains(&a.as_secs())), "{ages:?}");
        assert!(ages.iter().any(|a| *a != ages[0]));
    }
}
