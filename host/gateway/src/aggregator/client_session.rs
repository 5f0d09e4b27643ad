//! The session of a stateful client: its event streams, requests in flight and questions. A
//! question is a server-to-client request of an upstream or of the gateway, such as an elicitation.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use context_guard_protocol::RequestId;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::event_streams::{COMMON_STREAM, EventStreams};
use super::list_changes::ListChanges;
use super::session_subscriptions::SessionSubscriptions;
use super::subscription_filter::{RESOURCE_UPDATED, SubscriptionFilter, with_uri};
use crate::fair_queue::Caller;
use crate::fleet::OwnerTag;
use crate::lock::lock;
use crate::message::{Head, Kind, with_id};
use crate::protocol_mode::ClientInfo;
use crate::reply;
use crate::tasks::AbortOnDrop;
use crate::upstream::connection::UpstreamConnection;

/// The prefix of the ids of server-to-client requests. The number after it is unique in the
/// session, unlike the ids that several upstreams choose.
pub(crate) const QUESTION_ID_PREFIX: &str = "cg-";
/// The maximum number of unanswered server-to-client requests of a session. Further ones of
/// upstreams are refused. The gateway's own requests count, but are not refused.
const MAX_QUESTIONS: usize = 64;
/// The recipient of the client's answer to a server-to-client request, such as an elicitation.
enum PendingReply {
    /// The upstream that sent the request, and its id of the request (raw JSON).
    Upstream(Weak<UpstreamConnection>, String),
    /// A task of the gateway that waits for the answer.
    Gateway(oneshot::Sender<Vec<u8>>),
}

/// The open connection to an upstream. After its end, the value is the connection that replaces it.
pub(super) type CurrentConnection = watch::Receiver<Weak<UpstreamConnection>>;

/// The session of a stateful client with the aggregator.
pub(super) struct ClientSession {
    pub(super) id: String,
    pub(super) principal: Arc<str>,
    pub(super) info: Arc<ClientInfo>,
    streams: EventStreams,
    list_changes: Arc<ListChanges>,
    /// The prefix of the ids of server-to-client requests. In a fleet, it contains the tag of this
    /// replica.
    question_prefix: String,
    questions: Mutex<HashMap<u64, PendingReply>>,
    last_question: AtomicU64,
    /// For each client request in flight, the token that cancels it.
    running: Mutex<HashMap<Option<RequestId>, CancellationToken>>,
    /// For each upstream, the task that relays to the client those messages that belong to no
    /// request.
    relays: Mutex<HashMap<String, (Weak<UpstreamConnection>, AbortOnDrop)>>,
    /// The resources to which the client subscribes.
    pub(super) subscriptions: SessionSubscriptions,
    log_level: Mutex<Option<&'static str>>,
    used: Mutex<Instant>,
    /// A token that is cancelled when the session ends, which cancels all its requests.
    pub(super) ended: CancellationToken,
}

impl ClientSession {
    /// Creates a session. `tag` identifies this replica in the ids of server-to-client requests.
    pub(super) fn new(
        id: String,
        principal: Arc<str>,
        info: ClientInfo,
        streams: EventStreams,
        tag: &OwnerTag,
    ) -> Self {
        Self {
            id,
            principal,
            info: Arc::new(info),
            streams,
            list_changes: Arc::default(),
            question_prefix: format!("{QUESTION_ID_PREFIX}{}", tag.prefix()),
            questions: Mutex::default(),
            last_question: AtomicU64::new(0),
            running: Mutex::default(),
            relays: Mutex::default(),
            subscriptions: SessionSubscriptions::default(),
            log_level: Mutex::default(),
            used: Mutex::new(Instant::now()),
            ended: CancellationToken::new(),
        }
    }

    pub(super) fn streams(&self) -> &EventStreams {
        &self.streams
    }

    /// Notifies the client that a list has changed. One notification reports all changes of a short
    /// time. `method` is that of the notification.
    pub(super) fn announce_change(&self, method: &'static str) {
        let streams = self.streams.clone();
        self.list_changes.announce(method, move || {
            let changed = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
            streams.send(COMMON_STREAM, changed.into_bytes(), true);
        });
    }

    /// Sets the time of last use to now.
    pub(super) fn touch(&self) {
        *lock(&self.used) = Instant::now();
    }

    /// Returns the time since the last use, or zero while a request is in flight.
    pub(super) fn idle(&self) -> Duration {
        if lock(&self.running).is_empty() { lock(&self.used).elapsed() } else { Duration::ZERO }
    }

    pub(super) fn log_level(&self) -> Option<&'static str> {
        *lock(&self.log_level)
    }

    pub(super) fn set_log_level(&self, level: &'static str) {
        *lock(&self.log_level) = Some(level);
    }

    /// Repeats the subscriptions to resources of an upstream on a new connection, if their
    /// connection has ended. `caller` is the owner of the requests.
    fn renew_subscriptions(&self, connection: &Arc<UpstreamConnection>, caller: &Caller) {
        let renewed = self.subscriptions.renew(connection);
        if !renewed.is_empty() {
            let (connection, caller) = (Arc::downgrade(connection), caller.clone());
            let renewing = async move {
                UpstreamConnection::renew(connection, renewed, &caller).await;
            };
            tokio::spawn(renewing);
        }
    }

    /// Registers a request of the client under its id (raw JSON). The returned token is cancelled
    /// if the client cancels the request.
    pub(super) fn begin(&self, id: &str) -> CancellationToken {
        let token = self.ended.child_token();
        lock(&self.running).insert(RequestId::parse(id), token.clone());
        token
    }

    /// Removes the completed request with this id (raw JSON).
    pub(super) fn finish(&self, id: &str) {
        lock(&self.running).remove(&RequestId::parse(id));
        self.touch();
    }

    /// Cancels the request with this id (raw JSON), if it is in flight.
    pub(super) fn cancel(&self, id: &str) {
        if let Some(token) = lock(&self.running).remove(&RequestId::parse(id)) {
            token.cancel();
        }
    }

    /// Registers a request that an upstream sends to the client, such as sampling or elicitation.
    ///
    /// Returns the number of the request in this session, and the message for the client. `request`
    /// is the upstream's message. `None` if the client already has the maximum of unanswered
    /// requests.
    pub(super) fn ask_for_upstream(
        &self,
        connection: &Arc<UpstreamConnection>,
        request: &[u8],
    ) -> Option<(u64, Vec<u8>)> {
        if lock(&self.questions).len() >= MAX_QUESTIONS {
            return None;
        }
        let id = Head::read(request).map_or("null", |head| head.raw_id()).to_owned();
        let number = self.add_question(PendingReply::Upstream(Arc::downgrade(connection), id));
        Some((number, with_id(request, &format!("\"{}{number}\"", self.question_prefix))))
    }

    /// Registers a request to the client on behalf of the gateway itself. Returns the message for
    /// the client, and the receiver of the answer.
    pub(super) fn ask(&self, method: &str, params: &str) -> (Vec<u8>, oneshot::Receiver<Vec<u8>>) {
        let (sender, receiver) = oneshot::channel();
        let number = self.add_question(PendingReply::Gateway(sender));
        let method = serde_json::Value::from(method);
        let prefix = &self.question_prefix;
        let request = format!(
            r#"{{"jsonrpc":"2.0","id":"{prefix}{number}","method":{method},"params":{params}}}"#
        );
        (request.into_bytes(), receiver)
    }

    fn add_question(&self, reply: PendingReply) -> u64 {
        let number = self.last_question.fetch_add(1, Ordering::Relaxed) + 1;
        lock(&self.questions).insert(number, reply);
        number
    }

    /// Returns true if at least one of the server-to-client requests with these numbers is
    /// unanswered.
    pub(super) fn has_pending_reply(&self, numbers: &[u64]) -> bool {
        let questions = lock(&self.questions);
        numbers.iter().any(|number| questions.contains_key(number))
    }

    /// Withdraws the server-to-client requests with these numbers. Answers to them are ignored.
    pub(super) fn withdraw(&self, numbers: &[u64]) {
        let mut questions = lock(&self.questions);
        for number in numbers {
            questions.remove(number);
        }
        // Questions of the gateway whose request was cancelled have lost their receiver.
        questions.retain(
            |_, reply| !matches!(reply, PendingReply::Gateway(sender) if sender.is_closed()),
        );
    }

    /// Delivers the client's answer to the upstream or task that sent the server-to-client request.
    pub(super) fn deliver_answer(&self, answer: &[u8]) {
        let number = Head::read(answer).and_then(|head| {
            let id: String = serde_json::from_str(head.raw_id()).ok()?;
            id.strip_prefix(&self.question_prefix)?.parse::<u64>().ok()
        });
        let reply = number.and_then(|number| lock(&self.questions).remove(&number));
        match reply {
            Some(PendingReply::Upstream(connection, id)) => {
                if let Some(connection) = connection.upgrade() {
                    connection.send_in_background(with_id(answer, &id));
                }
            }
            Some(PendingReply::Gateway(sender)) => {
                let _ = sender.send(answer.to_vec());
            }
            None => {}
        }
    }

    /// Relays to the client those messages of an upstream connection that belong to no request. Has
    /// no effect if they are relayed already.
    ///
    /// Connections that later replace `connection`, which are the values of `current`, are relayed
    /// too and receive the client's subscriptions. `is_shared` is true if other clients use the
    /// connection too.
    pub(super) fn relay(
        self: &Arc<Self>,
        connection: &Arc<UpstreamConnection>,
        current: &CurrentConnection,
        caller: &Caller,
        is_shared: bool,
    ) {
        let weak = Arc::downgrade(connection);
        let mut relays = lock(&self.relays);
        if let Some((old, _)) = relays.get(&connection.server.name)
            && old.ptr_eq(&weak)
        {
            return;
        }
        let (mut messages, mut current) = (connection.unrelated(), current.clone());
        let (session, upstream) = (Arc::downgrade(self), weak.clone());
        let own_caller = caller.clone();
        let task = tokio::spawn(async move {
            let mut is_open = true;
            loop {
                tokio::select! {
                    biased;
                    received = messages.recv(), if is_open => match received {
                        Ok(message) => {
                            let Some(session) = session.upgrade() else { return };
                            let Some(connection) = upstream.upgrade() else { continue };
                            session.relay_message(&connection, &message, is_shared);
                        }
                        Err(RecvError::Lagged(_)) => {
                            let Some(session) = session.upgrade() else { return };
                            let Some(connection) = upstream.upgrade() else { continue };
                            session.report_all_changes(&connection.server.name);
                        }
                        Err(RecvError::Closed) => is_open = false,
                    },
                    changed = current.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        let next = current.borrow_and_update().clone();
                        let (Some(session), Some(next)) = (session.upgrade(), next.upgrade())
                        else {
                            continue;
                        };
                        // This ends the task, unless the connection is the same.
                        session.relay(&next, &current, &own_caller, is_shared);
                    }
                }
            }
        });
        relays.insert(connection.server.name.clone(), (weak, AbortOnDrop(task)));
        drop(relays);
        self.renew_subscriptions(connection, caller);
    }

    /// Reports all lists, and the resources of the upstream to which the client subscribes, as
    /// changed. The upstream's messages about changes were lost.
    fn report_all_changes(&self, upstream: &str) {
        let uris = self.subscriptions.all_client_uris(upstream);
        for changed in SubscriptionFilter::lists_and(uris).all_changes() {
            self.streams.send(COMMON_STREAM, changed, true);
        }
    }

    /// Sends an upstream's notification about a resource to which the client subscribes, with the
    /// URIs that the client knows. Returns false if it is not about such a resource. `relayed` is
    /// the own URI of the subscription that reports the change, if each has a relay of its own.
    fn relay_update(
        &self,
        upstream: &str,
        relayed: Option<&str>,
        head: &Head<'_>,
        message: &[u8],
    ) -> bool {
        if head.method() != RESOURCE_UPDATED {
            return false;
        }
        let changed = head.parameters().uri.unwrap_or_default().into_owned();
        let client_uris = self.subscriptions.client_uris(upstream, &changed, relayed);
        for uri in &client_uris {
            let update = if *uri == changed { message.to_vec() } else { with_uri(message, uri) };
            self.streams.send(COMMON_STREAM, update, true);
        }
        !client_uris.is_empty()
    }

    /// Sends a change that a stateless upstream reports. `change` is its notification, and
    /// `relayed` the upstream's URI of the resource whose subscription reports it. `None` if the
    /// change is one of lists.
    pub(super) fn relay_change(&self, upstream: &str, relayed: Option<&str>, change: Vec<u8>) {
        if relayed.is_none() {
            self.streams.send(COMMON_STREAM, change, true);
        } else if let Some(head) = Head::read(&change) {
            self.relay_update(upstream, relayed, &head, &change);
        }
    }

    fn relay_message(&self, connection: &Arc<UpstreamConnection>, message: &[u8], is_shared: bool) {
        let Some(head) = Head::read(message) else { return };
        if head.kind() != Some(Kind::Request) {
            // Only other clients of the shared connection subscribe to the resource.
            let is_shared_update = is_shared && head.method() == RESOURCE_UPDATED;
            let upstream = &connection.server.name;
            if !self.relay_update(upstream, None, &head, message) && !is_shared_update {
                self.streams.send(COMMON_STREAM, message.to_vec(), true);
            }
            return;
        }
        // Other clients of a shared connection must not see or answer the question.
        let asked = if is_shared { None } else { self.ask_for_upstream(connection, message) };
        match asked {
            Some((_, question)) => self.streams.send(COMMON_STREAM, question, false),
            None => connection.send_in_background(no_client(head.raw_id())),
        }
    }
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

/// Returns the error response to the upstream's request `id` (raw JSON), which no client can
/// receive.
pub(super) fn no_client(id: &str) -> Vec<u8> {
    reply::error(
        id,
        reply::NOT_TRANSLATABLE,
        "There is no client that could be asked: the connection is shared, or the client speaks a revision without requests to clients.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregator::event_streams::EventMemory;
    use crate::aggregator::session_subscriptions::{SubscribedResource, SubscriptionGuard};
    use crate::upstream::resource_subscriptions::tests::connect;

    #[tokio::test]
    async fn session_subscribes_again_on_the_next_connection() {
        let tag = OwnerTag::default();
        let (streams, info) = (EventMemory::default().streams(&"p".into()), ClientInfo::gateway());
        let session = ClientSession::new("s".to_owned(), "p".into(), info, streams, &tag);
        let session = Arc::new(session);
        let caller = Caller { principal: "p".into(), session: "s".into() };
        let (first, second) = (connect().await, connect().await);
        let current = watch::Sender::new(Arc::downgrade(&first));
        session.relay(&first, &current.subscribe(), &caller, false);
        let resource = SubscribedResource {
            upstream: "s",
            own_uri: "x://1",
            client_uri: "context-guard://server/s/x://1",
        };
        let subscribe = || SubscriptionGuard::Stateful(first.subscribe("x://1"));
        assert_eq!(session.subscriptions.add(resource, subscribe), Some(true));
        let mut messages = second.unrelated();
        // A request of another client opens the next connection.
        drop(first);
        current.send_replace(Arc::downgrade(&second));
        let announced = String::from_utf8(messages.recv().await.unwrap().to_vec()).unwrap();
        assert!(announced.contains("resources/subscribe"), "{announced}");
        assert!(session.subscriptions.remove(resource));
        let announced = String::from_utf8(messages.recv().await.unwrap().to_vec()).unwrap();
        assert!(announced.contains("resources/unsubscribe"), "{announced}");
    }
}
