//! How long the message of a call may take: whoever sends all of it but the last byte must not make
//! us keep it.

use super::proto::RateLimitServiceServer;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Sleep, sleep};
use tonic::codegen::{Service, StdError};
use tonic::server::NamedService;
use tonic::{Status, body};

/// How long a message may take from when it is first waited for.
const MESSAGE: Duration = Duration::from_secs(10);

/// A service whose requests must arrive in time.
#[derive(Clone, Debug)]
pub struct Patience<S>(pub(super) S);

/// A body that must arrive in time. Most are there when they are looked at: only one that is not
/// costs a timer.
#[derive(Debug)]
pub struct TimedBody<B> {
    body: B,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<T> NamedService for Patience<RateLimitServiceServer<T>> {
    const NAME: &'static str = <RateLimitServiceServer<T> as NamedService>::NAME;
}

impl<S, B> Service<Request<B>> for Patience<S>
where
    S: Service<Request<TimedBody<B>>, Response = Response<body::Body>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> S::Future {
        self.0.call(request.map(|body| TimedBody { body, deadline: None }))
    }
}

impl<B> TimedBody<B> {
    fn poll_overdue(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(MESSAGE)));
        deadline.as_mut().poll(context)
    }
}

impl<B> Body for TimedBody<B>
where
    B: Body + Unpin,
    B::Error: Into<StdError>,
{
    type Data = B::Data;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, Status>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(|e| Status::from_error(e.into()))));
        }
        ready!(self.poll_overdue(context));
        let text = "the message did not arrive within 10 seconds";
        Poll::Ready(Some(Err(Status::deadline_exceeded(text))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, Empty};
    use tokio::time::Instant;

    /// A body whose sender has fallen silent.
    #[derive(Debug)]
    struct Silent;

    impl Body for Silent {
        type Data = &'static [u8];
        type Error = Status;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stays_away_ends_at_the_deadline() {
        let started = Instant::now();
        let mut body = TimedBody { body: Silent, deadline: None };
        let status = body.frame().await.unwrap().unwrap_err();
        assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
        assert_eq!(started.elapsed(), MESSAGE);
    }

    #[tokio::test]
    async fn a_body_that_is_there_needs_no_timer() {
        let mut body = TimedBody { body: Empty::<&[u8]>::new(), deadline: None };
        assert!(body.frame().await.is_none());
        assert!(body.deadline.is_none());
    }
}
