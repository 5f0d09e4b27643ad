//! The TCP stream of a client. It records activity, and closes in a way that lets the client read
//! the last response.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use super::activity::Activity;

/// The maximum time for discarding bytes of the client after the last response of a connection.
const MAX_LINGER: Duration = Duration::from_secs(2);
/// The size of the buffer for discarded bytes, in bytes.
pub(super) const DISCARD_BYTES: usize = 16 << 10;

/// The TCP stream of a client.
pub(crate) struct ClientStream {
    stream: TcpStream,
    activity: Arc<Activity>,
    /// The time limit for discarding bytes. `None` before the end of output was sent.
    linger: Option<Pin<Box<Sleep>>>,
}

impl ClientStream {
    pub(crate) fn new(stream: TcpStream, activity: Arc<Activity>) -> Self {
        Self { stream, activity, linger: None }
    }

    fn record(&self, written: &Poll<Result<usize>>) {
        match written {
            Poll::Ready(Ok(_)) => self.activity.sent(),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.activity.blocked(),
        }
    }

    /// Discards the bytes that the client still sends. The kernel would reset a connection that is
    /// closed with unread bytes, and the client might lose the response (RFC 9112, 9.6).
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let end = self.linger.get_or_insert_with(|| Box::pin(sleep(MAX_LINGER)));
        if end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let mut discarded = [0u8; DISCARD_BYTES];
        loop {
            let mut buffer = ReadBuf::new(&mut discarded);
            match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                _ => return Poll::Ready(Ok(())),
            }
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            this.activity.received();
        }
        read
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.record(&written);
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.record(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        if this.linger.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
            if !this.activity.has_unread_body() {
                return Poll::Ready(Ok(()));
            }
        }
        this.poll_linger(cx)
    }
}
