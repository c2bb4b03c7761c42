//! Connects to the xDS server: TCP, perhaps TLS, HTTP/2. Certificates are read each time, because
//! they are renewed.

use super::tls;
use crate::settings::servers::Address;
use crate::settings::{TlsFault, XdsSettings, XdsTls};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tonic::body::Body;
use tonic::codegen::Service;

/// How long everything up to HTTP/2 may take.
const CONNECT: Duration = Duration::from_secs(10);

/// Silence after which the kernel asks whether the server is there.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// How long the kernel may wait for what it sent to be acknowledged.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(20);

/// How often the server itself is asked whether it is there. One that is written in Go hangs up on
/// whoever asks more often than every five minutes.
const PING: Duration = Duration::from_secs(600);

/// How long it may take to answer that.
const PONG: Duration = Duration::from_secs(20);

/// Knows how to reach the server.
#[derive(Debug)]
pub(super) struct Connector {
    server: Address,
    tls: Option<XdsTls>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum NotConnected {
    /// A setting cannot be right.
    #[error(transparent)]
    Misconfigured(#[from] TlsFault),
    /// The host is unknown, or nobody listens there.
    #[error("it cannot be reached: {0}")]
    Refused(#[source] io::Error),
    /// No TLS with each other.
    #[error("TLS: {0}")]
    Tls(#[source] io::Error),
    /// It does not speak HTTP/2.
    #[error("HTTP/2: {0}")]
    Http(#[from] hyper::Error),
    /// It takes too long.
    #[error("it does not answer within {CONNECT:?}")]
    Silent,
}

/// An HTTP/2 connection.
pub(super) struct Connection {
    calls: Calls,
    driver: http2::Connection<TokioIo<Box<dyn Wire>>, Body, TokioExecutor>,
    origin: Uri,
}

/// Makes calls over it.
#[derive(Clone, Debug)]
pub(super) struct Calls(SendRequest<Body>);

pub(super) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

impl Connector {
    pub(super) fn new(settings: &XdsSettings) -> Result<Self, TlsFault> {
        let connector = Self { server: settings.server.clone(), tls: settings.tls.clone() };
        connector.tls.as_ref().map(|tls| connector.tls(tls)).transpose()?;
        Ok(connector)
    }

    pub(super) async fn connect(&self) -> Result<Connection, NotConnected> {
        timeout(CONNECT, self.open()).await.unwrap_or(Err(NotConnected::Silent))
    }

    async fn open(&self) -> Result<Connection, NotConnected> {
        let tls = self.tls.as_ref().map(|tls| self.tls(tls)).transpose()?;
        let stream = self.dial().await.map_err(NotConnected::Refused)?;
        let wire: Box<dyn Wire> = match tls {
            None => Box::new(stream),
            Some((tls, name)) => {
                Box::new(tls.connect(name, stream).await.map_err(NotConnected::Tls)?)
            }
        };
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).keep_alive_interval(PING).keep_alive_timeout(PONG);
        let (sender, driver) = builder.handshake(TokioIo::new(wire)).await?;
        Ok(Connection { calls: Calls(sender), driver, origin: self.origin() })
    }

    fn tls(&self, tls: &XdsTls) -> Result<(TlsConnector, ServerName<'static>), TlsFault> {
        let config = Arc::new(tls::config(tls)?);
        Ok((TlsConnector::from(config), tls::server_name(tls, self.server.host())?))
    }

    async fn dial(&self) -> io::Result<TcpStream> {
        let Address::Tcp { host, port } = &self.server else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let addresses: Vec<_> = lookup_host((&**host, *port)).await?.collect();
        let stream = TcpStream::connect(&*addresses).await?;
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
        socket.set_tcp_keepalive(&keepalive)?;
        Ok(stream)
    }

    /// What calls are addressed to.
    fn origin(&self) -> Uri {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.server).parse().unwrap_or_default()
    }
}

impl Connection {
    /// Drives it until what uses it comes to its end.
    pub(super) async fn drive<T>(self, user: impl AsyncFnOnce(Calls, Uri) -> T) -> T {
        let Self { calls, driver, origin } = self;
        let mut used = pin!(user(calls, origin));
        tokio::select! {
            end = &mut used => end,
            // Whatever ended it, its user is about to hear of it.
            _ = driver => used.await,
        }
    }
}

impl Service<Request<Body>> for Calls {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
