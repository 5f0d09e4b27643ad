//! The client's requests in an HTTP exchange that the upstream has not answered yet.

use bytes::Bytes;
use context_guard_protocol::answer::{find_id, resembles_answer};
use context_guard_protocol::batch::split_batch;
use context_guard_protocol::{Head, Kind, PendingRequests, RequestId};

use crate::reply;
use crate::session::Session;
use crate::upstream::Failure;

/// Requests that the upstream has not answered yet: the complete messages, by request id.
#[derive(Default)]
pub(super) struct UnansweredRequests {
    requests: PendingRequests<Bytes>,
    has_subscription: bool,
}

impl UnansweredRequests {
    pub(super) fn of_body(body: &Bytes) -> Self {
        let mut unanswered = Self::default();
        for message in split_batch(body) {
            if let Some(head) =
                Head::read(message).filter(|head| head.kind() == Some(Kind::Request))
                && let Some(id) = head.request_id()
            {
                unanswered.has_subscription |= head.method() == "subscriptions/listen";
                unanswered.requests.insert(id, body.slice_ref(message));
            }
        }
        unanswered
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns the ids of the requests.
    pub(super) fn ids(&self) -> Vec<RequestId> {
        self.requests.numbers().map(|(_, id)| id.clone()).collect()
    }

    /// Removes the requests that an upstream's message answers. Accepts all forms in which servers
    /// write ids. An answer without an id belongs to the only request.
    pub(super) fn remove_answered(&mut self, message: &[u8]) {
        let id = match Head::read(message) {
            Some(head) if head.kind() == Some(Kind::Response) => head.request_id(),
            Some(_) => return,
            None if resembles_answer(message) => find_id(message).and_then(RequestId::parse),
            None => return,
        };
        let only = || Some(self.ids()).filter(|ids| ids.len() == 1)?.pop();
        let found = match id {
            Some(id) => self.requests.find(&id),
            None => only(),
        };
        if let Some(id) = found {
            self.requests.remove(&id);
        }
    }

    /// Returns true if one of the requests is `subscriptions/listen`, whose response stream has no
    /// time limit.
    pub(super) fn has_subscription(&self) -> bool {
        self.has_subscription
    }

    /// Records in telemetry that the remaining requests failed. `bytes` is the size of the response
    /// to the client.
    pub(super) fn record_failures(mut self, session: &Session, bytes: usize) {
        for (_, request) in self.requests.drain() {
            session.fail(&request, bytes);
        }
    }

    /// Removes all requests and returns an error response for each. Also records the failures in
    /// telemetry.
    pub(super) fn fail(&mut self, session: &Session, failure: &Failure) -> Vec<Vec<u8>> {
        let fail = |(_, request): (RequestId, Bytes)| {
            let answer = reply::failure(&request, failure.code(), &failure.to_string());
            session.fail(&request, answer.len());
            answer
        };
        self.requests.drain().into_iter().map(fail).collect()
    }
}
