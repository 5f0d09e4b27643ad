//! The bodies of a client's request and of its response, which record the activity of their
//! connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};

use super::activity::{ActiveRequest, Activity};

/// The body of a client's request. It records if it is dropped before its end.
pub(super) struct RequestBody {
    body: Incoming,
    is_read: bool,
    activity: Arc<Activity>,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, activity: Arc<Activity>) -> Self {
        let is_read = body.is_end_stream();
        Self { body, is_read, activity }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if !self.is_read && !self.body.is_end_stream() {
            self.activity.left_body();
        }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        this.is_read |= frame.is_none();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response. Its request is active until the body is dropped.
pub(super) struct ResponseBody {
    body: Body,
    _active: ActiveRequest,
}

impl ResponseBody {
    pub(super) fn new(body: Body, active: ActiveRequest) -> Self {
        Self { body, _active: active }
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
