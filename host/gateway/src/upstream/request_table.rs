//! Requests in flight on one connection to an upstream: under ids and progress tokens of the gateway's own, so that clients who share the connection never meet.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::Failure;
use crate::message::{Head, Kind, SUBSCRIPTION_KEY, member, splice, with_id};

/// What comes back on a request.
#[derive(Debug)]
pub(crate) enum UpstreamReply {
    /// A notification or request of the server that belongs to it.
    Related(Vec<u8>),
    /// Its answer, under the client's id. Nothing comes after it.
    Answer(Vec<u8>),
    /// There will be no answer.
    Failed(Failure),
}

#[derive(Debug)]
struct Pending {
    replies: mpsc::UnboundedSender<UpstreamReply>,
    /// The client's id as it is spelt.
    id: String,
    /// The client's progress token as it is spelt.
    token: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    /// By the gateway's id. The last is the one that began last.
    pending: BTreeMap<u64, Pending>,
    /// Why no more can be sent.
    ended: Option<Failure>,
}

/// The requests of a connection.
#[derive(Debug, Default)]
pub(crate) struct RequestTable(Mutex<State>);

/// A request that was started.
#[derive(Debug)]
pub(crate) struct StartedRequest {
    /// The gateway's id.
    pub(crate) id: u64,
    /// The message to send.
    pub(crate) message: Vec<u8>,
    pub(crate) replies: mpsc::UnboundedReceiver<UpstreamReply>,
}

impl RequestTable {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a request.
    ///
    /// # Errors
    /// Where the connection has ended.
    pub(crate) fn begin(&self, message: &[u8]) -> Result<StartedRequest, Failure> {
        let mut state = self.state();
        if let Some(ended) = &state.ended {
            return Err(ended.clone());
        }
        state.last += 1;
        let id = state.last;
        let head = Head::read(message);
        let old = head.as_ref().map_or("null", Head::raw_id).to_owned();
        let token = head.and_then(|head| progress_token(&head));
        let mut message = with_id(message, &id.to_string());
        if token.is_some()
            && let Some(head) = Head::read(&message)
            && let Some(token) = progress_token_span(&head)
        {
            message = splice(&message, token.get(), &id.to_string());
        }
        let (sender, replies) = mpsc::unbounded_channel();
        state.pending.insert(id, Pending { replies: sender, id: old, token });
        Ok(StartedRequest { id, message, replies })
    }

    /// A request is of no interest any more. Whether it was still in flight.
    pub(crate) fn forget(&self, id: u64) -> bool {
        self.state().pending.remove(&id).is_some()
    }

    /// Whether the request under this id of the gateway still waits.
    pub(crate) fn is_in_flight(&self, id: u64) -> bool {
        self.state().pending.contains_key(&id)
    }

    /// A message came. `of`: the request on whose stream it came, where the transport knows. What belongs to no request is given back.
    pub(crate) fn arrived(&self, message: Vec<u8>, of: Option<u64>) -> Option<Vec<u8>> {
        let Some(head) = Head::read(&message) else { return Some(message) };
        let mut state = self.state();
        match head.kind() {
            Some(Kind::Response) => {
                let id = head.raw_id().parse::<u64>().ok()?;
                // An answer that nobody waits for, or a second one, is nobody's.
                let pending = state.pending.remove(&id)?;
                let _ = pending.replies.send(UpstreamReply::Answer(with_id(&message, &pending.id)));
                None
            }
            Some(Kind::Notification | Kind::Request) => {
                let progress = head.method() == "notifications/progress";
                let token = head.parameters().progress_token.filter(|_| progress);
                let by_token = token.and_then(|token| token.get().parse::<u64>().ok());
                if progress {
                    let pending = state.pending.get(&by_token?)?;
                    let restored = splice(&message, token?.get(), pending.token.as_deref()?);
                    let _ = pending.replies.send(UpstreamReply::Related(restored));
                    return None;
                }
                // What belongs to a subscription says so.
                let subscription = head.parameters().meta(SUBSCRIPTION_KEY);
                let subscription = subscription.as_ref().and_then(serde_json::Value::as_u64);
                if let Some(pending) = subscription.and_then(|id| state.pending.get(&id)) {
                    let _ = pending.replies.send(UpstreamReply::Related(message));
                    return None;
                }
                // Where the transport does not tell, what is said while requests are in flight is taken to be about the one that began last.
                let of = of.or_else(|| state.pending.last_key_value().map(|(id, _)| *id));
                let shared = head.method().ends_with("list_changed")
                    || head.method() == "notifications/resources/updated";
                match of.filter(|_| !shared).and_then(|of| state.pending.get(&of)) {
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

    /// A request will not be answered.
    pub(crate) fn fail(&self, id: u64, failure: Failure) {
        if let Some(pending) = self.state().pending.remove(&id) {
            let _ = pending.replies.send(UpstreamReply::Failed(failure));
        }
    }

    /// The request that began last will not be answered.
    pub(crate) fn fail_last(&self, failure: Failure) {
        if let Some((_, pending)) = self.state().pending.pop_last() {
            let _ = pending.replies.send(UpstreamReply::Failed(failure));
        }
    }

    /// No request will be answered, and none can be started.
    pub(crate) fn end(&self, failure: &Failure) {
        let mut state = self.state();
        state.ended = Some(failure.clone());
        for (_, pending) in std::mem::take(&mut state.pending) {
            let _ = pending.replies.send(UpstreamReply::Failed(failure.clone()));
        }
    }

    /// Whether the connection has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.state().ended.is_some()
    }
}

fn progress_token(head: &Head<'_>) -> Option<String> {
    progress_token_span(head).map(|token| token.get().to_owned())
}

fn progress_token_span<'a>(head: &Head<'a>) -> Option<&'a RawValue> {
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
    fn clients_with_the_same_ids_and_tokens_get_what_is_theirs() {
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
            br#"{"method":"notifications/progress","params":{"progressToken":1,"progress":5}}"#;
        assert_eq!(requests.arrived(progress.to_vec(), None), None);
        assert_eq!(requests.arrived(br#"{"id":2,"result":{"n":2}}"#.to_vec(), None), None);
        assert_eq!(requests.arrived(br#"{"id":2,"result":{"n":3}}"#.to_vec(), None), None);
        assert_eq!(requests.arrived(br#"{"id":"x","result":{}}"#.to_vec(), None), None);
        assert_eq!(
            text(one.replies.try_recv().ok()),
            r#"{"method":"notifications/progress","params":{"progressToken":7,"progress":5}}"#
        );
        assert_eq!(text(two.replies.try_recv().ok()), r#"{"id":"a","result":{"n":2}}"#);
        assert!(two.replies.try_recv().is_err());
        let changed = br#"{"method":"notifications/tools/list_changed"}"#.to_vec();
        assert_eq!(requests.arrived(changed.clone(), None), Some(changed));
        requests.end(&Failure::Unavailable("gone".into()));
        assert!(matches!(one.replies.try_recv(), Ok(UpstreamReply::Failed(_))));
        assert!(requests.begin(&message(3)).is_err());
    }
}
