//! The messages between one client and one upstream, independent of the transports.

mod detached;
mod failures;
mod forwarded;
mod requests;
mod state;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use context_guard_protocol::answer::{
    AnswerCheck, check_answer, find_id, quote, resembles_answer, trim_padding,
};
use context_guard_protocol::batch::{Body, join_batch};
use context_guard_protocol::{Envelope, MAX_ID_BYTES, RequestFault, RequestId};
use serde_json::value::RawValue;

pub(crate) use self::detached::detached_memory;
pub(crate) use self::forwarded::ForwardedRequests;
use self::requests::{refuse_ambiguous, server_name};
use self::state::SessionState;
use super::exchange::Exchange;
use crate::engine::CallContext;
use crate::filter::Filter;
use crate::invalid_output::InvalidOutput;
use crate::memory_shares::MemoryShares;
use crate::message::{Head, Kind, replace_invalid_utf8, splice, text_at};
use crate::pending_filter::PendingFilter;
use crate::protocol_mode::ClientInfo;
use crate::reply;
use crate::telemetry::Recorder;
use crate::upstream::Failure;

/// A session between a client and an upstream, whose messages pass the filter. It matches responses
/// with their requests.
pub struct Session {
    filter: PendingFilter,
    /// The owner of the guard's snapshots and cursors in this session, from `storage_scope`.
    principal: String,
    /// The authenticated principal that may use the session.
    owner: String,
    upstream: String,
    /// The transport's id of the session. Unset until the upstream assigns one, and for transports
    /// without sessions.
    name: OnceLock<String>,
    recorder: Option<Arc<Recorder>>,
    /// Reports answers that name no request.
    unattributed_output: InvalidOutput,
    state: Mutex<SessionState>,
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
    pub fn new(filter: impl Into<PendingFilter>, principal: &str, upstream: &str) -> Self {
        Self {
            filter: filter.into(),
            principal: principal.to_owned(),
            owner: principal.to_owned(),
            upstream: upstream.to_owned(),
            name: OnceLock::new(),
            recorder: None,
            unattributed_output: InvalidOutput::default(),
            state: Mutex::default(),
        }
    }

    /// Records every answer with `recorder`.
    #[must_use]
    pub fn with_recorder(self, recorder: Arc<Recorder>) -> Self {
        Self { recorder: Some(recorder), ..self }
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

    /// Counts the requests whose answers may come on a later stream with those of other sessions
    /// of `owner`.
    pub(crate) fn with_detached_memory(self, memory: &Arc<MemoryShares>, owner: &Arc<str>) -> Self {
        self.state().detached.count_in(memory.holder(owner));
        self
    }

    /// Sets the transport's id of the session, which trials and telemetry tell sessions apart by.
    /// An empty `name`, or one after the first, has no effect.
    pub(crate) fn set_name(&self, name: &str) {
        if !name.is_empty() {
            self.name.get_or_init(|| name.to_owned());
        }
    }

    /// Sets the name of the client software, which a session that began elsewhere has not seen.
    pub(crate) fn set_client_name(&self, name: Option<String>) {
        self.state().client_name = name;
    }

    /// Sets the name of the client whose profile applies instead of that of the client's own name.
    /// `None` for its own name.
    pub fn override_client(&self, name: Option<String>) {
        self.state().client_override = name;
    }

    /// Returns the filter that the session's messages pass.
    pub(crate) fn filter(&self) -> &Filter {
        self.filter.wait()
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

    fn begin(&self, request_id: &str, message: &[u8], profile: Option<&str>) -> Exchange {
        let (state, head) = (self.state(), Head::read(message));
        let session = self.name.get().cloned().unwrap_or_default();
        // A stateless client describes itself in each request.
        let of_request = || head.as_ref().and_then(|head| head.parameters().client_name());
        let own_name = || state.client_name.clone().or_else(of_request);
        let context = CallContext {
            principal: self.principal.clone(),
            session: session.clone(),
            request_id: request_id.to_owned(),
            upstream: self.upstream.clone(),
            protocol_version: state.protocol_version.clone(),
            client_name: profile
                .map(str::to_owned)
                .or_else(|| state.client_override.clone())
                .or_else(own_name),
            // An upstream may have other tools in each session.
            lists_tools: Some(session),
            ..CallContext::default()
        };
        let recorder = self.recorder.as_deref();
        Exchange::of_request(context, head.as_ref(), recorder)
    }

    /// Passes a message of the client through the filter. Messages other than requests are
    /// forwarded unchanged. A message that the server may read differently than the guard is
    /// answered with an error.
    #[must_use]
    pub fn from_client<'m>(&self, message: &'m [u8]) -> FromClient<'m> {
        let refused = |refusal| FromClient { upstream: None, client: Some(refusal) };
        refuse_ambiguous(message).map_or_else(|| self.pass_from_client(message, None), refused)
    }

    /// Does the same as [`Self::from_client`], for a message that the transport has checked, and
    /// whose transport names the client whose profile applies.
    pub(crate) fn pass_from_client<'m>(
        &self,
        message: &'m [u8],
        profile: Option<&str>,
    ) -> FromClient<'m> {
        let Body::Batch(messages) = Body::parse(message) else {
            return self.one_from_client(message, profile);
        };
        self.state().has_sent_batch = true;
        let parts: Vec<_> =
            messages.iter().map(|message| self.one_from_client(message, profile)).collect();
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

    fn one_from_client<'m>(&self, message: &'m [u8], profile: Option<&str>) -> FromClient<'m> {
        let unchanged = FromClient { upstream: Some(Cow::Borrowed(message)), client: None };
        let Some(envelope) = Envelope::read(message) else { return unchanged };
        let (Some(id), Some(method)) = (envelope.id(), envelope.method) else {
            let mut state = self.state();
            let next = state.pending.next_number();
            state.unattributed.notified(next);
            return unchanged;
        };
        if id.as_str().len() > MAX_ID_BYTES {
            return FromClient { upstream: None, client: Some(RequestFault::LongId.error()) };
        }
        let exchange = self.begin(id.as_str(), message, profile);
        if method == "initialize" {
            // The session has no id before the answer. The guard has nothing to do with a
            // handshake, and a call without an id would count for the wrong side of a trial.
            let client = Head::read(message).map(|head| ClientInfo::from_initialize(&head));
            let client = match client.transpose() {
                Ok(client) => client,
                Err(reason) => {
                    let refusal = reply::error(id.as_str(), reply::INVALID_PARAMS, &reason);
                    if let Some(recorder) = &self.recorder {
                        exchange.record_operation(recorder, &refusal);
                    }
                    return FromClient { upstream: None, client: Some(refusal) };
                }
            };
            let mut state = self.state();
            state.client_name = client.and_then(|client| client.name());
            state.pending.insert(id, exchange);
            return unchanged;
        }
        self.request(id, exchange, message)
    }

    /// Passes a message or a batch of the upstream through the filter. Returns the messages for the
    /// client in order, each with one message, or with a batch if the client may receive one.
    ///
    /// Messages other than answers to pending requests are returned unchanged. Answers that are not
    /// valid are repaired, or replaced by an error that says what is wrong with them.
    #[must_use]
    pub fn from_upstream<'m>(&self, message: &'m [u8]) -> Vec<Cow<'m, [u8]>> {
        self.pass_from_upstream(message, None)
    }

    /// Passes a message or a batch of the upstream through the filter: see [`Self::from_upstream`].
    /// `exchange` has the ids of the requests that it may answer, if its transport knows them.
    pub(crate) fn pass_from_upstream<'m>(
        &self,
        message: &'m [u8],
        exchange: Option<&[RequestId]>,
    ) -> Vec<Cow<'m, [u8]>> {
        let trimmed = trim_padding(message);
        let Body::Batch(messages) = Body::parse(trimmed) else {
            let mut answers = self.one_from_upstream(trimmed, exchange);
            if let [Cow::Borrowed(answer)] = answers.as_mut_slice() {
                let is_padded = trimmed.len() != message.trim_ascii().len();
                answers = vec![if is_padded && Head::read(answer).is_some() {
                    Cow::Owned(answer.to_vec())
                } else {
                    Cow::Borrowed(message)
                }];
            }
            return answers;
        };
        let has_answer = messages.iter().any(|message| {
            let state = self.state();
            Envelope::read(message)
                .and_then(|envelope| envelope.id())
                .is_some_and(|id| state.pending.find(&id).is_some())
        });
        let parts: Vec<_> =
            messages.iter().flat_map(|message| self.one_from_upstream(message, exchange)).collect();
        let is_unchanged = parts.len() == messages.len()
            && parts.iter().all(|part| matches!(part, Cow::Borrowed(_)));
        if !has_answer && is_unchanged {
            return vec![Cow::Borrowed(message)];
        }
        if !self.state().accepts_batches() {
            return parts.into_iter().map(|part| Cow::Owned(part.into_owned())).collect();
        }
        vec![if is_unchanged { Cow::Borrowed(message) } else { Cow::Owned(join_batch(&parts)) }]
    }

    fn one_from_upstream<'m>(
        &self,
        message: &'m [u8],
        exchange: Option<&[RequestId]>,
    ) -> Vec<Cow<'m, [u8]>> {
        let unchanged = || vec![Cow::Borrowed(message)];
        let envelope = Envelope::read(message);
        let is_readable = envelope.is_some();
        let id = match &envelope {
            Some(envelope) if envelope.method.is_some() => {
                let head = Head::read(message);
                let Some(head) = head.filter(|head| head.kind() == Some(Kind::Response)) else {
                    // Without a filter, nothing is cached that the notification would change.
                    if let (Some(head), Some(filter)) = (Head::read(message), self.filter.get()) {
                        filter.on_notification(&self.upstream, &head);
                    }
                    return unchanged();
                };
                head.request_id()
            }
            Some(envelope) => envelope.id(),
            None if resembles_answer(message) => find_id(message).and_then(RequestId::parse),
            None => return unchanged(),
        };
        let found = match (&id, exchange) {
            (Some(id), _) => self.state().answer(id),
            // An error that occurs before the upstream has read the request has no id.
            (None, Some([request])) => self.state().answer(request),
            (None, _) => None,
        };
        if let Some(pending) = found {
            let answer = self.answer(pending, message, is_readable);
            let mut answers = vec![answer];
            answers.extend(self.fail_by_exclusion().into_iter().map(Cow::Owned));
            return answers;
        }
        if id.is_some() || exchange.is_some() {
            return unchanged();
        }
        let reason = match Head::read(message) {
            Some(head) if head.kind() == Some(Kind::Response) => {
                let error = head.error.map_or("", RawValue::get);
                format!("has no id: {}", quote(error))
            }
            Some(_) => return unchanged(),
            None => {
                let text = String::from_utf8_lossy(message);
                format!("is not valid JSON: {}", quote(&text))
            }
        };
        {
            let mut state = self.state();
            let next = state.pending.next_number();
            state.unattributed.received(reason, next);
        }
        let failures = self.fail_by_exclusion();
        if failures.is_empty() {
            self.unattributed_output.report_answer(&self.upstream, message);
            return unchanged();
        }
        failures.into_iter().map(Cow::Owned).collect()
    }

    /// Returns the answer to a pending request for the client. `message` is that of the upstream.
    fn answer<'m>(
        &self,
        mut exchange: Exchange,
        message: &'m [u8],
        is_readable: bool,
    ) -> Cow<'m, [u8]> {
        let mut message = replace_invalid_utf8(message);
        let check = if is_readable {
            check_answer(&message, exchange.id(), &exchange.endpoint)
        } else {
            let id = find_id(&message).map(|id| splice(&message, id, exchange.id()));
            id.map_or(AnswerCheck::Valid, AnswerCheck::Repaired)
        };
        match check {
            AnswerCheck::Valid => {}
            AnswerCheck::Repaired(repaired) => message = Cow::Owned(repaired),
            AnswerCheck::Invalid(reason) => {
                let failure = Failure::invalid_answer(&self.upstream, &reason);
                return Cow::Owned(self.failed(&exchange, &failure));
            }
        }
        if let Some(recorder) = &self.recorder {
            match exchange.endpoint.as_str() {
                "tools/list" => recorder.listed(&self.upstream, &message),
                "initialize" | "server/discover" if self.upstream.is_empty() => {
                    if let Some(name) = server_name(&message) {
                        recorder.name_upstream(&name);
                    }
                }
                _ => {}
            }
        }
        if exchange.endpoint == "initialize"
            && let Some(version) = text_at(&message, "/result/protocolVersion")
        {
            exchange.context.protocol_version.clone_from(&version);
            self.state().protocol_version = version;
        }
        let guarded = if exchange.endpoint == "initialize" {
            // The guard has nothing to do with a handshake, and may not be loaded yet.
            exchange.on_handshake(&message)
        } else {
            exchange.on_response(self.filter(), &message)
        };
        if let Some(recorder) = &self.recorder {
            let bytes = guarded.shaped.as_deref().unwrap_or(&message).len();
            exchange.record(recorder, guarded.decision.as_ref(), bytes, guarded.outcome);
        }
        guarded.shaped.map_or(message, Cow::Owned)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    use crate::engine::{Component, Engine, EngineOptions, HostServices};
    use crate::store::NoStore;
    use crate::store::clock::SystemClock;

    /// Returns a filter whose guard passes all messages.
    pub(crate) fn filter() -> Arc<Filter> {
        let engine = Engine::new(EngineOptions::default()).unwrap();
        let component =
            context_guard_test_stub::component_that(context_guard_test_stub::FORWARD).unwrap();
        let component = Arc::new(Component::load(&engine, &component).unwrap());
        let services = HostServices { store: Arc::new(NoStore), clock: Arc::new(SystemClock) };
        Arc::new(Filter::new(component, services, "", Vec::new()).unwrap())
    }

    /// Returns a session of the principal `p`.
    pub(crate) fn session() -> Session {
        Session::new(filter(), "p", "s")
    }

    #[test]
    fn requests_with_long_ids_are_refused() {
        let session = session();
        let id = "x".repeat(MAX_ID_BYTES);
        let request = format!(r#"{{"id":"{id}","method":"ping"}}"#);
        let passed = session.pass_from_client(request.as_bytes(), None);
        let refusal = String::from_utf8(passed.client.unwrap()).unwrap();
        assert!(refusal.contains("longer than 1024 bytes") && refusal.len() < 200, "{refusal}");
        assert!(passed.upstream.is_none() && !session.is_waiting());
    }
}
