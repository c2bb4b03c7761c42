//! Who may use the filter, and whose key it is: names that were verified, none that a client chose.

use crate::answers::problem;
use crate::api::{Api, claim, completion};
use crate::scene::{self, Scene, Setting};
use crate::service::Service;
use crate::support::authority::{Authority, Pair};
use crate::support::grpc::tls_stream;
use crate::support::http;
use crate::support::tidegate::Tidegate;
use crate::support::{eventually, grpc};
use envoy_types::pb::envoy::service::ext_proc::v3::ProcessingRequest;
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_client::ExternalProcessorClient;
use std::net::SocketAddr;
use tempfile::TempDir;
use tidegate::envoy::direct_proto::WriteResult;
use tidegate::envoy::direct_proto::claim_response::Result as Claimed;
use tonic::Code;

/// The end of the filter's cluster.
const CLUSTER: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions: *http2";

/// A certificate and its key, for Envoy.
fn shown(pair: &Pair) -> String {
    format!(
        "tls_certificates: [{{ certificate_chain: {{ filename: '{}' }}, private_key: {{ filename: '{}' }} }}]",
        pair.0, pair.1
    )
}

/// TLS from Envoy to the filter, with this certificate if there is one.
fn over_tls(authority: &Authority, pair: Option<&Pair>) -> (&'static str, String) {
    let shown = pair.map(|pair| shown(pair) + ", ").unwrap_or_default();
    let socket = format!(
        "{CLUSTER}\n      transport_socket:\n        name: envoy.transport_sockets.tls\n        \
         typed_config:\n          \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext\n          \
         common_tls_context: {{ {shown}validation_context: {{ trusted_ca: {{ filename: '{}' }} }} }}",
        authority.ca()
    );
    (CLUSTER, socket)
}

/// A Tidegate whose filter and direct API are for those that an authority vouches for.
struct Guarded {
    authority: Authority,
    service: Service,
    tidegate: Tidegate,
    filter: SocketAddr,
    _folder: TempDir,
}

impl Guarded {
    async fn start(envoy: &str) -> Self {
        let authority = Authority::new();
        let (cert, key) = authority.issue("tidegate", "localhost");
        let ca = authority.ca();
        let settings = vec![
            ("IDEMPOTENCY_ADDR", "0.0.0.0:0"),
            ("IDEMPOTENCY_API", "true"),
            ("IDEMPOTENCY_SERVER_USE_TLS", "true"),
            ("IDEMPOTENCY_SERVER_TLS_CERT", &cert),
            ("IDEMPOTENCY_SERVER_TLS_KEY", &key),
            ("IDEMPOTENCY_CLIENT_TLS_CACERT", &ca),
            ("IDEMPOTENCY_CLIENT_TLS_SAN", envoy),
        ];
        let folder = TempDir::new().unwrap();
        let tidegate = scene::tidegate(&folder, &Setting { settings, ..Setting::default() }).await;
        tidegate.ready().await;
        let filter = tidegate.address_of("idempotency").await;
        let service = Service::start().await;
        Self { authority, service, tidegate, filter, _folder: folder }
    }

    /// The status of a request through an Envoy that shows this certificate.
    async fn post(&self, pair: Option<&Pair>) -> u16 {
        let changes = [over_tls(&self.authority, pair)];
        let limits = self.tidegate.grpc;
        let envoy = scene::envoy(self.service.address, limits, self.filter, &changes).await;
        let headers = [("x-user", "ann"), ("idempotency-key", "k")];
        http::ask(envoy.address, "POST", "/pay", &headers, "").await.status
    }

    /// A client of the direct API that shows this certificate.
    async fn api(&self, pair: &Pair) -> Api {
        let config = self.authority.client(Some(pair));
        Api(grpc::channel_over_tls(self.filter, config).await.unwrap())
    }
}

#[tokio::test]
async fn only_who_shows_the_certificate_of_envoy_may_use_the_filter() {
    let guarded = Guarded::start("envoy.mesh").await;
    let (authority, other) = (&guarded.authority, Authority::new());
    for (pair, why) in [
        (None, "no certificate"),
        (Some(authority.issue("dns", "shop.mesh")), "another name"),
        (Some(authority.issue("longer", "envoy.mesh.evil")), "a longer name"),
        (Some(authority.issue_for_uris("uri", &["spiffe://mesh/envoy"])), "a URI"),
        (Some(authority.issue_expired("expired", "envoy.mesh")), "one that has expired"),
        (Some(other.issue("other", "envoy.mesh")), "another authority"),
    ] {
        assert_eq!(guarded.post(pair.as_ref()).await, 503, "{why}");
    }
    assert_eq!(guarded.service.n_ran(), 0);
    assert_eq!(guarded.post(Some(&authority.issue("envoy", "envoy.mesh"))).await, 201);
    assert_eq!(guarded.service.n_ran(), 1);
}

#[tokio::test]
async fn envoy_may_be_known_by_a_uri() {
    let guarded = Guarded::start("spiffe://mesh/envoy").await;
    let shop = guarded.authority.issue_for_uris("shop", &["spiffe://mesh/shop"]);
    assert_eq!((guarded.post(Some(&shop)).await, guarded.service.n_ran()), (503, 0));
    let uris = ["spiffe://mesh/gateway", "spiffe://mesh/envoy"];
    let envoy = guarded.authority.issue_for_uris("envoy", &uris);
    assert_eq!((guarded.post(Some(&envoy)).await, guarded.service.n_ran()), (201, 1));
}

#[tokio::test]
async fn who_calls_the_direct_api_works_in_the_namespace_of_its_certificate() {
    let guarded = Guarded::start("envoy.mesh").await;
    let authority = &guarded.authority;
    let shop = guarded.api(&authority.issue_for_uris("shop", &["spiffe://mesh/shop"])).await;
    let bank = guarded.api(&authority.issue("bank", "bank.mesh")).await;
    let fence = shop.fence(claim("", 1)).await;
    assert!(bank.fence(claim("", 2)).await > 0, "one key in two namespaces is two operations");
    let own = shop.claim(claim("spiffe://mesh/shop", 3)).await.unwrap();
    assert!(matches!(own, Claimed::InProgress(_)), "its own may be named: {own:?}");
    for named in ["spiffe://mesh/shop", "another"] {
        let error = bank.claim(claim(named, 2)).await.unwrap_err();
        assert_eq!(error.code(), Code::PermissionDenied, "{named}: {error}");
        let asked = completion(named, 1, fence);
        let error = bank.complete(asked).await.unwrap_err();
        assert_eq!(error.code(), Code::PermissionDenied, "{named}: {error}");
    }
    assert_eq!(bank.complete(completion("", 1, fence)).await.unwrap(), WriteResult::Stale);
    assert_eq!(shop.complete(completion("", 1, fence)).await.unwrap(), WriteResult::Done);
    let nobody = guarded.api(&authority.issue_for_uris("nobody", &[])).await;
    let error = nobody.claim(claim("", 1)).await.unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated, "{error}");
}

#[tokio::test]
async fn who_calls_the_direct_api_cannot_speak_for_envoy() {
    let guarded = Guarded::start("envoy.mesh").await;
    let shop = guarded.api(&guarded.authority.issue("shop", "shop.mesh")).await;
    let mut filter = ExternalProcessorClient::new(shop.0);
    let nothing = tokio_stream::empty::<ProcessingRequest>();
    let error = filter.process(nothing).await.unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied);
    assert!(error.message().contains("IDEMPOTENCY_CLIENT_TLS_SAN"), "{error}");
    let log = guarded.tidegate.log();
    assert!(log.contains("a caller of the filter is refused, the first one"), "{log}");
}

#[tokio::test]
async fn a_certificate_that_changes_is_taken_up() {
    let guarded = Guarded::start("envoy.mesh").await;
    let authority = &guarded.authority;
    let shown = async || {
        let client = authority.client(Some(&authority.issue("client", "envoy.mesh")));
        let stream = tls_stream(guarded.filter, client).await.ok()?;
        stream.get_ref().1.peer_certificates()?.first().map(|shown| shown.to_vec())
    };
    let before = shown().await.unwrap();
    authority.issue("tidegate", "localhost");
    eventually("the new certificate", async || (shown().await? != before).then_some(())).await;
    assert_eq!(guarded.post(Some(&authority.issue("envoy", "envoy.mesh"))).await, 201);
}

/// A policy whose callers are known by this.
fn known_by(source: &str) -> String {
    format!("idempotency: {{ routes: [{{ name: all, scope: {{ principal: [{source}] }} }}] }}")
}

/// A listener that asks for certificates, and says in `x-forwarded-client-cert` whose were shown.
fn asking_for_certificates(authority: &Authority) -> Vec<(&'static str, String)> {
    let server = authority.issue("server", "localhost");
    let socket = format!(
        "        - transport_socket:
            name: envoy.transport_sockets.tls
            typed_config:
              \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
              common_tls_context: {{ {}, validation_context: {{ trusted_ca: {{ filename: '{}' }} }} }}
          filters:",
        shown(&server),
        authority.ca()
    );
    let forwarded = "use_remote_address: true
                forward_client_cert_details: SANITIZE_SET
                set_current_client_cert_details: { uri: true, dns: true }";
    vec![("        - filters:", socket), ("use_remote_address: true", forwarded.to_owned())]
}

#[tokio::test]
async fn a_caller_is_known_by_the_certificate_that_envoy_has_verified() {
    let authority = Authority::new();
    let ann = authority.issue_for_uris("ann", &["spiffe://shop/ann"]);
    let bob = authority.issue_for_uris("bob", &["spiffe://shop/bob"]);
    let dns = authority.issue("dns", "ann.shop");
    for (source, others) in [
        ("mtls: uri_san", &[&bob][..]),
        ("mtls: dns_san", &[]),
        ("trusted_header: x-forwarded-client-cert", &[&bob, &dns]),
    ] {
        let policy = known_by(&format!("{{ {source} }}"));
        let changes = asking_for_certificates(&authority);
        let setting = Setting { policy: Some(&policy), changes, ..Setting::default() };
        let scene = Scene::start_with(setting).await;
        let post = async |pair: Option<&Pair>| {
            let client = authority.client(pair);
            let stream = tls_stream(scene.envoy.address, client).await.unwrap();
            let forged = [
                ("idempotency-key", "k"),
                ("x-forwarded-client-cert", "By=a;URI=spiffe://shop/ann;DNS=ann.shop"),
            ];
            http::ask_over(stream, "POST", "/pay", &forged, "").await
        };
        assert_eq!(problem(&post(None).await), "key-unscoped", "{source}");
        let known = if source.ends_with("dns_san") { &dns } else { &ann };
        assert_eq!(post(Some(known)).await.body, "{\"run\":1}", "{source}");
        assert_eq!(post(Some(known)).await.header("idempotent-replayed"), "true", "{source}");
        for (n, other) in others.iter().enumerate() {
            assert_eq!(post(Some(other)).await.body, format!("{{\"run\":{}}}", n + 2), "{source}");
        }
        if source.starts_with("mtls") {
            let without = if source.ends_with("dns_san") { &ann } else { &dns };
            assert_eq!(problem(&post(Some(without)).await), "key-unscoped", "{source}");
        }
    }
}

/// `jwt_authn` with one key, in front of the filter.
const JWT: &str = r#"                  - name: envoy.filters.http.jwt_authn
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
                      providers:
                        shop:
                          issuer: shop
                          payload_in_metadata: payload
                          local_jwks: { inline_string: '{"keys":[{"kty":"oct","alg":"HS256","k":"YSBrZXkgb2YgdGhpcnR5LXR3byBieXRlcywgcmVhbGw"}]}' }
                      rules:
                        - match: { prefix: / }
                          requires: { requires_any: { requirements: [{ provider_name: shop }, { allow_missing: {} }] } }

"#;

/// Tokens by that key whose `sub` are `ann` and `bob`.
const ANN: &str = "Bearer eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJzaG9wIiwic3ViIjoiYW5uIn0.JtLSTAo4TdnDp5Iz94wq1K5517LH1UBjsBPDFtFfpmA";
const BOB: &str = "Bearer eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJzaG9wIiwic3ViIjoiYm9iIn0.6qDfADlrIyeBNMw_Yc-AL60jGx3hB3NHujofQMozzpc";

#[tokio::test]
async fn a_caller_is_known_by_the_token_that_envoy_has_verified() {
    let policy = known_by("{ jwt_claim: payload.sub }");
    let filter = "                  - name: envoy.filters.http.ext_proc";
    let setting = Setting {
        policy: Some(&policy),
        changes: vec![(filter, format!("{JWT}{filter}"))],
        ..Setting::default()
    };
    let scene = Scene::start_with(setting).await;
    let post = async |token: &str| {
        let headers = [("authorization", token), ("idempotency-key", "k"), ("x-user", "ann")];
        scene.ask("POST", "/pay", &headers, "").await
    };
    assert_eq!(post(ANN).await.body, "{\"run\":1}");
    assert_eq!(post(BOB).await.body, "{\"run\":2}", "one key of two callers");
    let retry = post(ANN).await;
    assert_eq!(
        (retry.body.as_str(), retry.header("idempotent-replayed").as_str()),
        ("{\"run\":1}", "true")
    );
    let forged = ANN.replace("JtLST", "JtLSt");
    assert_eq!(post(&forged).await.status, 401);
    assert_eq!(problem(&post("").await), "key-unscoped");
    assert_eq!(scene.service.n_ran(), 2);
}

#[tokio::test]
async fn envoy_may_reach_the_filter_over_a_unix_socket() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("filter.sock");
    let socket = socket.to_str().unwrap();
    let settings = vec![("IDEMPOTENCY_ADDR", socket)];
    let tidegate = scene::tidegate(&folder, &Setting { settings, ..Setting::default() }).await;
    tidegate.ready().await;
    let service = Service::start().await;
    let changes = [
        (
            "    - name: idempotency\n      type: STRICT_DNS",
            "    - name: idempotency\n      type: STATIC".to_owned(),
        ),
        (
            "socket_address: { address: 127.0.0.1, port_value: 8082 }",
            format!("pipe: {{ path: '{socket}' }}"),
        ),
    ];
    let envoy = scene::envoy(service.address, tidegate.grpc, tidegate.http, &changes).await;
    let headers = [("x-user", "ann"), ("idempotency-key", "k")];
    for replayed in ["", "true"] {
        let answer = http::ask(envoy.address, "POST", "/pay", &headers, "").await;
        assert_eq!((answer.status, answer.header("idempotent-replayed").as_str()), (201, replayed));
    }
    assert_eq!(service.n_ran(), 1);
}
