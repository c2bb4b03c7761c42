//! A small HTTP client: one connection a request.

use ::http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// An answer as received.
#[derive(Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    headers: HeaderMap,
    /// Whole body.
    pub body: String,
}

impl Answer {
    /// A header; empty if it is not there, joined by commas if several are.
    pub fn header(&self, name: &str) -> String {
        let values = self.headers.get_all(name).iter().map(|value| value.to_str().unwrap());
        values.collect::<Vec<_>>().join(",")
    }

    /// The bytes of a header; none if it is not there.
    pub fn bytes(&self, name: &str) -> &[u8] {
        self.headers.get(name).map_or(&[], |value| value.as_bytes())
    }

    /// A header that is a number.
    pub fn number(&self, name: &str) -> u64 {
        let value = self.header(name);
        value.parse().unwrap_or_else(|_| panic!("{name} is `{value}`: {self:?}"))
    }
}

/// The answer to a GET.
pub async fn get(server: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Answer {
    ask(server, "GET", path, headers, "").await
}

/// The answer to a POST.
pub async fn post(server: SocketAddr, path: &str, body: &str) -> Answer {
    ask(server, "POST", path, &[], body).await
}

/// The answer to a GET, if one came.
pub async fn try_get(server: SocketAddr, path: &str) -> Result<Answer, Box<dyn Error>> {
    send(server, Request::get(path).header("host", "test").body(Full::default())?).await
}

/// The answer to any request.
pub async fn ask(
    server: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    ask_over(TcpStream::connect(server).await.unwrap(), method, path, headers, body).await
}

/// The same over a connection that was made before.
pub async fn ask_over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path).header("host", "test");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::from(body.to_owned())).unwrap();
    send_over(stream, request).await.unwrap()
}

async fn send(server: SocketAddr, request: Request<Full<Bytes>>) -> Result<Answer, Box<dyn Error>> {
    send_over(TcpStream::connect(server).await?, request).await
}

async fn send_over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Answer, Box<dyn Error>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    connection.abort();
    Ok(Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}
