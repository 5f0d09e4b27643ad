//! The bodies of a client's request and of its response, which record the activity of their
//! connection.
//!
//! The rest of a request that is refused early is discarded before the response is sent, so that
//! the client can read the response.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http::Version;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::activity::{ActiveRequest, Activity};

/// The maximum length of a part of a response, in bytes.
const MAX_PART_BYTES: usize = 64 << 10;
/// The maximum time for discarding the rest of a refused request.
const MAX_DISCARD: Duration = Duration::from_secs(20);
/// The maximum time for which the refusal of a request waits for its rest.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The task that discards the rest of a refused request of HTTP/2. Empty before the refusal, and if
/// nothing was left.
#[derive(Clone, Default)]
pub(super) struct DiscardedRest(Arc<Mutex<Option<JoinHandle<()>>>>);

impl DiscardedRest {
    fn set(&self, task: JoinHandle<()>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// Waits until the rest has been discarded, at most for [`MAX_WAIT`]. Returns at once if the
    /// request was read to its end.
    ///
    /// A client that reads a refusal while it sends may end its request early. The request is then
    /// shorter than its `content-length`, and the stream is reset with an error (RFC 9113, 8.1.1),
    /// which curl 7.88 reports instead of the response.
    pub(super) async fn wait(self) {
        let task = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            // A task that panicked has no rest, either.
            let _ = timeout(MAX_WAIT, task).await;
        }
    }
}

/// The body of a client's request. If it is dropped early, the rest is read and discarded.
pub(super) struct RequestBody {
    /// The body. `None` only while this value is dropped.
    body: Option<Incoming>,
    version: Version,
    is_read: bool,
    rest: DiscardedRest,
    activity: Arc<Activity>,
}

impl RequestBody {
    pub(super) fn new(
        body: Incoming,
        version: Version,
        rest: DiscardedRest,
        activity: Arc<Activity>,
    ) -> Self {
        let is_read = body.is_end_stream();
        Self { body: Some(body), version, is_read, rest, activity }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|body| !self.is_read && !body.is_end_stream())
        else {
            return;
        };
        if self.version < Version::HTTP_2 {
            self.activity.left_body();
        } else if let Ok(runtime) = Handle::try_current() {
            // Without a reader, the stream would be reset after the response (RFC 9113, 8.1). Some
            // clients that are still sending, such as curl 7.88, then report the reset and lose the
            // response. A pause does not end this: the client may wait for a processor.
            self.rest.set(runtime.spawn(discard(body)));
        }
    }
}

/// Discards a body until it ends or fails, at most for [`MAX_DISCARD`].
async fn discard(mut body: Incoming) {
    let rest = async { while let Some(Ok(_)) = body.frame().await {} };
    // A rest that takes longer is left unread.
    let _ = timeout(MAX_DISCARD, rest).await;
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        this.is_read |= frame.is_none();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Incoming::size_hint)
    }
}

/// The body of a response. Its request is active until the body is dropped.
pub(super) struct ResponseBody {
    body: Body,
    /// The rest of the last frame, which was not sent yet.
    rest: Bytes,
    active: ActiveRequest,
}

impl ResponseBody {
    pub(super) fn new(body: Body, active: ActiveRequest) -> Self {
        // The client may accept nothing from the start.
        active.offered();
        Self { body, rest: Bytes::new(), active }
    }

    /// Returns the next part of a frame, and stores the rest. A long frame is divided, because
    /// hyper takes a frame at once, and its end would not show that the client has accepted it.
    fn part(&mut self, mut data: Bytes) -> Frame<Bytes> {
        self.rest = data.split_off(data.len().min(MAX_PART_BYTES));
        self.active.offered();
        Frame::data(data)
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        // hyper asks for the next part when the client can accept it.
        this.active.accepted();
        if !this.rest.is_empty() {
            let rest = std::mem::take(&mut this.rest);
            return Poll::Ready(Some(Ok(this.part(rest))));
        }
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        Poll::Ready(match frame.map(|frame| frame.map(Frame::into_data)) {
            Some(Ok(Ok(data))) => Some(Ok(this.part(data))),
            Some(Ok(Err(other))) => Some(Ok(other)),
            Some(Err(error)) => Some(Err(error)),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::super::activity::Activity;
    use super::*;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn long_frames_are_handed_over_in_parts() {
        let sent: Vec<u8> = (0..200_000u32).map(|at| at.to_le_bytes()[1]).collect();
        let active = ActiveRequest::begin(&Activity::new(), http::Version::HTTP_2);
        let mut body = ResponseBody::new(Body::from(sent.clone()), active);
        let mut received = Vec::new();
        while !body.is_end_stream() {
            let left = sent.len() - received.len();
            assert_eq!(body.size_hint().exact(), Some(left as u64));
            let part = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(part.len() <= MAX_PART_BYTES);
            received.extend_from_slice(&part);
        }
        assert!(received == sent);
    }
}
