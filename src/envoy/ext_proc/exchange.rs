//! One stream: what Envoy says of a request and its answer, and what it is told.

use super::convert;
use super::replies::{Gone, Sender};
use super::reply::{self, To, Wanted};
use crate::idempotency::{Begin, Execution, Keyed, Next, Protection, Rest, Unknown};
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    HttpBody, HttpHeaders, ProcessingRequest, ProcessingResponse,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

/// One stream.
#[derive(Debug)]
pub(super) struct Exchange {
    protection: Arc<Protection>,
    replies: Sender,
    cut: CancellationToken,
    state: State,
    is_grpc: bool,
    body_within: Duration,
    body_came: Arc<AtomicBool>,
}

/// How far a request is.
#[derive(Debug)]
enum State {
    /// Nothing is known of it.
    Start,
    /// It has a key; its body is to come.
    Keyed(Box<Keyed>),
    /// It is claimed; the upstream has it, or is about to get it.
    Running(Box<Execution>),
    /// It is not protected.
    Passed,
    /// It was answered by us.
    Answered,
}

/// Envoy said what makes no sense here.
#[derive(Debug, thiserror::Error)]
enum Violation {
    #[error("an empty message")]
    Empty,
    #[error("a message out of its turn")]
    OutOfTurn,
    #[error("no idempotency policy is in force")]
    NoPolicy,
}

impl Exchange {
    pub(super) fn new(
        protection: Arc<Protection>,
        replies: Sender,
        cut: CancellationToken,
        body_within: Duration,
        body_came: Arc<AtomicBool>,
    ) -> Self {
        let state = State::Start;
        Self { protection, replies, cut, state, is_grpc: false, body_within, body_came }
    }

    /// Goes on until Envoy ends the stream, or until there is no more time.
    pub(super) async fn run(mut self, mut messages: Streaming<ProcessingRequest>) {
        let cut = self.cut.clone();
        loop {
            let message = tokio::select! {
                message = messages.message() => message,
                () = self.keep() => return self.give_up().await,
                () = cut.cancelled() => return self.abandon(Unknown::Shutdown),
            };
            // An end and an error say the same: how a stream ends depends on who resets it first.
            let Ok(Some(message)) = message else { break };
            match self.reply(message).await {
                Ok(Ok(())) => {}
                Ok(Err(Gone)) => return,
                Err(violation) => {
                    tracing::debug!(%violation, "a stream of ext_proc ends");
                    return self.abandon(Unknown::Failed);
                }
            }
        }
        self.end().await;
    }

    /// Keeps the claim, if there is one, for as long as it is waited for. Ends if a body has not come
    /// in time.
    async fn keep(&mut self) {
        match &mut self.state {
            State::Running(execution) => match execution.keep().await {},
            State::Keyed(_) => sleep(self.body_within).await,
            State::Start | State::Passed | State::Answered => std::future::pending().await,
        }
    }

    /// Answers a request whose body has not come. Nothing is claimed, so where we only observe Envoy may
    /// go on without us: it waits for no reply that could say so.
    async fn give_up(mut self) {
        let State::Keyed(keyed) = &self.state else { return };
        match keyed.give_up() {
            Next::Answer(answer) => {
                let answer = reply::answer(answer, self.is_grpc);
                if self.replies.send(answer).await.is_err() {
                    return;
                }
                self.state = State::Answered;
            }
            Next::Pass => self.state = State::Passed,
            Next::Forward(_) => return,
        }
        self.end().await;
    }

    async fn reply(&mut self, message: ProcessingRequest) -> Result<Result<(), Gone>, Violation> {
        let response = self.step(message).await?;
        let sent = self.replies.send(response).await;
        if let (Ok(()), State::Running(execution)) = (sent, &mut self.state) {
            execution.forwarded();
        }
        Ok(sent)
    }

    async fn step(
        &mut self,
        mut message: ProcessingRequest,
    ) -> Result<ProcessingResponse, Violation> {
        let request = message.request.take().ok_or(Violation::Empty)?;
        match request {
            Request::RequestHeaders(headers) => self.begin(&message, &headers).await,
            Request::RequestBody(body) => self.request_body(body).await,
            Request::RequestTrailers(_) if matches!(self.state, State::Passed) => {
                Ok(reply::go_on(To::RequestTrailers))
            }
            Request::RequestTrailers(_) => Err(Violation::OutOfTurn),
            Request::ResponseHeaders(headers) => Ok(self.answered(&message, &headers).await),
            Request::ResponseBody(body) => {
                if let State::Running(execution) = &mut self.state {
                    execution.piece(&body.body, body.end_of_stream).await;
                }
                Ok(reply::go_on(To::ResponseBody))
            }
            Request::ResponseTrailers(trailers) => {
                if let State::Running(execution) = &mut self.state {
                    execution.finish(&convert::trailers(&trailers)).await;
                }
                Ok(reply::go_on(To::ResponseTrailers))
            }
        }
    }

    async fn begin(
        &mut self,
        message: &ProcessingRequest,
        headers: &HttpHeaders,
    ) -> Result<ProcessingResponse, Violation> {
        if !matches!(self.state, State::Start) {
            return Err(Violation::OutOfTurn);
        }
        let head = convert::request_head(message, headers);
        self.is_grpc = head.is_grpc();
        match self.protection.begin(&head) {
            Begin::NoPolicy => Err(Violation::NoPolicy),
            Begin::Pass => {
                self.state = State::Passed;
                Ok(reply::let_pass(To::RequestHeaders))
            }
            Begin::Answer(answer) => {
                self.state = State::Answered;
                Ok(reply::answer(answer, self.is_grpc))
            }
            Begin::Key(keyed) if head.ends => {
                Ok(self.claim(*keyed, Vec::new(), To::RequestHeaders).await)
            }
            Begin::Key(keyed) => {
                self.state = State::Keyed(keyed);
                Ok(reply::ask_for_body())
            }
        }
    }

    async fn request_body(&mut self, body: HttpBody) -> Result<ProcessingResponse, Violation> {
        self.body_came.store(true, Ordering::Relaxed);
        match std::mem::replace(&mut self.state, State::Start) {
            State::Keyed(keyed) => Ok(self.claim(*keyed, body.body, To::RequestBody).await),
            State::Passed => {
                self.state = State::Passed;
                Ok(reply::go_on(To::RequestBody))
            }
            state @ (State::Start | State::Running(_) | State::Answered) => {
                self.state = state;
                Err(Violation::OutOfTurn)
            }
        }
    }

    async fn claim(&mut self, keyed: Keyed, body: Vec<u8>, to: To) -> ProcessingResponse {
        match keyed.claim(body).await {
            Next::Forward(execution) => {
                let response = reply::forward(to, &execution.headers());
                self.state = State::Running(execution);
                response
            }
            Next::Answer(answer) => {
                self.state = State::Answered;
                reply::answer(answer, self.is_grpc)
            }
            Next::Pass => {
                self.state = State::Passed;
                reply::let_pass(to)
            }
        }
    }

    /// The answer begins, or one of Envoy's own to a request that never got to us or is not claimed.
    async fn answered(
        &mut self,
        message: &ProcessingRequest,
        headers: &HttpHeaders,
    ) -> ProcessingResponse {
        let State::Running(execution) = &mut self.state else {
            self.miss_body();
            self.state = State::Passed;
            return reply::deliver(Wanted::Nothing);
        };
        match execution.answered(&convert::response_head(message, headers)).await {
            Rest::Wanted => reply::deliver(Wanted::Rest),
            Rest::Trailers => reply::deliver(Wanted::Trailers),
            Rest::Unwanted => reply::deliver(Wanted::Nothing),
        }
    }

    fn abandon(&mut self, cause: Unknown) {
        if let State::Running(execution) = &mut self.state {
            execution.abandon(cause);
        }
    }

    /// Envoy ended the stream. Only a request that needs us no longer may go on without us.
    async fn end(self) {
        self.miss_body();
        let needs_us = match &self.state {
            State::Start | State::Keyed(_) => true,
            State::Running(execution) => !execution.is_over(),
            State::Passed | State::Answered => false,
        };
        if !needs_us {
            self.replies.end().await;
        }
    }

    /// Counts a request that went on without its body, and says so if no body has ever come.
    fn miss_body(&self) {
        let State::Keyed(keyed) = &self.state else { return };
        keyed.unfinished();
        if !self.body_came.swap(true, Ordering::Relaxed) {
            tracing::error!(
                "Envoy did not send the body of a request with a key: unless the client went away, or \
                 sent more than Envoy holds, `allow_mode_override` is not true, and requests with a \
                 body run unprotected"
            );
        }
    }
}
