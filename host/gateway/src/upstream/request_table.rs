//! The requests in flight on one upstream connection. The gateway replaces their ids and progress
//! tokens with its own, so that clients that share the connection do not collide.

mod lifetime;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::Failure;
use crate::byte_channel::{ByteReceiver, ByteSender, MAX_ATTEMPTS, byte_channel};
use crate::message::{Head, Kind, SUBSCRIPTION_KEY, member, splice, with_id};
use crate::unattributed::UnattributedAnswers;
use context_guard_protocol::RequestId;
use context_guard_protocol::answer::{AnswerCheck, check_answer, find_id, quote, resembles_answer};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

/// The maximum number of requests in flight on one connection.
const MAX_PENDING: usize = 4_096;
/// The maximum size of the messages in the queue for the client of one request, in bytes, without
/// the answer.
const MAX_WAITING_REPLY_BYTES: usize = 256 << 10;

/// The methods whose unreadable answers the guard presents as a text.
const SHAPED_METHODS: [&str; 3] = ["tools/call", "resources/read", "tasks/result"];

/// A message of the upstream that belongs to a client's request, or the failure of that request.
#[derive(Debug)]
pub(crate) enum UpstreamReply {
    /// A notification or a server-to-client request, which precedes the answer.
    Related(Vec<u8>),
    /// The answer, under the client's request id. No message follows it.
    Answer(Vec<u8>),
    /// The reason why there is no answer. No message follows it.
    Failed(Failure),
}

/// The result of the delivery of an upstream's message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// A request has received the message, or the message belongs to no request in flight.
    Done,
    /// The client reads too slowly for this message. The caller may deliver it later.
    Full(Vec<u8>),
    /// The message was dropped: the upstream has sent too many messages, the client did not read
    /// for too long, or it is progress of an unknown request.
    Dropped,
    /// The message belongs to no request.
    Unrelated(Vec<u8>),
    /// The message is an answer that names no pending request.
    Unattributed(Vec<u8>),
}

#[derive(Debug)]
struct PendingRequest {
    replies: ByteSender<UpstreamReply>,
    /// The number of messages that the upstream may still send before the answer.
    messages_left: usize,
    /// The number of consecutive attempts that failed because the client reads too slowly.
    refusals: usize,
    /// The client's id of the request, as raw JSON.
    id: String,
    /// The client's progress token, as raw JSON. `None` if the client wants no progress.
    token: Option<String>,
    method: String,
}

#[derive(Debug, Default)]
struct TableState {
    last_id: u64,
    /// The requests in flight by the gateway's id, in the order in which they were sent.
    pending: BTreeMap<u64, PendingRequest>,
    /// The time at which the last request began or ended. `None` before the first.
    used: Option<Instant>,
    /// The reason for the end of the connection. `None` while it is open.
    ended: Option<Failure>,
    unattributed: UnattributedAnswers,
}

/// The requests in flight on one upstream connection.
#[derive(Debug)]
pub(crate) struct RequestTable {
    /// The name of the upstream, for error texts.
    upstream: String,
    state: Mutex<TableState>,
    /// The maximum number of messages, such as notifications of progress, that the client receives
    /// before the answer to a request. Further ones are dropped. Subscriptions have no maximum.
    max_messages: usize,
    /// True if clients of several principals use the connection.
    is_shared: bool,
    /// A token that is cancelled when the connection ends.
    ended: CancellationToken,
}

/// A request that was added to the table and can be sent to the upstream.
#[derive(Debug)]
pub(crate) struct StartedRequest {
    /// The request id that the gateway assigned, unique on the connection.
    pub(crate) id: u64,
    /// The request to send, with the gateway's id and progress token.
    pub(crate) message: Vec<u8>,
    pub(crate) replies: ByteReceiver<UpstreamReply>,
}

impl RequestTable {
    /// Creates an empty table. A request receives at most `max_messages` messages before its
    /// answer. `is_shared` is true if clients of several principals use the connection to
    /// `upstream`.
    pub(crate) fn new(upstream: &str, max_messages: usize, is_shared: bool) -> Self {
        let (upstream, ended) = (upstream.to_owned(), CancellationToken::new());
        Self { upstream, state: Mutex::default(), max_messages, is_shared, ended }
    }

    /// Sets the id after which the ids of requests begin. Connections of several replicas to one
    /// session need different ids.
    pub(super) fn begin_after(&self, id: u64) {
        self.state().last_id = id;
    }

    fn state(&self) -> MutexGuard<'_, TableState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a client's request to the table. Its id and progress token are replaced with the
    /// gateway's own.
    ///
    /// # Errors
    /// The reason for the end of the connection, or [`Failure::Unavailable`] if the table is full.
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
        state.used = Some(Instant::now());
        let id = state.last_id;
        let head = Head::read(message);
        let client_id = head.as_ref().map_or("null", Head::raw_id).to_owned();
        let mut token = None;
        let mut started = with_id(message, &id.to_string());
        if let Some(client_token) = Head::read(&started).as_ref().and_then(progress_token) {
            token = Some(client_token.get().to_owned());
            started = splice(&started, client_token.get(), &id.to_string());
        }
        // A subscription has no answer while it lasts.
        let method = head.map(|head| head.method().to_owned()).unwrap_or_default();
        let is_subscription = method == "subscriptions/listen";
        let messages_left = if is_subscription { usize::MAX } else { self.max_messages };
        let (sender, replies) = byte_channel(MAX_WAITING_REPLY_BYTES);
        let pending = PendingRequest {
            replies: sender,
            messages_left,
            refusals: 0,
            id: client_id,
            token,
            method,
        };
        state.pending.insert(id, pending);
        Ok(StartedRequest { id, message: started, replies })
    }

    /// Removes the request with the gateway's id `id`. Returns true if it was still in flight.
    pub(crate) fn forget(&self, id: u64) -> bool {
        let mut state = self.state();
        state.used = Some(Instant::now());
        let was_in_flight = state.pending.remove(&id).is_some();
        if was_in_flight {
            state.unattributed.abandoned(id);
        }
        was_in_flight
    }

    /// Records that a message without an answer was sent on the connection.
    pub(crate) fn notified(&self) {
        let mut state = self.state();
        let next = state.last_id + 1;
        state.unattributed.notified(next);
    }

    /// Returns true if the request with the gateway's id `id` is in flight.
    pub(crate) fn is_in_flight(&self, id: u64) -> bool {
        self.state().pending.contains_key(&id)
    }

    /// Delivers an upstream's message to the request to which it belongs. `request` is the
    /// gateway's id of the request on whose stream the message arrived. `None` if the transport
    /// does not know it.
    pub(crate) fn deliver(&self, message: Vec<u8>, request: Option<u64>) -> Delivery {
        let mut state = self.state();
        let Some(head) = Head::read(&message) else {
            let id = find_id(&message).and_then(RequestId::parse);
            let found = id.as_ref().and_then(|id| state.find(id));
            return self.deliver_unreadable(&mut state, message, found.or(request));
        };
        match head.kind() {
            Some(Kind::Response) => {
                let id = head.request_id();
                let found = match &id {
                    Some(id) => state.find(id),
                    // An error that occurs before the upstream has read the request has no id.
                    None => request,
                };
                if let Some(pending) = found.and_then(|id| state.answer(id)) {
                    let answer = match check_answer(&message, &pending.id, &pending.method) {
                        AnswerCheck::Valid => UpstreamReply::Answer(message),
                        AnswerCheck::Repaired(answer) => UpstreamReply::Answer(answer),
                        AnswerCheck::Invalid(reason) => {
                            UpstreamReply::Failed(Failure::invalid_answer(&self.upstream, &reason))
                        }
                    };
                    pending.replies.send_needed(answer);
                    self.fail_by_exclusion(&mut state);
                    return Delivery::Done;
                }
                match id.map(|id| id.as_u64().is_some_and(|id| id <= state.last_id)) {
                    // A late answer, or a second one, is dropped.
                    Some(true) => Delivery::Done,
                    Some(false) => Delivery::Unattributed(message),
                    None => {
                        let error = head.error.map_or("", RawValue::get);
                        let reason = format!("has no id: {}", quote(error));
                        self.record_unattributed(&mut state, reason);
                        Delivery::Unattributed(message)
                    }
                }
            }
            Some(Kind::Notification | Kind::Request) => {
                if head.method() == "notifications/progress" {
                    // Progress of an unknown request is dropped.
                    let Some((pending, restored)) = state.restore_progress(&head, &message) else {
                        return Delivery::Dropped;
                    };
                    return pending.relate(restored, message);
                }
                match state.owner(&head, request, self.is_shared) {
                    Some(pending) => pending.relate(message.clone(), message),
                    None => Delivery::Unrelated(message),
                }
            }
            None => Delivery::Done,
        }
    }

    /// Fails the request with the gateway's id `request`, because its answer cannot be parsed. The
    /// failure quotes the answer. A message that does not resemble an answer belongs to no request.
    fn deliver_unreadable(
        &self,
        state: &mut TableState,
        message: Vec<u8>,
        request: Option<u64>,
    ) -> Delivery {
        if !resembles_answer(&message) {
            return Delivery::Unattributed(message);
        }
        let text = String::from_utf8_lossy(&message);
        let reason = format!("is not valid JSON: {}", quote(&text));
        let Some(pending) = request.and_then(|id| state.answer(id)) else {
            self.record_unattributed(state, reason);
            return Delivery::Unattributed(message);
        };
        // The guard stores and presents the answer of a tool.
        let reply = if SHAPED_METHODS.contains(&pending.method.as_str())
            && let Some(answer) = with_found_id(&message, &pending.id)
        {
            UpstreamReply::Answer(answer)
        } else {
            UpstreamReply::Failed(Failure::invalid_answer(&self.upstream, &reason))
        };
        pending.replies.send_needed(reply);
        self.fail_by_exclusion(state);
        Delivery::Done
    }

    /// Records an answer that names no request. Fails the requests to which it must belong.
    fn record_unattributed(&self, state: &mut TableState, reason: String) {
        let next = state.last_id + 1;
        state.unattributed.received(reason, next);
        self.fail_by_exclusion(state);
    }

    /// Fails the requests to which the answers without an id must belong. Those are the remaining
    /// requests, if all others were answered.
    fn fail_by_exclusion(&self, state: &mut TableState) {
        let TableState { pending, unattributed, .. } = state;
        let Some((requests, reasons)) = unattributed.resolve(pending.keys().copied()) else {
            return;
        };
        let failure = Failure::invalid_answer(&self.upstream, &reasons);
        for pending in requests.iter().filter_map(|id| pending.remove(id)) {
            pending.replies.send_needed(UpstreamReply::Failed(failure.clone()));
        }
    }

    /// Removes the request with the gateway's id `id`. Its client receives the failure.
    pub(crate) fn fail(&self, id: u64, failure: Failure) {
        if let Some(pending) = self.state().pending.remove(&id) {
            pending.replies.send_needed(UpstreamReply::Failed(failure));
        }
    }

    /// Removes the latest request. Its client receives the failure.
    pub(crate) fn fail_last(&self, failure: Failure) {
        if let Some((_, pending)) = self.state().pending.pop_last() {
            pending.replies.send_needed(UpstreamReply::Failed(failure));
        }
    }
}

impl PendingRequest {
    /// Sends a message that precedes the answer to the client of this request. `original` is the
    /// message as the upstream sent it.
    fn relate(&mut self, message: Vec<u8>, original: Vec<u8>) -> Delivery {
        let Some(left) = self.messages_left.checked_sub(1) else { return Delivery::Dropped };
        if !self.replies.try_send(message.len(), UpstreamReply::Related(message)) {
            // A slow client is waited for once, until it goes on.
            self.refusals += 1;
            let is_given_up = self.refusals > MAX_ATTEMPTS;
            return if is_given_up { Delivery::Dropped } else { Delivery::Full(original) };
        }
        (self.messages_left, self.refusals) = (left, 0);
        Delivery::Done
    }
}

impl TableState {
    /// Returns the gateway's id of the request in flight to which an answer with the id `id`
    /// belongs. `None` if there is none.
    fn find(&self, id: &RequestId) -> Option<u64> {
        let number = |id: &RequestId| id.as_u64().filter(|id| self.pending.contains_key(id));
        number(id).or_else(|| number(&id.other_form()?))
    }

    /// Removes and returns the request with the gateway's id `id`, because its answer has arrived.
    fn answer(&mut self, id: u64) -> Option<PendingRequest> {
        let pending = self.pending.remove(&id)?;
        self.unattributed.answered(id);
        Some(pending)
    }

    /// Returns the request with the token of a progress notification, and the notification with
    /// the client's token. `None` if there is no such request.
    fn restore_progress(
        &mut self,
        head: &Head<'_>,
        message: &[u8],
    ) -> Option<(&mut PendingRequest, Vec<u8>)> {
        let token = head.parameters().progress_token?;
        let id = RequestId::parse(token.get())?.as_u64()?;
        let pending = self.pending.get_mut(&id)?;
        let restored = splice(message, token.get(), pending.token.as_deref()?);
        Some((pending, restored))
    }

    /// Returns the request to which a notification or a request of the upstream belongs. `request`
    /// is the gateway's id of the request on whose stream the message arrived. `None` if the
    /// transport does not know it.
    ///
    /// Without that id and a subscription id, a notification on a shared connection (`is_shared`)
    /// belongs to no request.
    fn owner(
        &mut self,
        head: &Head<'_>,
        request: Option<u64>,
        is_shared: bool,
    ) -> Option<&mut PendingRequest> {
        // Notifications of a subscription carry its id, wherever they arrive.
        let subscription = head.parameters().meta(SUBSCRIPTION_KEY);
        let subscription = subscription.as_ref().and_then(serde_json::Value::as_u64);
        if let Some(id) = subscription.filter(|id| self.pending.contains_key(id)) {
            return self.pending.get_mut(&id);
        }
        // These concern every client of the connection, even if they arrive during a request.
        if concerns_all(head.method()) {
            return None;
        }
        if is_shared && request.is_none() && head.kind() == Some(Kind::Notification) {
            return None;
        }
        // A stdio message does not name its request. The latest request is the best guess.
        let id = request.or_else(|| self.pending.last_key_value().map(|(id, _)| *id))?;
        self.pending.get_mut(&id)
    }
}

/// Returns true if a notification concerns every client of a connection.
pub(super) fn concerns_all(method: &str) -> bool {
    method.ends_with("list_changed") || method == "notifications/resources/updated"
}

/// Returns a message that cannot be parsed with its id replaced by `id` (raw JSON). `None` if no id
/// is found in the message.
fn with_found_id(message: &[u8], id: &str) -> Option<Vec<u8>> {
    Some(splice(message, find_id(message)?, id))
}

fn progress_token<'a>(head: &Head<'a>) -> Option<&'a RawValue> {
    let meta = head.parameters().meta?;
    member(meta.get(), "progressToken")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
        let requests = RequestTable::new("x", 1_000, false);
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
        assert_eq!(requests.deliver(progress.to_vec(), None), Delivery::Done);
        assert_eq!(
            requests.deliver(br#"{"id":2.0,"result":{"n":2}}"#.to_vec(), None),
            Delivery::Done
        );
        assert_eq!(
            requests.deliver(br#"{"id":2,"result":{"n":3}}"#.to_vec(), None),
            Delivery::Done
        );
        let unknown = br#"{"id":"x","result":{}}"#.to_vec();
        assert_eq!(requests.deliver(unknown.clone(), None), Delivery::Unattributed(unknown));
        assert_eq!(
            text(one.replies.try_recv()),
            r#"{"method":"notifications/progress","params":{"progressToken":7,"progress":5}}"#
        );
        assert_eq!(text(two.replies.try_recv()), r#"{"jsonrpc":"2.0","id":"a","result":{"n":2}}"#);
        assert!(two.replies.try_recv().is_none());
        let changed = br#"{"method":"notifications/tools/list_changed"}"#.to_vec();
        assert_eq!(requests.deliver(changed.clone(), None), Delivery::Unrelated(changed));
        requests.close(&Failure::SessionEnded("gone".into()));
        assert!(requests.begin(&message(3)).is_err() && one.replies.try_recv().is_none());
        requests.end(&Failure::Unavailable("gone".into()));
        assert!(matches!(one.replies.try_recv(), Some(UpstreamReply::Failed(_))));
        assert!(requests.begin(&message(3)).is_err());
    }

    #[test]
    fn messages_before_the_answer_are_limited() {
        let deliver = |requests: &RequestTable, bytes: usize| {
            let text = "x".repeat(bytes);
            let log = format!(r#"{{"method":"notifications/message","params":"{text}"}}"#);
            requests.deliver(log.into_bytes(), None)
        };
        let requests = RequestTable::new("x", 10, false);
        let mut started = requests.begin(br#"{"id":1,"method":"tools/call"}"#).unwrap();
        let delivered = (0..20).filter(|_| deliver(&requests, 1) == Delivery::Done).count();
        assert_eq!(delivered, 10);
        assert_eq!(requests.deliver(br#"{"id":1,"result":{}}"#.to_vec(), None), Delivery::Done);
        assert_eq!(std::iter::from_fn(|| started.replies.try_recv()).count(), 11);
        let requests = RequestTable::new("x", 10_000, false);
        let _started = requests.begin(br#"{"id":1,"method":"tools/call"}"#).unwrap();
        let kept = (0..10_000).filter(|_| deliver(&requests, 900) == Delivery::Done).count();
        assert!(kept * 900 < MAX_WAITING_REPLY_BYTES, "{kept}");
    }

    #[test]
    fn message_on_a_shared_connection_belongs_to_nobody() {
        let log = br#"{"method":"notifications/message","params":{"data":"x"}}"#;
        for is_shared in [false, true] {
            let requests = RequestTable::new("x", 10, is_shared);
            let _one = requests.begin(br#"{"id":1,"method":"tools/call"}"#).unwrap();
            let expected =
                if is_shared { Delivery::Unrelated(log.to_vec()) } else { Delivery::Done };
            assert_eq!(requests.deliver(log.to_vec(), None), expected);
            assert_eq!(requests.deliver(log.to_vec(), Some(1)), Delivery::Done);
        }
    }

    #[test]
    fn evicted_connection_refuses_requests() {
        let requests = RequestTable::new("x", 10, false);
        let begin = || requests.begin(br#"{"id":1,"method":"tools/list"}"#);
        assert!(!requests.evict(Duration::ZERO), "no request has begun yet");
        let started = begin().unwrap();
        assert!(!requests.evict(Duration::ZERO), "a request is in flight");
        requests.forget(started.id);
        assert!(!requests.evict(Duration::from_secs(60)), "the process was just used");
        assert!(requests.evict(Duration::ZERO) && requests.has_ended());
        // The end of the process does not hide that the request can be repeated.
        requests.end(&Failure::Unavailable("ended".into()));
        assert!(matches!(begin().unwrap_err(), Failure::Evicted(_)));
        assert!(matches!(requests.eviction(), Some(Failure::Evicted(_))));
        assert!(!requests.evict(Duration::ZERO));
    }

    #[test]
    fn requests_in_flight_are_limited() {
        let requests = RequestTable::new("x", 1_000, false);
        let begin = || requests.begin(br#"{"id":1,"method":"tools/call"}"#);
        let mut pending: Vec<StartedRequest> = (0..MAX_PENDING).map(|_| begin().unwrap()).collect();
        assert!(begin().unwrap_err().to_string().contains("4096 requests"));
        assert!(requests.forget(pending.pop().unwrap().id));
        assert!(begin().is_ok());
    }
}
