//! The messages between one client and one upstream, independent of the transports.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use context_guard_protocol::batch::{Body, join_batch};
use context_guard_protocol::{Envelope, PendingRequests};
use serde_json::Value;

use super::exchange::{Exchange, NextStep};
use crate::engine::CallContext;
use crate::filter::Filter;
use crate::message::Head;
use crate::telemetry::{Outcome, Recorder};

/// A session between a client and an upstream, whose messages pass the filter. It matches responses
/// with their requests.
pub struct Session {
    filter: Arc<Filter>,
    /// The owner of the guard's snapshots and cursors in this session, from `storage_scope`.
    principal: String,
    /// The authenticated principal that may use the session.
    owner: String,
    upstream: String,
    /// The transport's id of the session. Unset until the upstream assigns one, and for transports
    /// without sessions.
    name: OnceLock<String>,
    recorder: Option<Arc<Recorder>>,
    state: Mutex<SessionState>,
}

#[derive(Default)]
struct SessionState {
    pending: PendingRequests<Exchange>,
    protocol_version: String,
    client_name: Option<String>,
    /// True after an event with an id on any stream, with which clients can resume streams of the
    /// session.
    is_resumable: bool,
}

/// The result of passing a client's message through the filter: a message for the upstream, an
/// answer, or both.
#[derive(Debug, Default, PartialEq)]
pub struct FromClient<'m> {
    /// The message to send to the upstream. `None` if there is nothing to forward.
    pub upstream: Option<Cow<'m, [u8]>>,
    /// The guard's own answer to send to the client. `None` if the upstream answers.
    pub client: Option<Vec<u8>>,
}

impl Session {
    /// Creates a session of a principal with an upstream. The upstream's name may be empty, for
    /// example for stdio.
    #[must_use]
    pub fn new(filter: Arc<Filter>, principal: &str, upstream: &str) -> Self {
        Self {
            filter,
            principal: principal.to_owned(),
            owner: principal.to_owned(),
            upstream: upstream.to_owned(),
            name: OnceLock::new(),
            recorder: None,
            state: Mutex::default(),
        }
    }

    /// Sets the session's owner, transport id (`name`, see [`Self::set_name`]) and protocol
    /// version, and records every answer with `recorder`.
    #[must_use]
    pub(crate) fn recorded(
        self,
        recorder: Arc<Recorder>,
        owner: &str,
        name: &str,
        version: &str,
    ) -> Self {
        self.state().protocol_version = version.to_owned();
        self.set_name(name);
        Self { owner: owner.to_owned(), recorder: Some(recorder), ..self }
    }

    /// Sets the transport's id of the session, which trials and telemetry tell sessions apart by.
    /// An empty `name`, or one after the first, has no effect.
    pub(crate) fn set_name(&self, name: &str) {
        if !name.is_empty() {
            self.name.get_or_init(|| name.to_owned());
        }
    }

    /// Returns the filter that the session's messages pass.
    pub(crate) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Returns the authenticated principal that may use the session.
    pub(crate) fn owner(&self) -> &str {
        &self.owner
    }

    /// Records that the upstream gives ids to its events, with which a client can resume a stream.
    pub(crate) fn set_resumable(&self) {
        self.state().is_resumable = true;
    }

    /// Returns true if clients can resume the upstream's streams.
    pub(crate) fn is_resumable(&self) -> bool {
        self.state().is_resumable
    }

    /// Returns the protocol version of the session. Empty if it is not known.
    pub(crate) fn protocol_version(&self) -> String {
        self.state().protocol_version.clone()
    }

    /// Returns the name of the upstream. Empty if it has none.
    pub(crate) fn upstream(&self) -> &str {
        &self.upstream
    }

    /// Returns true if the upstream has not answered all requests that it received.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.state().pending.is_empty()
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, request_id: &str, message: &[u8]) -> Exchange {
        let state = self.state();
        let context = CallContext {
            principal: self.principal.clone(),
            session: self.name.get().cloned().unwrap_or_default(),
            request_id: request_id.to_owned(),
            upstream: self.upstream.clone(),
            protocol_version: state.protocol_version.clone(),
            client_name: state.client_name.clone(),
            ..CallContext::default()
        };
        Exchange::of_request(context, Head::read(message).as_ref())
    }

    /// Passes a message of the client through the filter. Messages other than requests are
    /// forwarded unchanged.
    #[must_use]
    pub fn from_client<'m>(&self, message: &'m [u8]) -> FromClient<'m> {
        let Body::Batch(messages) = Body::parse(message) else {
            return self.one_from_client(message);
        };
        let parts: Vec<_> = messages.iter().map(|message| self.one_from_client(message)).collect();
        let is_unchanged = parts
            .iter()
            .all(|part| matches!(part.upstream, Some(Cow::Borrowed(_))) && part.client.is_none());
        if is_unchanged {
            return FromClient { upstream: Some(Cow::Borrowed(message)), client: None };
        }
        let (upstream, client): (Vec<_>, Vec<_>) =
            parts.into_iter().map(|part| (part.upstream, part.client)).unzip();
        let join = |parts: Vec<Cow<'_, [u8]>>| (!parts.is_empty()).then(|| join_batch(&parts));
        FromClient {
            upstream: join(upstream.into_iter().flatten().collect()).map(Cow::Owned),
            client: join(client.into_iter().flatten().map(Cow::Owned).collect()),
        }
    }

    fn one_from_client<'m>(&self, message: &'m [u8]) -> FromClient<'m> {
        let unchanged = FromClient { upstream: Some(Cow::Borrowed(message)), client: None };
        let Some(envelope) = Envelope::read(message) else { return unchanged };
        let (Some(id), Some(method)) = (envelope.id(), envelope.method) else { return unchanged };
        let mut exchange = self.begin(id.as_str(), message);
        if method == "initialize" {
            // The session has no id before the answer. The guard has nothing to do with a
            // handshake, and a call without an id would count for the wrong side of a trial.
            let mut state = self.state();
            state.client_name = text_at(message, "/params/clientInfo/name");
            state.pending.insert(id, exchange);
            return unchanged;
        }
        match exchange.on_request(&self.filter, message) {
            NextStep::Answer(answer, decision) => {
                if let Some(recorder) = &self.recorder {
                    exchange.record(recorder, Some(&decision), answer.len(), Outcome::Passed);
                }
                FromClient { upstream: None, client: Some(answer) }
            }
            NextStep::Forward(changed) => {
                if self.recorder.is_some() || exchange.wants_response() {
                    self.state().pending.insert(id, exchange);
                }
                let upstream = changed.map_or(Cow::Borrowed(message), Cow::Owned);
                FromClient { upstream: Some(upstream), client: None }
            }
        }
    }

    /// Passes a message of the upstream through the filter and returns the message for the client.
    /// Messages other than responses to pending requests are returned unchanged.
    #[must_use]
    pub fn from_upstream<'m>(&self, message: &'m [u8]) -> Cow<'m, [u8]> {
        let Body::Batch(messages) = Body::parse(message) else {
            return self.one_from_upstream(message);
        };
        let parts: Vec<_> =
            messages.iter().map(|message| self.one_from_upstream(message)).collect();
        let is_unchanged = parts.iter().all(|part| matches!(part, Cow::Borrowed(_)));
        if is_unchanged { Cow::Borrowed(message) } else { Cow::Owned(join_batch(&parts)) }
    }

    fn one_from_upstream<'m>(&self, message: &'m [u8]) -> Cow<'m, [u8]> {
        let Some(envelope) = Envelope::read(message) else { return Cow::Borrowed(message) };
        if envelope.method.is_some() {
            if let Some(head) = Head::read(message) {
                self.filter.on_notification(&self.upstream, &head);
            }
            return Cow::Borrowed(message);
        }
        let pending = envelope.id().and_then(|id| self.state().pending.remove(&id));
        let Some(mut exchange) = pending else { return Cow::Borrowed(message) };
        if exchange.endpoint == "initialize"
            && let Some(version) = text_at(message, "/result/protocolVersion")
        {
            exchange.context.protocol_version.clone_from(&version);
            self.state().protocol_version = version;
        }
        let guarded = exchange.on_response(&self.filter, message);
        if let Some(recorder) = &self.recorder {
            let bytes = guarded.shaped.as_deref().unwrap_or(message).len();
            exchange.record(recorder, guarded.decision.as_ref(), bytes, guarded.outcome);
        }
        guarded.shaped.map_or(Cow::Borrowed(message), Cow::Owned)
    }

    /// Records in telemetry that the upstream did not answer a request. `bytes` is the size of the
    /// error response to the client.
    pub(crate) fn fail(&self, request: &[u8], bytes: usize) {
        let id = Envelope::read(request).and_then(|envelope| envelope.id());
        let exchange = id.and_then(|id| self.state().pending.remove(&id));
        if let (Some(exchange), Some(recorder)) = (exchange, &self.recorder) {
            exchange.record(recorder, None, bytes, Outcome::UpstreamError);
        }
    }
}

/// Returns the string at a JSON Pointer in a message, or `None` if there is no string.
fn text_at(message: &[u8], pointer: &str) -> Option<String> {
    let message: Value = serde_json::from_slice(message).ok()?;
    message.pointer(pointer)?.as_str().map(str::to_owned)
}
