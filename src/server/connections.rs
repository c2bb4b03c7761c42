//! Accepts connections and sees each to its end: at its age, at the stop, or when it is cut off.

use super::bind::Listener;
use super::caller::Introduced;
use super::greeting::Greeting;
use super::slow_reader::SlowReader;
use super::tls::Tls;
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

/// How long a peer may take nothing of what it is sent.
const UNREAD: Duration = Duration::from_secs(30);

/// Envoy sends all of its calls over one connection per worker.
const MAX_CONCURRENT_STREAMS: u32 = 4096;

/// Shared by all calls of a connection.
const CONNECTION_WINDOW: u32 = 8 << 20;

/// Most bytes of a call's headers. With tracing on, Envoy passes on a client's `tracestate`: what it
/// takes of a client, 60 KiB, must not fail the call, or it switches limits off.
const MAX_HEADERS: u32 = 64 << 10;

/// Calls that their caller gave up before they were looked at: an Envoy whose time-outs are short
/// must not lose its connection when we are slow for a moment.
const MAX_PENDING_RESETS: usize = 1024;

/// How the connections of a listener are served.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    builder: Arc<Builder<TokioExecutor>>,
    tls: Option<Tls>,
    /// Whether the service is told who calls over TLS.
    introduces: bool,
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

/// When a connection is asked to go, and how long after that it is cut off; none: its calls end it.
#[derive(Clone, Copy, Debug)]
pub(super) struct MaxAge {
    pub(super) age: Duration,
    pub(super) grace: Option<Duration>,
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
        Self {
            builder: Arc::new(builder),
            tls: None,
            introduces: false,
            max_age: None,
            n_greeting: 0,
            life,
        }
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
            .max_header_list_size(MAX_HEADERS)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
            .auto_date_header(false);
        Self {
            builder: Arc::new(builder),
            tls: None,
            introduces: false,
            max_age,
            n_greeting: PREFACE,
            life,
        }
    }

    /// The same over TLS, if there is any.
    #[must_use]
    pub(super) fn over(self, tls: Option<Tls>) -> Self {
        Self { tls, ..self }
    }

    /// The same, and each request says whose certificate was shown, if `introduces`.
    #[must_use]
    pub(super) fn introducing(self, introduces: bool) -> Self {
        Self { introduces, ..self }
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
                        connections.greet(stream, service).await;
                    }
                });
            }
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                self.life.tasks.spawn(async move {
                    if connections.has_first_byte(stream.readable()).await {
                        connections.greet(stream, service).await;
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

    /// Shakes hands if TLS is spoken, then serves.
    async fn greet(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        service: impl Serves,
    ) {
        let Some(tls) = &self.tls else { return self.run(stream, service).await };
        match self.life.stop.run_until_cancelled(tls.accept(stream)).await {
            Some(Ok(stream)) if self.introduces => {
                let service = Introduced::by(&stream, service);
                self.run(stream, service).await;
            }
            Some(Ok(stream)) => self.run(stream, service).await,
            Some(Err(error)) => tls.refused(&error),
            None => {}
        }
    }

    async fn run(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        service: impl Serves,
    ) {
        let service = TowerToHyperService::new(service);
        let stream = SlowReader::of(stream, UNREAD);
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
                Some(MaxAge { grace: Some(grace), .. }) => sleep(grace).await,
                Some(MaxAge { grace: None, .. }) | None => std::future::pending().await,
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::task::JoinHandle;
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
        assert!(timeout(2 * PREFACE_WITHIN, serve(HELLO, &life)).await.is_err());
    }

    /// The bytes with which a client begins: preface and empty settings.
    const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    const PING_FRAME: u8 = 6;
    const GOAWAY_FRAME: u8 = 7;

    /// The type and flags of the next frame.
    async fn next_frame(peer: &mut DuplexStream) -> io::Result<(u8, u8)> {
        let mut head = [0; 9];
        peer.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length.try_into().unwrap()];
        peer.read_exact(&mut payload).await?;
        Ok((head[3], head[4]))
    }

    /// A peer that has begun, and the task that serves it.
    async fn begun(max_age: Option<MaxAge>, router: Router) -> (DuplexStream, JoinHandle<()>) {
        let (mut peer, ours) = duplex(1 << 16);
        peer.write_all(HELLO).await.unwrap();
        let connections = Connections::grpc(max_age, Life::default());
        (peer, tokio::spawn(async move { connections.run(ours, router).await }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_may_ping_as_often_as_it_likes() {
        let (mut peer, _served) = begun(None, Router::new()).await;
        for n in 0..1000_u64 {
            peer.write_all(b"\0\0\x08\x06\0\0\0\0\0").await.unwrap();
            peer.write_all(&n.to_be_bytes()).await.unwrap();
            loop {
                let (kind, flags) = next_frame(&mut peer).await.unwrap();
                assert_ne!(kind, GOAWAY_FRAME);
                if (kind, flags) == (PING_FRAME, 1) {
                    break;
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_asked_to_go_at_its_age_and_cut_off_after_the_grace() {
        let grace = Duration::from_secs(5);
        let max_age = MaxAge { age: Duration::from_secs(30), grace: Some(grace) };
        let forever = Router::new().fallback(std::future::pending::<()>);
        let started = Instant::now();
        let (mut peer, served) = begun(Some(max_age), forever).await;
        // A call that never ends: POST http /.
        peer.write_all(b"\0\0\x03\x01\x05\0\0\0\x01\x83\x86\x84").await.unwrap();
        while next_frame(&mut peer).await.unwrap().0 != GOAWAY_FRAME {}
        let asked = started.elapsed();
        assert!((27..=33).contains(&asked.as_secs()), "{asked:?}");
        served.await.unwrap();
        assert_eq!(started.elapsed().as_secs(), (asked + grace).as_secs());
    }

    #[test]
    fn jitter_is_at_most_ten_per_cent() {
        let age = Duration::from_secs(1000);
        let ages: Vec<Duration> = (0..1000).map(|_| with_jitter(age)).collect();
        assert!(ages.iter().all(|a| (900..=1100).contains(&a.as_secs())), "{ages:?}");
        assert!(ages.iter().any(|a| *a != ages[0]));
    }
}
