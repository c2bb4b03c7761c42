//! TLS on the gRPC port: who is let in, faulty files, and certificates that change.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed test should panic"
)]

mod support;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use support::authority::{Authority, Pair};
use support::eventually;
use support::grpc::{self, Client, descriptor, request};
use support::tidegate::{Tidegate, refuses_to_start};

const POLICY: &str = "\
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 5 }
";

/// Settings of TLS with a certificate, and more.
fn tls<'a>((cert, key): &'a Pair, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let own = [
        ("GRPC_SERVER_USE_TLS", "true"),
        ("GRPC_SERVER_TLS_CERT", cert.as_str()),
        ("GRPC_SERVER_TLS_KEY", key.as_str()),
    ];
    [own.as_slice(), more].concat()
}

/// Whether a client of these means gets an answer.
async fn is_answered(tidegate: &Tidegate, config: Arc<ClientConfig>) -> bool {
    match grpc::connect_over_tls(tidegate.grpc, config).await {
        Ok(client) => answers(client).await,
        Err(_) => false,
    }
}

async fn answers(mut client: Client) -> bool {
    client.ask(request("shop", vec![descriptor(&[("user", "ann")])])).await.is_ok()
}

async fn logged(tidegate: &Tidegate, text: &str) {
    eventually(text, async || tidegate.log().contains(text).then_some(())).await;
}

#[tokio::test]
async fn who_trusts_the_certificate_is_answered_and_plain_text_is_not() {
    let authority = Authority::new();
    let pair = authority.issue("server", "localhost");
    let tidegate = Tidegate::start_with(POLICY, &tls(&pair, &[])).await;
    assert!(is_answered(&tidegate, authority.client(None)).await);
    assert!(!is_answered(&tidegate, Authority::new().client(None)).await);
    let plain = tonic::transport::Endpoint::from_shared(format!("http://{}", tidegate.grpc));
    assert!(match plain.unwrap().connect().await {
        Ok(channel) => !answers(Client::over(channel)).await,
        Err(_) => true,
    });
    assert!(is_answered(&tidegate, authority.client(None)).await);
    assert!(tidegate.metric("tidegate_tls_refused_handshakes_total").await > 0.0);
    logged(&tidegate, "tls: a handshake failed, the first one on this port").await;
}

#[tokio::test]
async fn only_those_whom_the_clients_authority_vouches_for_are_let_in() {
    let (authority, clients, other) = (Authority::new(), Authority::new(), Authority::new());
    let pair = authority.issue("server", "localhost");
    let ca = clients.ca();
    for variable in ["GRPC_CLIENT_TLS_CACERT", "GRPC_SERVER_TLS_CA_CERT"] {
        let tidegate = Tidegate::start_with(POLICY, &tls(&pair, &[(variable, &ca)])).await;
        let shown = |pair: Pair| authority.client(Some(&pair));
        assert!(is_answered(&tidegate, shown(clients.issue("a", "envoy"))).await);
        assert!(!is_answered(&tidegate, authority.client(None)).await, "no certificate");
        assert!(!is_answered(&tidegate, shown(other.issue("b", "envoy"))).await, "wrong authority");
        assert!(!is_answered(&tidegate, shown(clients.issue_expired("c", "envoy"))).await);
    }
}

#[tokio::test]
async fn a_clients_certificate_must_be_for_the_name_that_is_wanted() {
    let authority = Authority::new();
    let pair = authority.issue("server", "localhost");
    let ca = authority.ca();
    let more = [("GRPC_CLIENT_TLS_CACERT", ca.as_str()), ("GRPC_CLIENT_TLS_SAN", "a.mesh.local")];
    let tidegate = Tidegate::start_with(POLICY, &tls(&pair, &more)).await;
    for (host, is_let_in) in
        [("a.mesh.local", true), ("*.mesh.local", true), ("a.elsewhere.local", false)]
    {
        let shown = authority.client(Some(&authority.issue("client", host)));
        assert_eq!(is_answered(&tidegate, shown).await, is_let_in, "{host}");
    }
}

#[tokio::test]
async fn faulty_files_end_the_start_and_are_named_with_their_setting() {
    let authority = Authority::new();
    let (cert, key) = authority.issue("server", "localhost");
    let other_key = authority.issue("other", "localhost").1;
    let (missing, rubbish) = (authority.file("missing"), authority.file("rubbish"));
    fs::write(&rubbish, "no certificate\n").unwrap();
    let (missing, rubbish) = (missing.to_str().unwrap(), rubbish.to_str().unwrap());
    let ca = authority.ca();
    for (pair, more, expected) in [
        ((missing, key.as_str()), vec![], "GRPC_SERVER_TLS_CERT/--grpc-server-tls-cert"),
        ((rubbish, &key), vec![], "GRPC_SERVER_TLS_CERT/--grpc-server-tls-cert"),
        ((&cert, missing), vec![], "GRPC_SERVER_TLS_KEY/--grpc-server-tls-key"),
        ((&cert, rubbish), vec![], "GRPC_SERVER_TLS_KEY/--grpc-server-tls-key"),
        ((&cert, &other_key), vec![], "not the key of the certificate"),
        (
            (&cert, &key),
            vec![("GRPC_CLIENT_TLS_CACERT", missing)],
            "GRPC_CLIENT_TLS_CACERT/--grpc-client-tls-cacert",
        ),
        (
            (&cert, &key),
            vec![("GRPC_SERVER_TLS_CA_CERT", rubbish)],
            "GRPC_SERVER_TLS_CA_CERT/--grpc-server-tls-ca-cert",
        ),
        (
            (&cert, &key),
            vec![("GRPC_CLIENT_TLS_CACERT", ca.as_str()), ("GRPC_CLIENT_TLS_SAN", "no name")],
            "GRPC_CLIENT_TLS_SAN/--grpc-client-tls-san no name",
        ),
    ] {
        let pair = (pair.0.to_owned(), pair.1.to_owned());
        let (code, log) = refuses_to_start(&tls(&pair, &more)).await;
        assert_eq!(code, Some(1), "{log}");
        assert!(log.contains(expected), "{expected} in {log}");
        assert!(!log.contains("panicked"), "{log}");
    }
}

#[tokio::test]
async fn an_expired_certificate_is_said_to_be_at_the_start() {
    let authority = Authority::new();
    let pair = authority.issue_expired("server", "localhost");
    let tidegate = Tidegate::start_with(POLICY, &tls(&pair, &[])).await;
    logged(&tidegate, "clients will not trust us").await;
    assert!(tidegate.log().contains("certificate expired"), "{}", tidegate.log());
    assert!(!is_answered(&tidegate, authority.client(None)).await);
}

/// The certificate that a new connection is shown.
async fn shown(tidegate: &Tidegate, authority: &Authority) -> Option<CertificateDer<'static>> {
    let stream = grpc::tls_stream(tidegate.grpc, authority.client(None)).await.ok()?;
    let (_, session) = stream.get_ref();
    session.peer_certificates()?.first().cloned().map(CertificateDer::into_owned)
}

async fn becomes(tidegate: &Tidegate, authority: &Authority, cert: &str) {
    let expected = CertificateDer::from_pem_file(cert).unwrap();
    eventually("the new certificate", async || {
        (shown(tidegate, authority).await.as_ref() == Some(&expected)).then_some(())
    })
    .await;
}

/// A generation of a mounted Secret, as Kubernetes lays it down.
fn lay(folder: &Path, generation: &str, (cert, key): &Pair) {
    let to = folder.join(generation);
    fs::create_dir(&to).unwrap();
    fs::copy(cert, to.join("tls.crt")).unwrap();
    fs::copy(key, to.join("tls.key")).unwrap();
    symlink(generation, folder.join("..next")).unwrap();
    fs::rename(folder.join("..next"), folder.join("..data")).unwrap();
}

#[tokio::test]
async fn certificates_that_kubernetes_swaps_are_taken_up_and_bad_ones_are_not() {
    let authority = Authority::new();
    let (old, new) = (authority.issue("old", "localhost"), authority.issue("new", "localhost"));
    let mount = tempfile::tempdir().unwrap();
    lay(mount.path(), "..1", &old);
    for name in ["tls.crt", "tls.key"] {
        symlink(format!("..data/{name}"), mount.path().join(name)).unwrap();
    }
    let at = |name: &str| mount.path().join(name).display().to_string();
    let tidegate = Tidegate::start_with(POLICY, &tls(&(at("tls.crt"), at("tls.key")), &[])).await;
    becomes(&tidegate, &authority, &old.0).await;
    let before = grpc::connect_over_tls(tidegate.grpc, authority.client(None)).await.unwrap();

    lay(mount.path(), "..2", &(new.0.clone(), old.1.clone()));
    logged(&tidegate, "the certificates in force stay").await;
    becomes(&tidegate, &authority, &old.0).await;

    lay(mount.path(), "..3", &authority.issue_expired("expired", "localhost"));
    logged(&tidegate, "certificate expired").await;
    becomes(&tidegate, &authority, &old.0).await;

    lay(mount.path(), "..4", &new);
    becomes(&tidegate, &authority, &new.0).await;
    assert!(answers(before).await, "connections outlast it");
}
