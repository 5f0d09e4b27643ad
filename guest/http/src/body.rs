//! Bodies that the middleware forwards.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use context_guard_protocol::HttpExchange;
use http_body::{Body, Frame, SizeHint};

use crate::filter::ComponentFilter;

/// A request or response body that the middleware sends: the original one, or its replacement.
pub struct ForwardedBody<B>(Source<B>);

enum Source<B> {
    /// Bytes in memory. `None` after they were sent.
    Whole(Option<Bytes>),
    /// The bytes of the original body that were already read, then its unread remainder.
    Rest(Option<Bytes>, B),
    /// An event stream whose events are shaped one by one. The original body is `None` after its
    /// end.
    Events(Box<HttpExchange>, ComponentFilter, Option<B>),
}

impl<B> ForwardedBody<B> {
    /// Creates a body from bytes in memory.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Source::Whole(Some(bytes.into())))
    }

    /// Creates a body that passes the original one unchanged.
    pub(crate) fn original(body: B) -> Self {
        Self(Source::Rest(None, body))
    }

    /// Creates a body from the bytes of the original that were read already, and its unread
    /// remainder.
    pub(crate) fn resumed(read: Vec<u8>, rest: B) -> Self {
        Self(Source::Rest(Some(read.into()), rest))
    }

    /// Creates a body that shapes the events of `body`, the original event stream.
    pub(crate) fn events(exchange: HttpExchange, filter: ComponentFilter, body: B) -> Self {
        Self(Source::Events(Box::new(exchange), filter, Some(body)))
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for ForwardedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match &mut self.get_mut().0 {
            Source::Whole(bytes) => {
                let bytes = bytes.take().filter(|bytes| !bytes.is_empty());
                Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
            Source::Rest(read, rest) => match read.take().filter(|read| !read.is_empty()) {
                Some(read) => Poll::Ready(Some(Ok(Frame::data(read)))),
                None => Pin::new(rest).poll_frame(cx),
            },
            Source::Events(exchange, filter, body) => loop {
                let Some(inner) = body else { return Poll::Ready(None) };
                let (chunk, is_last) = match ready!(Pin::new(inner).poll_frame(cx)) {
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(chunk) => (chunk, false),
                        Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                    },
                    None => {
                        *body = None;
                        (Bytes::new(), true)
                    }
                };
                let sent = exchange.on_events(filter, &chunk, is_last);
                if !sent.is_empty() {
                    return Poll::Ready(Some(Ok(Frame::data(sent.into()))));
                }
            },
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Source::Rest(None, rest) => rest.size_hint(),
            _ => SizeHint::default(),
        }
    }
}
