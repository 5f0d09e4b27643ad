//! Bodies as they are sent on.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use context_guard_protocol::Exchange;
use http_body::{Body, Frame, SizeHint};

use crate::filter::Asking;

/// A body, made of what was there before.
pub struct Sent<B>(Kind<B>);

enum Kind<B> {
    /// All of it is here.
    Whole(Option<Bytes>),
    /// As it came, after what was read of it.
    Rest(Option<Bytes>, B),
    /// Events, each through the guard.
    Events(Box<Exchange>, Asking, Option<B>),
}

impl<B> Sent<B> {
    /// All of a body.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Kind::Whole(Some(bytes.into())))
    }

    /// A body as it came.
    pub(crate) fn same(body: B) -> Self {
        Self(Kind::Rest(None, body))
    }

    /// A body as it came, after what was read of it.
    pub(crate) fn after(read: Vec<u8>, rest: B) -> Self {
        Self(Kind::Rest(Some(read.into()), rest))
    }

    /// An event stream.
    pub(crate) fn events(exchange: Exchange, asking: Asking, body: B) -> Self {
        Self(Kind::Events(Box::new(exchange), asking, Some(body)))
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Sent<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match &mut self.get_mut().0 {
            Kind::Whole(bytes) => {
                let bytes = bytes.take().filter(|bytes| !bytes.is_empty());
                Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
            Kind::Rest(read, rest) => match read.take().filter(|read| !read.is_empty()) {
                Some(read) => Poll::Ready(Some(Ok(Frame::data(read)))),
                None => Pin::new(rest).poll_frame(cx),
            },
            Kind::Events(exchange, asking, body) => loop {
                let Some(inner) = body else { return Poll::Ready(None) };
                let (chunk, last) = match ready!(Pin::new(inner).poll_frame(cx)) {
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
                let sent = exchange.events(asking, &chunk, last);
                if !sent.is_empty() {
                    return Poll::Ready(Some(Ok(Frame::data(sent.into()))));
                }
            },
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Kind::Rest(None, rest) => rest.size_hint(),
            _ => SizeHint::default(),
        }
    }
}
