//! The requests of an HTTP exchange that the upstream has not answered yet.

use bytes::Bytes;

use crate::message::{Head, Kind, split_batch};
use crate::session::Session;
use crate::upstream::Failure;
use crate::wire::reply;

/// Requests, whole.
#[derive(Default)]
pub(super) struct UnansweredRequests(Vec<Bytes>);

impl UnansweredRequests {
    pub(super) fn of_body(body: &Bytes) -> Self {
        let requests = split_batch(body).into_iter().filter(|message| {
            Head::read(message).and_then(|head| head.kind()) == Some(Kind::Request)
        });
        Self(requests.map(|request| body.slice_ref(request)).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if a request opens a stream of changes.
    pub(super) fn has_subscription(&self) -> bool {
        self.0.iter().any(|request| {
            Head::read(request).is_some_and(|head| head.method() == "subscriptions/listen")
        })
    }

    /// Removes the request that a response answers.
    pub(super) fn remove(&mut self, response: &Head<'_>) {
        let Some(id) = response.request_id() else { return };
        self.0.retain(|request| {
            Head::read(request).and_then(|head| head.request_id()).is_none_or(|own| own != id)
        });
    }

    /// Records that the requests without a response have failed.
    pub(super) fn record_failures(&self, session: &Session, bytes: usize) {
        for request in &self.0 {
            session.fail(request, bytes);
        }
    }

    /// Returns an error for each request, and records it.
    pub(super) fn fail(&self, session: &Session, failure: &Failure) -> Vec<Vec<u8>> {
        let fail = |request: &Bytes| {
            let answer = reply::failure(request, failure.code(), &failure.to_string());
            session.fail(request, answer.len());
            answer
        };
        self.0.iter().map(fail).collect()
    }
}
