//! The body of an API's response that is passed to the client unchanged.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::admission::Admission;
use crate::engine::Decision;
use crate::exchange::Exchange;
use crate::fair_queue::Place;
use crate::stream_limits::OpenStream;
use crate::telemetry::{Outcome, Recorder};
use crate::upstream::Failure;
use crate::upstream::http_upstream::{HttpUpstream, root_cause};

/// A request that was admitted. It is recorded when this value is dropped, even if the client
/// disconnects early.
pub(super) struct PendingRecord {
    pub(super) exchange: Exchange,
    recorder: Arc<Recorder>,
    /// The permits of the request at the gateway and at the upstream while its response passes.
    /// `None` for an event stream, whose duration is unlimited.
    places: Option<(Admission, Place)>,
    decision: Option<Box<Decision>>,
    bytes: usize,
    outcome: Outcome,
}

impl PendingRecord {
    pub(super) fn new(exchange: Exchange, recorder: &Arc<Recorder>) -> Self {
        Self {
            exchange,
            recorder: Arc::clone(recorder),
            places: None,
            decision: None,
            bytes: 0,
            // A client that is gone before the answer has got none.
            outcome: Outcome::UpstreamError,
        }
    }

    /// Records the answer, of `bytes` bytes. `decision` is `None` if the guard did not shape it.
    pub(super) fn finish(
        mut self,
        decision: Option<Box<Decision>>,
        bytes: usize,
        outcome: Outcome,
    ) {
        (self.decision, self.bytes, self.outcome) = (decision, bytes, outcome);
    }

    /// Makes the request hold its permits until it is recorded.
    pub(super) fn occupying(mut self, admission: Admission, turn: Place) -> Self {
        self.places = Some((admission, turn));
        self
    }
}

impl Drop for PendingRecord {
    fn drop(&mut self) {
        let decision = self.decision.as_deref();
        self.exchange.record(&self.recorder, decision, self.bytes, self.outcome);
    }
}

/// A response body on its way to the client. The request holds its permits, and the time limits of
/// the upstream apply, until the body ends or the client disconnects. Neither applies to long-lived
/// streams.
pub(super) struct PassedBody {
    incoming: Incoming,
    upstream: Arc<HttpUpstream>,
    /// The caller for whom failures of the upstream count.
    owner: Arc<str>,
    /// Completes when the time limit of the call has passed.
    deadline: Pin<Box<Sleep>>,
    /// Completes when the time limit for the next part has passed. `None` while the client receives
    /// a part, whose time does not count.
    silence: Option<Pin<Box<Sleep>>>,
    /// The count of a long-lived event stream, which may be silent for any time. `None` for other
    /// bodies.
    long_lived: Option<OpenStream>,
    /// The record of the request. `None` after the end of the body.
    request: Option<PendingRecord>,
}

impl PassedBody {
    /// Returns the body of the response to a request of the caller `owner` as a body for the
    /// client.
    pub(super) fn start(
        incoming: Incoming,
        upstream: &Arc<HttpUpstream>,
        owner: &Arc<str>,
        long_lived: Option<OpenStream>,
        mut request: PendingRecord,
    ) -> Body {
        request.outcome = Outcome::Passed;
        if long_lived.is_some() {
            request.places = None;
        }
        if incoming.is_end_stream() {
            return Body::empty();
        }
        Body::new(Self {
            incoming,
            deadline: Box::pin(sleep(upstream.call_limit())),
            upstream: Arc::clone(upstream),
            owner: Arc::clone(owner),
            silence: None,
            long_lived,
            request: Some(request),
        })
    }

    /// Returns the failure of the upstream, if one of the upstream's time limits has passed.
    fn timed_out(&mut self, cx: &mut Context<'_>) -> Option<Failure> {
        if self.long_lived.is_some() {
            return None;
        }
        if self.deadline.as_mut().poll(cx).is_ready() {
            // The upstream answers other calls in time, so the circuit breaker does not count this.
            return Some(self.upstream.call_too_long());
        }
        let limit = self.upstream.timeout();
        let silence = self.silence.get_or_insert_with(|| Box::pin(sleep(limit)));
        let is_silent = silence.as_mut().poll(cx).is_ready();
        is_silent.then(|| self.counted(self.upstream.went_silent()))
    }

    /// Counts a failure of the upstream in its circuit breaker, and returns the failure.
    fn counted(&self, failure: Failure) -> Failure {
        self.upstream.count_failure(&failure, Some(&self.owner));
        failure
    }

    fn end(&mut self, outcome: Outcome) {
        if let Some(mut request) = self.request.take() {
            request.outcome = outcome;
        }
    }
}

impl HttpBody for PassedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.request.is_none() {
            return Poll::Ready(None);
        }
        let failure = match Pin::new(&mut self.incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.silence = None;
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                if let Some(request) = &mut self.request {
                    request.bytes += bytes;
                }
                return Poll::Ready(Some(Ok(frame)));
            }
            Poll::Ready(None) => {
                self.end(Outcome::Passed);
                return Poll::Ready(None);
            }
            Poll::Ready(Some(Err(error))) => {
                self.counted(self.upstream.broke_off(&root_cause(&error)))
            }
            Poll::Pending => match self.timed_out(cx) {
                Some(failure) => failure,
                None => return Poll::Pending,
            },
        };
        self.end(Outcome::UpstreamError);
        Poll::Ready(Some(Err(axum::Error::new(failure))))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::access::http_client;
    use crate::config::Upstream;
    use crate::engine::CallContext;
    use crate::fair_queue::{Caller, FairQueue, Shares};
    use crate::headers::ForwardedCredentials;
    use crate::store::clock::SystemClock;
    use crate::telemetry::RecordQuery;
    use crate::upstream::client::UpstreamClient;

    /// A GET of an API, whose response the test sends in parts.
    struct PassedBodySetup {
        recorder: Arc<Recorder>,
        places: Arc<FairQueue>,
        caller: Caller,
        body: Body,
        server: TcpStream,
    }

    impl PassedBodySetup {
        async fn start() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let recorder = Arc::new(Recorder::new(10, None, Arc::new(SystemClock)));
            let client = UpstreamClient::Shared(Box::new(http_client()));
            let (config, credentials) = (Upstream::default(), ForwardedCredentials::None);
            let (max, metrics) = (1_000, Arc::clone(&recorder));
            let upstream =
                HttpUpstream::new(&config, &url, credentials, None, max, client, metrics).unwrap();
            let upstream = Arc::new(upstream);
            let one = Shares { total: 1, per_principal: 1, per_session: 1 };
            let places = FairQueue::new(one, Shares { total: 0, ..one });
            let mut admission = Admission::of_principal("alice");
            let caller = admission.caller.clone();
            let place = places.enter(&caller, 1).await.unwrap();
            admission._place = Some(Arc::new(place));
            let turn = upstream.turns.take(&caller, 1).await.unwrap();
            let exchange = Exchange::new(CallContext::default(), "GET /file", None);
            let headers = http::HeaderMap::new();
            let (method, alice) = (http::Method::GET, ("alice", "alice"));
            let sending = upstream.send(method, Some("/file"), alice, &headers, Bytes::new());
            let answering = async {
                let mut server = listener.accept().await.unwrap().0;
                assert!(server.read(&mut [0; 1_000]).await.unwrap() > 0);
                let head = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345";
                server.write_all(head.as_bytes()).await.unwrap();
                server
            };
            let (response, server) = tokio::join!(sending, answering);
            let request = PendingRecord::new(exchange, &recorder).occupying(admission, turn);
            let (incoming, owner) = (response.unwrap().into_body(), "alice".into());
            let body = PassedBody::start(incoming, &upstream, &owner, None, request);
            Self { recorder, places, caller, body, server }
        }

        fn is_place_free(&self) -> bool {
            self.places.has_room(&self.caller, false)
        }

        fn records(&self) -> Vec<(u64, Outcome)> {
            let records = self.recorder.query(&RecordQuery::default());
            records.iter().map(|record| (record.response_bytes, record.outcome)).collect()
        }
    }

    #[tokio::test]
    async fn places_are_occupied_until_the_body_ends() {
        let mut setup = PassedBodySetup::start().await;
        let first = setup.body.frame().await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), "12345");
        assert!(!setup.is_place_free() && setup.records().is_empty());
        setup.server.write_all(b"67890").await.unwrap();
        let rest = std::mem::take(&mut setup.body).collect().await.unwrap().to_bytes();
        assert_eq!(rest, "67890");
        assert!(setup.is_place_free());
        assert_eq!(setup.records(), [(10, Outcome::Passed)]);
    }

    #[test]
    fn request_without_answer_is_no_success() {
        let recorder = Arc::new(Recorder::new(10, None, Arc::new(SystemClock)));
        let exchange = Exchange::new(CallContext::default(), "GET /file", None);
        drop(PendingRecord::new(exchange, &recorder));
        let records = recorder.query(&RecordQuery::default());
        assert_eq!(Vec::from_iter(records.iter().map(|one| one.outcome)), [Outcome::UpstreamError]);
    }

    #[tokio::test]
    async fn broken_and_abandoned_bodies_free_their_places() {
        let mut broken = PassedBodySetup::start().await;
        broken.server.shutdown().await.unwrap();
        assert!(std::mem::take(&mut broken.body).collect().await.is_err());
        assert!(broken.is_place_free());
        assert_eq!(broken.records(), [(5, Outcome::UpstreamError)]);
        let mut abandoned = PassedBodySetup::start().await;
        abandoned.body.frame().await.unwrap().unwrap();
        abandoned.body = Body::empty();
        assert!(abandoned.is_place_free());
        assert_eq!(abandoned.records(), [(5, Outcome::Passed)]);
    }
}
