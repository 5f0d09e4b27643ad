//! The event stream (SSE) of an upstream on its way to the client.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use tokio::time::Instant;

use super::unanswered::UnansweredRequests;
use crate::admission::Admission;
use crate::fair_queue::{Caller, Place};
use crate::front::request_body::Reservation;
use crate::message::split_batch;
use crate::session::{ForwardedRequests, Session};
use crate::stream_limits::OpenStream;
use crate::task_owners::TaskOwners;
use crate::tasks::{GuardInput, run_blocking};
use crate::upstream::Failure;
use crate::upstream::http_upstream::{HttpUpstream, next_chunk};
use context_guard_protocol::answer::trim_padding;
use context_guard_protocol::sse::{Event, Framer};

/// The size, in bytes, above which the beginning of a stream is sent although it has no message.
/// Otherwise a stream of comments without end would fill the memory.
const MAX_START_BYTES: usize = 64 << 10;

/// The requests of a POST that an event stream answers.
pub(super) struct PostedRequests {
    pub(super) unanswered: UnansweredRequests,
    pub(super) forwarded: ForwardedRequests,
    /// The guard's own answers to other requests of the same batch (raw JSON).
    pub(super) own: Option<Vec<u8>>,
    pub(super) admission: Admission,
    /// The permits of the requests at the upstream.
    pub(super) turn: Place,
}

/// The upstream's event stream, with its events shaped by the guard. When it ends, the client
/// receives error responses for unanswered requests, unless it can resume the stream.
pub(super) struct ResponseStream {
    upstream: Arc<HttpUpstream>,
    session: Arc<Session>,
    /// The sender of the requests, for whom the guard shapes the events.
    caller: Caller,
    /// The caller for whom failures of the upstream count.
    owner: Arc<str>,
    tasks: Arc<TaskOwners>,
    /// The body of the upstream's response. `None` after its end.
    incoming: Option<Incoming>,
    framer: Framer,
    /// The count of a stream that may be silent for any time. `None` for a stream that answers
    /// requests.
    long_lived: Option<OpenStream>,
    /// The time at which the stream is ended. Ignored for long-lived streams.
    deadline: Instant,
    unanswered: UnansweredRequests,
    /// Removes requests from the session when the stream ends. `None` for a GET.
    _forwarded: Option<ForwardedRequests>,
    /// The memory that is reserved for the body of the requests. `None` for a GET.
    _memory: Option<Arc<Reservation>>,
    /// The permits of the requests at the gateway and at the upstream, until all are answered.
    /// `None` for a stream that waits for events.
    places: Option<(Admission, Place)>,
    /// Encoded events that are ready to be sent to the client.
    ready: VecDeque<Vec<u8>>,
}

/// The next event, and the rest of the stream. The event is `None` at the end of the stream.
pub(super) type NextEvent = (Option<Vec<u8>>, ResponseStream);

/// The state of the body of an event stream.
pub(super) enum StreamState {
    /// The first event is awaited.
    First(BoxFuture<'static, NextEvent>),
    /// The first event has arrived.
    Ready(Option<Vec<u8>>, ResponseStream),
    /// The next event must be read.
    Next(ResponseStream),
}

impl StreamState {
    /// Waits for the first event with a message. Includes the events without a message before it,
    /// because servers begin a stream with an empty event (MCP 2025-11-25, SEP-1699). Returns
    /// without a message if these exceed [`MAX_START_BYTES`].
    pub(super) fn first_message(self) -> BoxFuture<'static, NextEvent> {
        Box::pin(async move {
            let (mut state, mut start) = (self, Vec::new());
            loop {
                let (event, stream) = state.next().await;
                let Some(event) = event.map(Event) else {
                    return ((!start.is_empty()).then_some(start), stream);
                };
                let has_message = event.data().is_some_and(|data| !data.is_empty());
                start.extend_from_slice(&event.0);
                if has_message || start.len() > MAX_START_BYTES {
                    return (Some(start), stream);
                }
                state = Self::Next(stream);
            }
        })
    }

    /// Waits for the next event.
    pub(super) fn next(self) -> BoxFuture<'static, NextEvent> {
        Box::pin(async move {
            match self {
                Self::First(first) => first.await,
                Self::Ready(event, stream) => (event, stream),
                Self::Next(mut stream) => {
                    let event = stream.next().await;
                    (event, stream)
                }
            }
        })
    }
}

impl ResponseStream {
    pub(super) fn new(
        upstream: Arc<HttpUpstream>,
        session: Arc<Session>,
        tasks: Arc<TaskOwners>,
        incoming: Incoming,
        long_lived: Option<OpenStream>,
        post: Option<PostedRequests>,
    ) -> Self {
        let admission = post.as_ref().map(|post| &post.admission);
        let own = || Caller { principal: session.owner().into(), session: "".into() };
        let caller = admission.map_or_else(own, |admission| admission.caller.clone());
        let owner = admission.map_or_else(|| session.owner().into(), |own| Arc::clone(&own.owner));
        let memory = admission.and_then(|admission| admission.memory.clone());
        let (unanswered, forwarded, own, places) = match post {
            Some(post) => {
                let places = (post.admission, post.turn);
                (post.unanswered, Some(post.forwarded), post.own, Some(places))
            }
            None => (UnansweredRequests::default(), None, None, None),
        };
        let own = own.as_deref().map(split_batch).unwrap_or_default();
        Self {
            deadline: Instant::now() + upstream.call_limit(),
            upstream,
            session,
            caller,
            owner,
            tasks,
            incoming: Some(incoming),
            framer: Framer::default(),
            places: places.filter(|_| long_lived.is_none()),
            long_lived,
            unanswered,
            _forwarded: forwarded,
            _memory: memory,
            ready: own.into_iter().map(|message| Event::message(None, message).0).collect(),
        }
    }

    /// Returns the next encoded event for the client, or `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            if let Some(event) = self.framer.next_event() {
                return Some(self.shape(event).await);
            }
            // Checked after all complete events were taken: the limit is for one event.
            if self.framer.pending_bytes() > self.upstream.max_bytes() {
                self.end(&self.upstream.too_large());
                continue;
            }
            let incoming = self.incoming.as_mut()?;
            let read = if self.long_lived.is_some() {
                next_chunk(incoming).await.map_err(|reason| {
                    Failure::Unavailable(format!("The upstream broke off in its answer: {reason}."))
                })
            } else {
                let next = self.upstream.next_chunk_in_time(incoming, &self.owner);
                let read = tokio::time::timeout_at(self.deadline, next).await;
                read.unwrap_or_else(|_| Err(self.upstream.call_too_long()))
            };
            match read {
                Ok(Some(chunk)) => self.framer.push(&chunk),
                Ok(None) => {
                    self.incoming = None;
                    if let Some(event) = self.framer.finish() {
                        let event = self.shape(event).await;
                        self.ready.push_back(event);
                    }
                    // A server that gives events an id may end a stream on purpose, so that the
                    // client polls for the answer (MCP 2025-11-25, SEP-1699).
                    if !self.unanswered.is_empty() && !self.session.is_resumable() {
                        self.end(&Failure::stream_ended(&self.upstream.name));
                    }
                }
                Err(failure) => self.end(&failure),
            }
        }
    }

    /// Ends the stream with an error response for each request that the upstream has not answered.
    fn end(&mut self, failure: &Failure) {
        self.incoming = None;
        self.places = None;
        self.framer.finish();
        for answer in self.unanswered.fail(&self.session, failure) {
            self.ready.push_back(Event::message(None, &answer).0);
        }
    }

    async fn shape(&mut self, event: Event) -> Vec<u8> {
        if event.id().is_some() {
            self.session.set_resumable();
        }
        let Some(data) = event.data() else { return event.0 };
        let ids = self.unanswered.ids();
        for message in split_batch(trim_padding(&data)) {
            self.unanswered.remove_answered(message);
            self.tasks.learn(self.session.owner(), message, 0);
        }
        if self.unanswered.is_empty() {
            self.places = None;
        }
        let session = &self.session;
        let shaped =
            run_blocking(session.filter(), &self.caller, GuardInput::Response(&data), || {
                let messages = session.pass_from_upstream(&data, Some(&ids));
                let is_unchanged = matches!(messages.as_slice(), [Cow::Borrowed(_)]);
                (!is_unchanged)
                    .then(|| messages.into_iter().map(Cow::into_owned).collect::<Vec<_>>())
            })
            .await;
        let Some(mut messages) = shaped else { return event.0 };
        // The id of the event belongs to the last message, after which a client resumes.
        let last = messages.pop().unwrap_or_default();
        let mut encoded: Vec<u8> =
            messages.iter().flat_map(|message| Event::message(None, message).0).collect();
        encoded.extend(event.with_data(&last).0);
        encoded
    }
}
