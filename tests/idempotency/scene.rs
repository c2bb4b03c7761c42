//! Client, Envoy, service and Tidegate, as in production.

use crate::service::Service;
use crate::support::envoy::{Envoy, changed};
use crate::support::eventually;
use crate::support::http::{self, Answer};
use crate::support::tidegate::Tidegate;
use ::http::Request;
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::fs;
use std::net::SocketAddr;
use tempfile::TempDir;
use tokio::net::TcpStream;

/// A policy: callers are known by `x-user`, and keys are needed below `/must`.
pub const POLICY: &str = "
idempotency:
  namespace: test
  defaults:
    scope: { principal: [{ trusted_header: x-user }] }
  routes:
    - { name: must, path: '/must*', key: { required: true } }
    - { name: all }
";

/// A rate-limit policy that refuses nobody.
pub const NO_LIMITS: &str =
    "domain: example\ndescriptors: [{ key: user, rate_limit: { unlimited: true } }]\n";

/// Everything that takes part.
pub struct Scene {
    pub envoy: Envoy,
    pub service: Service,
    pub tidegate: Tidegate,
    folder: TempDir,
}

/// How a scene differs from the usual one.
#[derive(Clone, Default)]
pub struct Setting<'a> {
    pub policy: Option<&'a str>,
    pub limits: Option<&'a str>,
    pub settings: Vec<(&'a str, &'a str)>,
    /// Changes of the bootstrap.
    pub changes: Vec<(&'a str, String)>,
}

impl Scene {
    /// The usual one, under this policy.
    pub async fn start(policy: &str) -> Self {
        Self::start_with(Setting { policy: Some(policy), ..Setting::default() }).await
    }

    pub async fn start_with(setting: Setting<'_>) -> Self {
        let scene = Self::start_unready(setting).await;
        scene.tidegate.ready().await;
        scene
    }

    /// Waits only until the ports of Tidegate are bound.
    pub async fn start_unready(setting: Setting<'_>) -> Self {
        let service = Service::start().await;
        let folder = TempDir::new().unwrap();
        let tidegate = tidegate(&folder, &setting).await;
        let filter = tidegate.address_of("idempotency").await;
        let envoy = envoy(service.address, tidegate.grpc, filter, &setting.changes).await;
        Self { envoy, service, tidegate, folder }
    }

    /// Replaces the idempotency policy, as one step.
    pub fn replace_policy(&self, policy: &str) {
        let draft = self.folder.path().join("draft.yaml");
        fs::write(&draft, policy).unwrap();
        fs::rename(draft, self.folder.path().join("idempotency.yaml")).unwrap();
    }

    /// A POST of `ann` with a key.
    pub async fn post(&self, path: &str, key: &str, body: &str) -> Answer {
        self.post_with(path, key, &[], body).await
    }

    /// The same with further headers.
    pub async fn post_with(
        &self,
        path: &str,
        key: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let all = [&[("x-user", "ann"), ("idempotency-key", key)], headers].concat();
        http::ask(self.envoy.address, "POST", path, &all, body).await
    }

    /// The status of one whose body has no length beforehand.
    pub async fn post_chunked(&self, path: &str, key: &str, n_bytes: usize) -> u16 {
        post_chunked(self.envoy.address, path, key, n_bytes).await
    }

    /// Any request.
    pub async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        http::ask(self.envoy.address, method, path, headers, body).await
    }

    /// A metric of the filter, by what stands in its line; zero if there is none.
    pub async fn metric(&self, line: &str) -> f64 {
        self.tidegate.metric(&format!("tidegate_idempotency_{line}")).await
    }

    /// The same as a whole number.
    pub async fn count(&self, line: &str) -> i64 {
        format!("{:.0}", self.metric(line).await).parse().unwrap()
    }

    /// Waits until a metric of the filter has a value.
    pub async fn counted(&self, line: &str, value: f64) {
        eventually(&format!("{line} to be {value}"), async || {
            ((self.metric(line).await - value).abs() < 0.5).then_some(())
        })
        .await;
    }

    /// Waits until so many requests have reached the service.
    pub async fn ran(&self, n: usize) {
        eventually("the service to run", async || (self.service.n_ran() >= n).then_some(())).await;
    }
}

/// The status of a POST of `ann` whose body has no length beforehand.
pub async fn post_chunked(server: SocketAddr, path: &str, key: &str, n_bytes: usize) -> u16 {
    let piece = Bytes::from(vec![b'x'; 64 << 10]);
    let n_pieces = n_bytes.div_ceil(piece.len());
    let frames = (0..n_pieces).map(move |_| Ok::<_, Infallible>(Frame::data(piece.clone())));
    let body = StreamBody::new(futures_util::stream::iter(frames));
    let request = Request::post(path)
        .header("host", "test")
        .header("x-user", "ann")
        .header("idempotency-key", key)
        .body(body)
        .unwrap();
    let stream = TcpStream::connect(server).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender.send_request(request).await.unwrap().status().as_u16()
}

/// A Tidegate with a policy file in `folder`.
pub async fn tidegate(folder: &TempDir, setting: &Setting<'_>) -> Tidegate {
    let file = folder.path().join("idempotency.yaml");
    fs::write(&file, setting.policy.unwrap_or(POLICY)).unwrap();
    let file = file.to_str().unwrap().to_owned();
    let own = [("IDEMPOTENCY_CONFIG", file.as_str()), ("IDEMPOTENCY_ADDR", "127.0.0.1:0")];
    let settings = [&own, setting.settings.as_slice()].concat();
    Tidegate::start_unready(setting.limits.unwrap_or(NO_LIMITS), &settings).await
}

/// An Envoy in front of all of it.
pub async fn envoy(
    service: SocketAddr,
    limits: SocketAddr,
    filter: SocketAddr,
    changes: &[(&str, String)],
) -> Envoy {
    let port = |of: SocketAddr| format!("port_value: {} }}", of.port());
    let ports = [
        ("port_value: 9901 }", "port_value: 0 }".to_owned()),
        ("port_value: 10000 }", "port_value: 0 }".to_owned()),
        ("port_value: 8000 }", port(service)),
        ("port_value: 8081 }", port(limits)),
        ("port_value: 8082 }", port(filter)),
        // A busy machine must not turn answers into failures.
        ("timeout: 0.1s", "timeout: 20s".to_owned()),
        ("message_timeout: 1s", "message_timeout: 20s".to_owned()),
    ];
    // A scene's own changes come first: they may stand in place of one of these.
    let ports =
        ports.into_iter().filter(|(from, _)| !changes.iter().any(|(own, _)| own.contains(from)));
    let changes: Vec<_> = changes.iter().cloned().chain(ports).collect();
    let text = changed("idempotency.yaml", &changes);
    Envoy::start_from(&text.replace("connect_timeout: 0.25s", "connect_timeout: 20s")).await
}
