//! Tells when a peer has sent the bytes with which its protocol begins.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// A stream whose first bytes are waited for.
#[derive(Debug)]
pub(super) struct Greeting<S> {
    stream: S,
    n_missing: usize,
    complete: Option<oneshot::Sender<()>>,
}

impl<S> Greeting<S> {
    /// The stream, and what is told once `n_bytes` are read from it.
    pub(super) fn of(stream: S, n_bytes: usize) -> (Self, oneshot::Receiver<()>) {
        let (complete, greeted) = oneshot::channel();
        let mut greeting = Self { stream, n_missing: n_bytes, complete: Some(complete) };
        greeting.count(0);
        (greeting, greeted)
    }

    fn count(&mut self, n_read: usize) {
        self.n_missing = self.n_missing.saturating_sub(n_read);
        if self.n_missing == 0
            && let Some(complete) = self.complete.take()
        {
            let _ = complete.send(());
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Greeting<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let n_before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if self.complete.is_some() {
            self.count(buffer.filled().len() - n_before);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Greeting<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
