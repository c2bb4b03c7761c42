//! Sockets that listen: all of them are bound before anything else starts.

use crate::settings::{Address, Endpoint, Listen, name};
use socket2::{Domain, Socket, Type};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, UnixListener};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// Every listener of the process.
#[derive(Debug)]
pub(super) struct Listeners {
    pub(super) http: Listener,
    pub(super) grpc: Listener,
    pub(super) admin: Listener,
    pub(super) prometheus: Option<Listener>,
    pub(super) filter: Option<Listener>,
}

/// A socket that listens.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// A socket's file, removed with it.
#[derive(Debug)]
pub(super) struct SocketFile(PathBuf);

/// Why a listener could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("{setting} {address}: {}", reason(cause, in_use))]
pub struct BindError {
    setting: String,
    address: String,
    cause: io::Error,
    /// What it means that it is in use.
    in_use: &'static str,
}

const PORT_IN_USE: &str = "address in use: something else listens there";
const FILE_IN_USE: &str = "in use: something listens there, or another file has that name";

impl BindError {
    /// A name that means nothing, or an address that is not ours, is the host's fault.
    fn of(address: &Address, cause: io::Error) -> Self {
        use io::ErrorKind::{AddrInUse, PermissionDenied};
        let Address { host_variable, variable, host, port } = address;
        let is_of_port = matches!(cause.kind(), AddrInUse | PermissionDenied);
        let (setting, address) = match host {
            Some(host) if is_of_port => (variable, format!("{port} on {host}")),
            Some(host) => (host_variable, host.clone()),
            None => (variable, port.to_string()),
        };
        Self { setting: name(setting), address, cause, in_use: PORT_IN_USE }
    }
}

impl Listeners {
    /// Binds what `listen` names, and the idempotency filter's.
    pub(super) fn bind(listen: &Listen, filter: Option<&Endpoint>) -> Result<Self, BindError> {
        Ok(Self {
            http: tcp(&listen.http)?,
            grpc: match &listen.grpc_uds {
                Some(path) => unix("GRPC_UDS", path)?,
                None => tcp(&listen.grpc)?,
            },
            admin: tcp(&listen.admin)?,
            prometheus: listen.prometheus.as_ref().map(tcp).transpose()?,
            filter: filter.map(endpoint).transpose()?,
        })
    }
}

impl fmt::Display for Listener {
    /// Its address, with the port that the system chose.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(listener) => match listener.local_addr() {
                Ok(address) => write!(f, "{address}"),
                Err(error) => write!(f, "{error}"),
            },
            Self::Unix(_, file) => write!(f, "{}", file.0.display()),
        }
    }
}

impl Listener {
    /// Its TCP address as somebody on this machine would write it.
    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        let Self::Tcp(listener) = self else { return None };
        let mut address = listener.local_addr().ok()?;
        if address.ip().is_unspecified() {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        Some(address)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Whoever removed it before has done the work.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn endpoint(endpoint: &Endpoint) -> Result<Listener, BindError> {
    match endpoint {
        Endpoint::Tcp(address) => tcp(address),
        Endpoint::Unix(path) => unix("IDEMPOTENCY_ADDR", path),
    }
}

fn tcp(address: &Address) -> Result<Listener, BindError> {
    bind_tcp(address).map(Listener::Tcp).map_err(|cause| BindError::of(address, cause))
}

fn bind_tcp(address: &Address) -> io::Result<TcpListener> {
    let port = address.port;
    let Some(host) = &address.host else {
        return match bind_one((Ipv6Addr::UNSPECIFIED, port).into()) {
            Err(error) if has_no_ipv6(&error) => bind_one((Ipv4Addr::UNSPECIFIED, port).into()),
            bound => bound,
        };
    };
    // A name may have several addresses: the old one first, as Go does.
    let mut addresses: Vec<SocketAddr> = (host.as_str(), port).to_socket_addrs()?.collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    let first = addresses.first().ok_or(io::ErrorKind::AddrNotAvailable)?;
    bind_one(*first)
}

fn bind_one(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn has_no_ipv6(error: &io::Error) -> bool {
    const EAFNOSUPPORT: i32 = 97;
    error.raw_os_error() == Some(EAFNOSUPPORT)
        || matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported)
}

fn unix(variable: &str, path: &Path) -> Result<Listener, BindError> {
    let (setting, address, in_use) = (name(variable), path.display().to_string(), FILE_IN_USE);
    bind_unix(path).map_err(|cause| BindError { setting, address, cause, in_use })
}

/// A socket that a process left behind when it ended is replaced; any other file stays.
fn bind_unix(path: &Path) -> io::Result<Listener> {
    let is_socket = || path.symlink_metadata().is_ok_and(|file| file.file_type().is_socket());
    let left_behind = |error: &io::Error| {
        error.kind() == io::ErrorKind::AddrInUse
            && is_socket()
            && std::os::unix::net::UnixStream::connect(path)
                .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    let listener = match UnixListener::bind(path) {
        Err(error) if left_behind(&error) => {
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    };
    Ok(Listener::Unix(listener?, SocketFile(path.to_path_buf())))
}

fn reason(error: &io::Error, in_use: &str) -> String {
    if error.kind() == io::ErrorKind::AddrInUse {
        in_use.to_owned()
    } else {
        format!("cannot listen: {error}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: Option<&str>, port: u16) -> Address {
        let host = host.map(ToOwned::to_owned);
        Address { host_variable: "GRPC_HOST", variable: "GRPC_PORT", host, port }
    }

    fn bound(host: Option<&str>) -> SocketAddr {
        let Listener::Tcp(listener) = tcp(&address(host, 0)).unwrap() else { panic!("not TCP") };
        listener.local_addr().unwrap()
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        std::fs::write(&path, "precious").unwrap();
        assert_eq!(bind_unix(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }

    #[tokio::test]
    async fn without_a_host_every_address_is_served() {
        let listener = tcp(&address(None, 0)).unwrap();
        let port = listener.local_address().unwrap().port();
        assert!(tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok());
        if matches!(bound(None), SocketAddr::V6(_)) {
            assert!(tokio::net::TcpStream::connect(("::1", port)).await.is_ok());
        }
    }

    #[tokio::test]
    async fn a_host_is_served_alone() {
        assert_eq!(bound(Some("0.0.0.0")).ip(), Ipv4Addr::UNSPECIFIED);
        assert_eq!(bound(Some("127.0.0.1")).ip(), Ipv4Addr::LOCALHOST);
        assert_eq!(bound(Some("localhost")).ip(), Ipv4Addr::LOCALHOST);
    }

    #[tokio::test]
    async fn a_port_in_use_names_its_setting() {
        let first = tcp(&address(Some("127.0.0.1"), 0)).unwrap();
        let port = first.local_address().unwrap().port();
        let error = tcp(&address(Some("127.0.0.1"), port)).unwrap_err().to_string();
        let expected = format!("GRPC_PORT/--grpc-port {port} on 127.0.0.1: address in use");
        assert!(error.starts_with(&expected), "{error}");
    }

    #[tokio::test]
    async fn a_host_that_is_not_ours_is_blamed_and_not_the_port() {
        for host in ["a..b", "192.0.2.1"] {
            let error = tcp(&address(Some(host), 0)).unwrap_err().to_string();
            let expected = format!("GRPC_HOST/--grpc-host {host}: cannot listen");
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    #[tokio::test]
    async fn a_socket_file_that_nobody_listens_on_is_replaced_and_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("grpc.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let listener = unix("GRPC_UDS", &path).unwrap();
        for variable in ["GRPC_UDS", "IDEMPOTENCY_ADDR"] {
            let error = unix(variable, &path).unwrap_err().to_string();
            assert!(error.starts_with(variable) && error.contains(FILE_IN_USE), "{error}");
        }
        assert!(path.exists());
        drop(listener);
        assert!(!path.exists());
    }
}
