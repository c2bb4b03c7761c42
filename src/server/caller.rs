//! Who calls over a connection, by the certificate that was shown when it began.

use crate::envoy::Caller;
use http::Request;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio_rustls::server::TlsStream;
use tonic::codegen::Service;
use webpki::EndEntityCert;

/// A service that is told with each request who calls.
#[derive(Clone, Debug)]
pub(super) struct Introduced<S> {
    service: S,
    caller: Caller,
}

impl<S> Introduced<S> {
    /// One for a connection whose peer had to show a certificate.
    pub(super) fn by<T>(stream: &TlsStream<T>, service: S) -> Self {
        Self { service, caller: Caller::Certified(names(stream)) }
    }
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for Introduced<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        request.extensions_mut().insert(self.caller.clone());
        self.service.call(request)
    }
}

/// The URIs of a peer's certificate, then its DNS names.
fn names<T>(stream: &TlsStream<T>) -> Arc<[Box<str>]> {
    let (_, session) = stream.get_ref();
    let shown = session.peer_certificates().and_then(<[_]>::first);
    let Some(certificate) = shown.and_then(|shown| EndEntityCert::try_from(shown).ok()) else {
        return [].into();
    };
    certificate.valid_uri_names().chain(certificate.valid_dns_names()).map(Into::into).collect()
}
