//! Opens connections, and finds out which setting is wrong when that cannot succeed.

use super::config::{Address, Credentials};
use super::fault::ConnectError;
use super::greeting::{self, Expects};
use super::link::Link;
use super::speaks;
use crate::store::StoreError;
use arc_swap::ArcSwapOption;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Opens connections to the servers of one Redis.
#[derive(Debug)]
pub(super) struct Connector {
    /// What the variables begin with.
    pub(super) variables: &'static str,
    /// The variable that says who we are.
    pub(super) auth_variable: String,
    pub(super) auth: Arc<ArcSwapOption<Credentials>>,
    pub(super) database: i64,
    pub(super) tls: Option<Arc<ClientConfig>>,
    /// How long a first connection may take to be accepted.
    pub(super) dial_timeout: Duration,
    /// Whether any was ever opened.
    pub(super) opened_once: AtomicBool,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
}

/// How long a connection after the first may take to be accepted, so that a server that is back is
/// noticed within a second.
const REDIAL: Duration = Duration::from_secs(1);

/// How long an accepted connection may take to greet. A paused server is waited for rather than
/// connected to again and again.
const GREETING: Duration = Duration::from_secs(5);

/// How long the kernel may wait for what it sent to be acknowledged. A server that is paused does
/// acknowledge; one that is gone does not.
const UNACKNOWLEDGED: Duration = Duration::from_secs(3);

/// Silence after which the kernel asks whether the server is there.
const KEEPALIVE: Duration = Duration::from_secs(10);

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Connector {
    /// Opens a connection to a server that is what we expect.
    pub(super) async fn open(
        &self,
        address: &Address,
        expects: Expects,
    ) -> Result<Arc<Link>, ConnectError> {
        let first = !self.opened_once.load(Ordering::Relaxed);
        let limit = if first { self.dial_timeout } else { self.dial_timeout.min(REDIAL) };
        let stream = match timeout(limit, self.dial(address)).await {
            Ok(stream) => stream?,
            Err(_) => return Err(silent(address, "does not accept connections")),
        };
        match timeout(GREETING, self.greet(address, stream, expects)).await {
            Ok(Ok(link)) => {
                self.opened_once.store(true, Ordering::Relaxed);
                Ok(link)
            }
            Ok(Err(error)) if error.is_setting || !first => Err(error),
            Ok(Err(error)) => Err(self.explained(address, error).await),
            Err(_) if first => {
                let error = silent(address, "does not answer");
                Err(self.explained(address, error).await)
            }
            Err(_) => Err(silent(address, "does not answer")),
        }
    }

    /// The same for sentinels.
    pub(super) fn to_sentinels(&self, auth: Option<Credentials>) -> Self {
        Self {
            variables: self.variables,
            auth_variable: self.setting("SENTINEL_AUTH"),
            auth: Arc::new(ArcSwapOption::from_pointee(auth)),
            database: 0,
            tls: self.tls.clone(),
            dial_timeout: self.dial_timeout,
            opened_once: AtomicBool::new(false),
            tasks: self.tasks.clone(),
            stop: self.stop.clone(),
        }
    }

    /// The name of a setting.
    pub(super) fn setting(&self, name: &str) -> String {
        format!("{}_{name}", self.variables)
    }

    /// A raw connection.
    pub(super) async fn dial(&self, address: &Address) -> Result<Box<dyn Stream>, ConnectError> {
        let failed =
            |error: io::Error| ConnectError::outage(address, StoreError::Unreachable, error.kind());
        match address {
            Address::Unix(path) => Ok(Box::new(UnixStream::connect(path).await.map_err(failed)?)),
            Address::Tcp { host, port } => {
                let found = tokio::net::lookup_host((&**host, *port)).await;
                let addresses: Vec<_> = found.map_err(|_| self.unknown_host(host))?.collect();
                let stream = TcpStream::connect(&*addresses).await.map_err(failed)?;
                tune(&stream).map_err(failed)?;
                Ok(Box::new(stream))
            }
        }
    }

    fn unknown_host(&self, host: &str) -> ConnectError {
        let what = format_args!("host `{}` is unknown", host.escape_debug());
        ConnectError::setting(self.setting("URL"), StoreError::Unreachable, what)
    }

    async fn greet(
        &self,
        address: &Address,
        stream: Box<dyn Stream>,
        expects: Expects,
    ) -> Result<Arc<Link>, ConnectError> {
        let stream = match &self.tls {
            None => stream,
            Some(tls) => self.encrypt(tls, address, stream).await?,
        };
        let link = self.link(stream).await.map_err(|error| self.broken(address, &error))?;
        let credentials = self.auth.load_full();
        greeting::exchange(self, &link, address, credentials.as_deref(), expects).await?;
        Ok(link)
    }

    /// TLS over a raw connection.
    pub(super) async fn encrypt(
        &self,
        tls: &Arc<ClientConfig>,
        address: &Address,
        stream: Box<dyn Stream>,
    ) -> Result<Box<dyn Stream>, ConnectError> {
        let host = address.host();
        let name = ServerName::try_from(host.to_owned()).map_err(|_| self.unknown_host(host))?;
        match TlsConnector::from(Arc::clone(tls)).connect(name, stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(self.tls_error(address, &error)),
        }
    }

    /// A connection over the stream, driven by a task that ends with it.
    async fn link(&self, stream: Box<dyn Stream>) -> redis::RedisResult<Arc<Link>> {
        // What a greeting consists of is sent afterwards, to see each answer.
        let info = RedisConnectionInfo::default().set_skip_set_lib_name();
        // Deadlines are the callers'.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let (connection, driver) =
            MultiplexedConnection::new_with_config(&info, stream, config).await?;
        let closed = self.stop.child_token();
        let token = closed.clone();
        self.tasks.spawn(async move {
            token.run_until_cancelled(driver).await;
            token.cancel();
        });
        Ok(Arc::new(Link::new(connection, closed)))
    }

    /// What an error of a connection that was accepted means.
    pub(super) fn broken(&self, address: &Address, error: &redis::RedisError) -> ConnectError {
        let source = std::error::Error::source(error);
        match source.and_then(|source| source.downcast_ref::<io::Error>()) {
            Some(error) => self.tls_error(address, error),
            None => closes(address),
        }
    }

    /// What an error of an encrypted connection means.
    fn tls_error(&self, address: &Address, error: &io::Error) -> ConnectError {
        use rustls::{CertificateError as Certificate, Error};
        let found = error.get_ref().and_then(|error| error.downcast_ref::<Error>());
        let (setting, what) = match found {
            Some(Error::InvalidCertificate(
                Certificate::NotValidForName | Certificate::NotValidForNameContext { .. },
            )) => ("TLS_SKIP_HOSTNAME_VERIFICATION", "whose certificate is for another host"),
            Some(Error::InvalidCertificate(_)) => {
                ("TLS_CACERT", "whose certificate no trusted authority vouches for")
            }
            Some(Error::AlertReceived(_)) => {
                ("TLS_CLIENT_CERT", "which does not accept our certificate, or wants one")
            }
            Some(Error::InvalidMessage(_)) => ("TLS", "which does not speak TLS"),
            Some(_) | None => return closes(address),
        };
        // All TLS settings but the switch itself are shared.
        let variables = if setting == "TLS" { self.variables } else { "REDIS" };
        let what = format_args!("does not fit {address}, {what}");
        ConnectError::setting(format_args!("{variables}_{setting}"), StoreError::Unreachable, what)
    }

    /// The same error, or the setting that is its cause: a server may be silent or hang up because
    /// it is spoken to in the wrong protocol, or without a certificate.
    async fn explained(&self, address: &Address, error: ConnectError) -> ConnectError {
        let what = match &self.tls {
            None if speaks::tls(self, address).await => "speaks TLS",
            Some(_) if speaks::plain(self, address).await => "does not speak TLS",
            None => return error,
            Some(tls) => {
                let refusal = speaks::refusal(self, tls, address).await;
                let refusal = refusal.map(|refusal| self.tls_error(address, &refusal));
                return refusal.filter(|refusal| refusal.is_setting).unwrap_or(error);
            }
        };
        let what = format_args!("{address} {what}");
        ConnectError::setting(self.setting("TLS"), StoreError::Unreachable, what)
    }
}

fn silent(address: &Address, what: &str) -> ConnectError {
    ConnectError::outage(address, StoreError::Timeout, what)
}

fn closes(address: &Address) -> ConnectError {
    ConnectError::outage(address, StoreError::Unreachable, "closes the connection")
}

fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE))
}
