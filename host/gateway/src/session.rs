//! A client and its upstream, independent of the transports between them.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use context_guard_protocol::batch::{Body, join_batch};
use context_guard_protocol::{Envelope, PendingRequests};
use serde_json::Value;

use crate::engine::{CallContext, Decision};
use crate::filter::{Filter, Request, Ticket};
use crate::message::Head;
use crate::telemetry::{AnswerEvent, Outcome, Recorder};

/// A session: it correlates responses with requests, and passes both to the filter.
pub struct Session {
    filter: Arc<Filter>,
    /// The owner of snapshots and cursors.
    principal: String,
    /// The principal that may use the session.
    owner: String,
    upstream: String,
    /// The session id of the transport, for records.
    name: String,
    recorder: Option<Arc<Recorder>>,
    state: Mutex<State>,
}

/// A request that the upstream has not answered yet.
#[derive(Clone, Debug)]
struct PendingRequest {
    ticket: Ticket,
    /// The response to `initialize` names the protocol revision of the session.
    method: String,
    since: Instant,
}

struct State {
    pending: PendingRequests<PendingRequest>,
    protocol_version: String,
    client_name: Option<String>,
}

/// The destinations of a message of the client.
#[derive(Debug, Default, PartialEq)]
pub struct FromClient<'m> {
    /// The message for the upstream.
    pub upstream: Option<Cow<'m, [u8]>>,
    /// The answer for the client.
    pub client: Option<Vec<u8>>,
}

impl Session {
    /// Creates a session of a principal with an upstream, whose name may be empty.
    #[must_use]
    pub fn new(filter: Arc<Filter>, principal: &str, upstream: &str) -> Self {
        let state = State {
            pending: PendingRequests::default(),
            protocol_version: String::new(),
            client_name: None,
        };
        Self {
            filter,
            principal: principal.to_owned(),
            owner: principal.to_owned(),
            upstream: upstream.to_owned(),
            name: String::new(),
            recorder: None,
            state: Mutex::new(state),
        }
    }

    /// Adds the transport's owner, session id and protocol revision, and records every answer.
    #[must_use]
    pub(crate) fn recorded(
        self,
        recorder: Arc<Recorder>,
        owner: &str,
        name: &str,
        version: &str,
    ) -> Self {
        self.state().protocol_version = version.to_owned();
        let (owner, name) = (owner.to_owned(), name.to_owned());
        Self { owner, name, recorder: Some(recorder), ..self }
    }

    /// The filter of the session.
    pub(crate) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// The principal that may use the session.
    pub(crate) fn owner(&self) -> &str {
        &self.owner
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn context(&self, request_id: &str) -> CallContext {
        let state = self.state();
        CallContext {
            principal: self.principal.clone(),
            session: self.name.clone(),
            request_id: request_id.to_owned(),
            upstream: self.upstream.clone(),
            protocol_version: state.protocol_version.clone(),
            client_name: state.client_name.clone(),
            ..CallContext::default()
        }
    }

    /// Passes a message of the client through the filter. Anything but a request is forwarded
    /// unchanged.
    #[must_use]
    pub fn from_client<'m>(&self, message: &'m [u8]) -> FromClient<'m> {
        if let Body::Batch(messages) = Body::parse(message) {
            let parts: Vec<_> =
                messages.iter().map(|message| self.one_from_client(message)).collect();
            if parts.iter().all(|part| {
                matches!(part.upstream, Some(Cow::Borrowed(_))) && part.client.is_none()
            }) {
                return FromClient { upstream: Some(Cow::Borrowed(message)), client: None };
            }
            let (upstream, client): (Vec<_>, Vec<_>) =
                parts.into_iter().map(|part| (part.upstream, part.client)).unzip();
            let some = |parts: Vec<Cow<'_, [u8]>>| (!parts.is_empty()).then(|| join_batch(&parts));
            let client = some(client.into_iter().flatten().map(Cow::Owned).collect());
            return FromClient {
                upstream: some(upstream.into_iter().flatten().collect()).map(Cow::Owned),
                client,
            };
        }
        self.one_from_client(message)
    }

    fn one_from_client<'m>(&self, message: &'m [u8]) -> FromClient<'m> {
        let unchanged = FromClient { upstream: Some(Cow::Borrowed(message)), client: None };
        let Some(envelope) = Envelope::read(message) else { return unchanged };
        let (Some(id), Some(method)) = (envelope.id(), envelope.method) else { return unchanged };
        if method == "initialize" {
            self.state().client_name = text_at(message, "/params/clientInfo/name");
        }
        let cx = self.context(id.as_str());
        let since = Instant::now();
        match self.filter.request(&cx, message) {
            Request::Answer(answer, decision) => {
                self.record(&cx, &method, since, Some(&decision), answer.len(), Outcome::Passed);
                FromClient { upstream: None, client: Some(answer) }
            }
            Request::Forward(changed, ticket) => {
                if self.recorder.is_some() || method == "initialize" || !ticket.is_pass() {
                    let pending = PendingRequest { ticket, method: method.into_owned(), since };
                    self.state().pending.insert(id, pending);
                }
                FromClient {
                    upstream: Some(changed.map_or(Cow::Borrowed(message), Cow::Owned)),
                    client: None,
                }
            }
        }
    }

    /// Passes a message of the upstream through the filter. Anything but the response to a pending
    /// request is forwarded unchanged.
    #[must_use]
    pub fn from_upstream<'m>(&self, message: &'m [u8]) -> Cow<'m, [u8]> {
        if let Body::Batch(messages) = Body::parse(message) {
            let parts: Vec<_> =
                messages.iter().map(|message| self.one_from_upstream(message)).collect();
            let same = parts.iter().all(|part| matches!(part, Cow::Borrowed(_)));
            return if same { Cow::Borrowed(message) } else { Cow::Owned(join_batch(&parts)) };
        }
        self.one_from_upstream(message)
    }

    fn one_from_upstream<'m>(&self, message: &'m [u8]) -> Cow<'m, [u8]> {
        let Some(envelope) = Envelope::read(message) else { return Cow::Borrowed(message) };
        if envelope.method.is_some() {
            if let Some(head) = Head::read(message) {
                self.filter.on_notification(&self.upstream, &head);
            }
            return Cow::Borrowed(message);
        }
        let Some(id) = envelope.id() else { return Cow::Borrowed(message) };
        let Some(request) = self.state().pending.remove(&id) else { return Cow::Borrowed(message) };
        if request.method == "initialize" {
            self.opened(message);
        }
        let cx = self.context(id.as_str());
        let (changed, decision) = self.filter.response_with_decision(&cx, &request.ticket, message);
        let outcome = Outcome::of_answer(!request.ticket.is_pass(), decision.as_ref());
        let bytes = changed.as_deref().unwrap_or(message).len();
        self.record(&cx, &request.method, request.since, decision.as_ref(), bytes, outcome);
        changed.map_or(Cow::Borrowed(message), Cow::Owned)
    }

    /// Records that the upstream will not answer a request.
    pub(crate) fn failed(&self, request: &[u8], bytes: usize) {
        let Some(id) = Envelope::read(request).and_then(|envelope| envelope.id()) else { return };
        let Some(request) = self.state().pending.remove(&id) else { return };
        let cx = self.context(id.as_str());
        self.record(&cx, &request.method, request.since, None, bytes, Outcome::UpstreamError);
    }

    fn record(
        &self,
        cx: &CallContext,
        method: &str,
        since: Instant,
        decision: Option<&Decision>,
        bytes: usize,
        outcome: Outcome,
    ) {
        if let Some(recorder) = &self.recorder {
            let latency = since.elapsed();
            recorder.answered(&AnswerEvent {
                cx,
                endpoint: method,
                decision,
                latency,
                bytes,
                outcome,
            });
        }
    }

    /// Reads the protocol revision that client and upstream have negotiated.
    fn opened(&self, message: &[u8]) {
        if let Some(version) = text_at(message, "/result/protocolVersion") {
            self.state().protocol_version = version;
        }
    }
}

/// Returns the string at a JSON Pointer.
fn text_at(message: &[u8], pointer: &str) -> Option<String> {
    let message: Value = serde_json::from_slice(message).ok()?;
    message.pointer(pointer)?.as_str().map(str::to_owned)
}
