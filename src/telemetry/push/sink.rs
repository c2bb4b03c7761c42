//! The way to a statsd server: made anew after every failure.

use crate::settings::Transport;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UdpSocket, lookup_host};

/// Sends packets.
#[derive(Debug)]
pub(super) struct Sink {
    transport: Transport,
    host: Box<str>,
    port: u16,
    way: Option<Way>,
}

#[derive(Debug)]
enum Way {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

/// Fits into a datagram everywhere.
const MAX_DATAGRAM: usize = 1432;

/// What is written at once to a connection.
const MAX_WRITE: usize = 32 << 10;

impl Sink {
    pub(super) fn new(transport: Transport, host: &str, port: u16) -> Self {
        Self { transport, host: host.into(), port, way: None }
    }

    /// Most bytes to send at once.
    pub(super) fn max_packet(&self) -> usize {
        match self.transport {
            Transport::Tcp => MAX_WRITE,
            Transport::Udp => MAX_DATAGRAM,
        }
    }

    /// Sends a packet. If it is not awaited to its end, the next one takes a new way.
    pub(super) async fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        let mut way = match self.way.take() {
            Some(way) => way,
            None => self.open().await?,
        };
        match &mut way {
            Way::Tcp(stream) => stream.write_all(packet).await?,
            Way::Udp(socket) => drop(socket.send(packet).await?),
        }
        self.way = Some(way);
        Ok(())
    }

    async fn open(&self) -> io::Result<Way> {
        let addresses: Vec<_> = lookup_host((&*self.host, self.port)).await?.collect();
        Ok(match self.transport {
            Transport::Tcp => Way::Tcp(TcpStream::connect(&*addresses).await?),
            Transport::Udp => Way::Udp(datagrams(&addresses).await?),
        })
    }
}

async fn datagrams(addresses: &[SocketAddr]) -> io::Result<UdpSocket> {
    let server = addresses.first().ok_or(io::ErrorKind::NotFound)?;
    let ours: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(ours).await?;
    socket.connect(server).await?;
    Ok(socket)
}

impl fmt::Display for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}
