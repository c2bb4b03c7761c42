//! What Envoy is told over a stream, and how the stream ends. Envoy takes an end with OK for "go on
//! without me" and lets the request pass, so only who says so expressly ends it like that: whatever
//! else happens to the one that replies ends it with an error.

use envoy_types::pb::envoy::service::ext_proc::v3::ProcessingResponse;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tonic::Status;
use tonic::codegen::tokio_stream::Stream;

/// The side that replies.
#[derive(Debug)]
pub(super) struct Sender(mpsc::Sender<Reply>);

/// The side that Envoy hears.
#[derive(Debug)]
pub struct Replies {
    replies: mpsc::Receiver<Reply>,
    has_ended: bool,
}

/// Envoy hears us no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone;

#[derive(Debug)]
enum Reply {
    Message(Box<ProcessingResponse>),
    /// There is nothing that Envoy could go on with unprotected.
    End,
}

/// Both sides.
pub(super) fn channel() -> (Sender, Replies) {
    let (sender, replies) = mpsc::channel(1);
    (Sender(sender), Replies { replies, has_ended: false })
}

impl Sender {
    /// Replies.
    pub(super) async fn send(&self, message: ProcessingResponse) -> Result<(), Gone> {
        self.0.send(Reply::Message(Box::new(message))).await.map_err(|_| Gone)
    }

    /// Ends the stream with OK.
    pub(super) async fn end(self) {
        // Whoever is gone needs no end.
        let _ = self.0.send(Reply::End).await;
    }
}

impl Stream for Replies {
    type Item = Result<ProcessingResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let reply = std::task::ready!(self.replies.poll_recv(context));
        Poll::Ready(match reply {
            Some(Reply::Message(message)) => Some(Ok(*message)),
            Some(Reply::End) => {
                self.has_ended = true;
                None
            }
            None => {
                self.has_ended = true;
                Some(Err(Status::unavailable("the request is not protected any longer")))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;

    /// What a stream says to its end: whether each is a message, and the code of an error.
    async fn heard(replies: Replies) -> Vec<Result<(), tonic::Code>> {
        replies.map(|reply| reply.map(drop).map_err(|status| status.code())).collect().await
    }

    #[tokio::test]
    async fn a_stream_ends_with_ok_only_if_it_is_said_so() {
        let (sender, replies) = channel();
        tokio::spawn(async move {
            sender.send(ProcessingResponse::default()).await.unwrap();
            sender.end().await;
        });
        assert_eq!(heard(replies).await, [Ok(())]);
    }

    #[tokio::test]
    async fn a_task_that_panics_or_is_dropped_ends_it_with_an_error() {
        let (sender, replies) = channel();
        tokio::spawn(async move {
            sender.send(ProcessingResponse::default()).await.unwrap();
            panic!("a defect");
        });
        assert_eq!(heard(replies).await, [Ok(()), Err(tonic::Code::Unavailable)]);
        let (sender, replies) = channel();
        tokio::spawn(async move {
            let _sender = sender;
            std::future::pending::<()>().await;
        })
        .abort();
        assert_eq!(heard(replies).await, [Err(tonic::Code::Unavailable)]);
    }
}
