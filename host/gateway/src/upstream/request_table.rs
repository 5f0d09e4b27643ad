//! The requests in flight on one upstream connection. The gateway replaces their ids and progress
//! tokens by its own, so that clients that share the connection do not collide.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use context_guard_protocol::RequestId;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::Failure;
use crate::message::{Head, Kind, SUBSCRIPTION_KEY, member, splice, with_id};

/// The maximum number of requests in flight on one connection.
const MAX_PENDING: usize = 4_096;

/// A message of the upstream that belongs to a client's request, or the failure of that request.
#[derive(Debug)]
pub(crate) enum UpstreamReply {
    /// A notification, or a request to the client, that precedes the answer.
    Related(Vec<u8>),
    /// The answer, under the client's request id. No message follows it.
    Answer(Vec<u8>),
    /// The reason why there is no answer. No message follows it.
    Failed(Failure),
}

#[derive(Debug)]
struct PendingRequest {
    replies: mpsc::UnboundedSender<UpstreamReply>,
    /// The client's id of the request, as raw JSON.
    id: String,
    /// The client's progress token, as raw JSON. `None` if the client wants no progress.
    token: Option<String>,
}

#[derive(Debug, Default)]
struct TableState {
    last_id: u64,
    /// The requests in flight by the gateway's id, in the order in which they were sent.
    pending: BTreeMap<u64, PendingRequest>,
    /// The reason for the end of the connection. `None` while it is open.
    ended: Option<Failure>,
}

/// The requests in flight on one upstream connection.
#[derive(Debug, Default)]
pub(crate) struct RequestTable(Mutex<TableState>);

/// A request that was added to the table and can be sent to the upstream.
#[derive(Debug)]
pub(crate) struct StartedRequest {
    /// The request id that the gateway assigned, unique on the connection.
    pub(crate) id: u64,
    /// The request to send, with the gateway's id and progress token.
    pub(crate) message: Vec<u8>,
    pub(crate) replies: mpsc::UnboundedReceiver<UpstreamReply>,
}

impl RequestTable {
    fn state(&self) -> MutexGuard<'_, TableState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a client's request to the table. Its id and progress token are replaced by those of the
    /// gateway.
    ///
    /// # Errors
    /// The reason for the end of the connection, if it has ended.
    pub(crate) fn begin(&self, message: &[u8]) -> Result<StartedRequest, Failure> {
        let mut state = self.state();
        if let Some(ended) = &state.ended {
            return Err(ended.clone());
        }
        if state.pending.len() >= MAX_PENDING {
            return Err(Failure::Unavailable(format!(
                "{MAX_PENDING} requests to the upstream wait for an answer already. Try again later."
            )));
        }
        state.last_id += 1;
        let id = state.last_id;
        let head = Head::read(message);
        let client_id = head.as_ref().map_or("null", Head::raw_id).to_owned();
        let mut token = None;
        let mut message = with_id(message, &id.to_string());
        if let Some(client_token) = Head::read(&message).as_ref().and_then(progress_token) {
            token = Some(client_token.get().to_owned());
            message = splice(&message, client_token.get(), &id.to_string());
        }
        let (sender, replies) = mpsc::unbounded_channel();
        state.pending.insert(id, PendingRequest { replies: sender, id: client_id, token });
        Ok(StartedRequest { id, message, replies })
    }

    /// Removes the request with the gateway's id `id`. Returns true if it was still in flight.
    pub(crate) fn forget(&self, id: u64) -> bool {
        self.state().pending.remove(&id).is_some()
    }

    /// Returns true if the request with the gateway's id `id` is in flight.
    pub(crate) fn is_in_flight(&self, id: u64) -> bool {
        self.state().pending.contains_key(&id)
    }

    /// Delivers an upstream's message to the request that it belongs to. `request` is the gateway's
    /// id of the request on whose stream it arrived, if the transport knows. Returns the message if
    /// it belongs to no request.
    pub(crate) fn deliver(&self, message: Vec<u8>, request: Option<u64>) -> Option<Vec<u8>> {
        let Some(head) = Head::read(&message) else { return Some(message) };
        let mut state = self.state();
        match head.kind() {
            Some(Kind::Response) => {
                // A response to an unknown id, or a second one, is dropped.
                let id = head.request_id()?.as_u64()?;
                let pending = state.pending.remove(&id)?;
                let answer = with_id(&message, &pending.id);
                let _ = pending.replies.send(UpstreamReply::Answer(answer));
                None
            }
            Some(Kind::Notification | Kind::Request) => {
                if head.method() == "notifications/progress" {
                    let token = head.parameters().progress_token?;
                    let id = RequestId::parse(token.get())?.as_u64()?;
                    let pending = state.pending.get(&id)?;
                    let restored = splice(&message, token.get(), pending.token.as_deref()?);
                    let _ = pending.replies.send(UpstreamReply::Related(restored));
                    return None;
                }
                match state.owner(&head, request) {
                    Some(pending) => {
                        let _ = pending.replies.send(UpstreamReply::Related(message));
                        None
                    }
                    None => Some(message),
                }
            }
            None => None,
        }
    }

    /// Removes the request with the gateway's id `id`, and reports the failure to it.
    pub(crate) fn fail(&self, id: u64, failure: Failure) {
        if let Some(pending) = self.state().pending.remove(&id) {
            let _ = pending.replies.send(UpstreamReply::Failed(failure));
        }
    }

    /// Removes the latest request and reports the failure to it.
    pub(crate) fn fail_last(&self, failure: Failure) {
        if let Some((_, pending)) = self.state().pending.pop_last() {
            let _ = pending.replies.send(UpstreamReply::Failed(failure));
        }
    }

    /// Marks the connection as ended for later requests. Those in flight may still be answered.
    pub(crate) fn close(&self, failure: &Failure) {
        self.state().ended.get_or_insert_with(|| failure.clone());
    }

    /// Marks the connection as ended. All requests fail, as do later ones.
    pub(crate) fn end(&self, failure: &Failure) {
        let mut state = self.state();
        state.ended = Some(failure.clone());
        for (_, pending) in std::mem::take(&mut state.pending) {
            let _ = pending.replies.send(UpstreamReply::Failed(failure.clone()));
        }
    }

    /// Returns true if the connection has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.state().ended.is_some()
    }
}

impl TableState {
    /// Returns the request to which a notification or a request of the upstream belongs. `request`
    /// is the gateway's id of the one on whose stream it arrived, if the transport knows.
    fn owner(&self, head: &Head<'_>, request: Option<u64>) -> Option<&PendingRequest> {
        // Notifications of a subscription carry its id, wherever they arrive.
        let subscription = head.parameters().meta(SUBSCRIPTION_KEY);
        let subscription = subscription.as_ref().and_then(serde_json::Value::as_u64);
        if let Some(pending) = subscription.and_then(|id| self.pending.get(&id)) {
            return Some(pending);
        }
        // These concern every client of the connection, even if they arrive during a request.
        let is_shared = head.method().ends_with("list_changed")
            || head.method() == "notifications/resources/updated";
        if is_shared {
            return None;
        }
        // A stdio message does not name its request. The latest request is the best guess.
        let id = request.or_else(|| self.pending.last_key_value().map(|(id, _)| *id))?;
        self.pending.get(&id)
    }
}

fn progress_token<'a>(head: &Head<'a>) -> Option<&'a RawValue> {
    let meta = head.parameters().meta?;
    member(meta.get(), "progressToken")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(reply: Option<UpstreamReply>) -> String {
        match reply {
            Some(UpstreamReply::Answer(message) | UpstreamReply::Related(message)) => {
                String::from_utf8(message).unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn equal_client_ids_and_tokens_do_not_collide() {
        let requests = RequestTable::default();
        let message = |_| {
            br#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"_meta":{"progressToken":7}}}"#.to_vec()
        };
        let (mut one, mut two) =
            (requests.begin(&message(1)).unwrap(), requests.begin(&message(2)).unwrap());
        assert_eq!(
            String::from_utf8(two.message.clone()).unwrap(),
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"_meta":{"progressToken":2}}}"#
        );
        let progress =
            br#"{"method":"notifications/progress","params":{"progressToken":1.0,"progress":5}}"#;
        assert_eq!(requests.deliver(progress.to_vec(), None), None);
        assert_eq!(requests.deliver(br#"{"id":2.0,"result":{"n":2}}"#.to_vec(), None), None);
        assert_eq!(requests.deliver(br#"{"id":2,"result":{"n":3}}"#.to_vec(), None), None);
        assert_eq!(requests.deliver(br#"{"id":"x","result":{}}"#.to_vec(), None), None);
        assert_eq!(
            text(one.replies.try_recv().ok()),
            r#"{"method":"notifications/progress","params":{"progressToken":7,"progress":5}}"#
        );
        assert_eq!(text(two.replies.try_recv().ok()), r#"{"id":"a","result":{"n":2}}"#);
        assert!(two.replies.try_recv().is_err());
        let changed = br#"{"method":"notifications/tools/list_changed"}"#.to_vec();
        assert_eq!(requests.deliver(changed.clone(), None), Some(changed));
        requests.close(&Failure::SessionEnded("gone".into()));
        assert!(requests.begin(&message(3)).is_err() && one.replies.try_recv().is_err());
        requests.end(&Failure::Unavailable("gone".into()));
        assert!(matches!(one.replies.try_recv(), Ok(UpstreamReply::Failed(_))));
        assert!(requests.begin(&message(3)).is_err());
    }

    #[test]
    fn requests_in_flight_are_limited() {
        let requests = RequestTable::default();
        let begin = || requests.begin(br#"{"id":1,"method":"tools/call"}"#);
        let mut pending: Vec<StartedRequest> = (0..MAX_PENDING).map(|_| begin().unwrap()).collect();
        assert!(begin().unwrap_err().to_string().contains("4096 requests"));
        assert!(requests.forget(pending.pop().unwrap().id));
        assert!(begin().is_ok());
    }
}
