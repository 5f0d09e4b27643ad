//! The filter for the MCP messages of other gateways. Each message passes the guard and is
//! recorded.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use context_guard_protocol::{Caller, Envelope, MessageFilter, Ticket, Verdict};
use lru::LruCache;

use crate::engine::CallContext;
use crate::exchange::{Exchange, NextStep};
use crate::filter::Filter;
use crate::message::Head;
use crate::protocol_mode::ClientInfo;
use crate::store::own_scope;
use crate::telemetry::{Outcome, Recorder};

/// The maximum number of sessions whose client software is recorded.
const MAX_SESSIONS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);

/// The guard that all exchanges of other gateways share.
pub(crate) struct ExternalGuard {
    pub(crate) filter: Arc<Filter>,
    pub(crate) recorder: Arc<Recorder>,
    /// The name of the client software of each session, because only the first request contains it.
    clients: Mutex<LruCache<String, String>>,
}

impl ExternalGuard {
    pub(crate) fn new(filter: Arc<Filter>, recorder: Arc<Recorder>) -> Self {
        Self { filter, recorder, clients: Mutex::new(LruCache::new(MAX_SESSIONS)) }
    }

    /// Creates the exchange of a JSON-RPC request. `request_id` is its id in telemetry.
    pub(crate) fn begin(&self, caller: &Caller, request_id: String, message: &[u8]) -> Exchange {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let context = CallContext {
            principal: own_scope(&caller.principal).into_owned(),
            session: caller.session.clone(),
            request_id,
            upstream: caller.upstream.clone(),
            protocol_version: caller.protocol_version.clone(),
            client_name: caller.client.clone().or_else(|| clients.get(&caller.session).cloned()),
            lists_tools: caller.server.clone(),
            ..CallContext::default()
        };
        drop(clients);
        Exchange::of_request(context, Head::read(message).as_ref(), Some(&self.recorder))
    }

    /// Passes a request through the filter. Records the request if the guard answers it.
    pub(crate) fn on_request(
        &self,
        exchange: &mut Exchange,
        message: &[u8],
        may_use_cache: bool,
    ) -> NextStep {
        let next = if may_use_cache {
            exchange.on_request(&self.filter, message)
        } else {
            exchange.on_request_uncached(&self.filter, message)
        };
        match &next {
            NextStep::Answer(answer, decision) => {
                exchange.record(&self.recorder, Some(decision), answer.len(), Outcome::Passed);
            }
            NextStep::Forward(_) => exchange.audit_references(&self.recorder),
        }
        next
    }

    /// Passes the response to a request through the filter, and records it. Returns the message for
    /// the client, or `None` if the response is unchanged.
    pub(crate) fn on_response(&self, exchange: &Exchange, message: &[u8]) -> Option<Vec<u8>> {
        if exchange.endpoint == "tools/list" {
            self.recorder.listed(&exchange.context.upstream, message);
        }
        let guarded = if exchange.endpoint == "initialize" {
            exchange.on_handshake(message)
        } else {
            exchange.on_response(&self.filter, message)
        };
        let bytes = guarded.shaped.as_ref().map_or(message.len(), Vec::len);
        exchange.record(&self.recorder, guarded.decision.as_ref(), bytes, guarded.outcome);
        guarded.shaped
    }
}

/// The filter of the messages of one HTTP exchange.
pub(crate) struct ExternalMessages {
    guard: Arc<ExternalGuard>,
    /// The requests that were forwarded. A ticket is an index in this list.
    exchanges: Vec<Exchange>,
    /// The name of the client software in an `initialize` request. `None` before such a request,
    /// and after its session id is known.
    client_name: Option<String>,
    is_api: bool,
}

impl ExternalMessages {
    /// Creates the filter of an exchange. `is_api` is true for requests to plain JSON APIs. The
    /// cache does not answer those, because their responses have their own headers.
    pub(crate) fn new(guard: Arc<ExternalGuard>, is_api: bool) -> Self {
        Self { guard, exchanges: Vec::new(), client_name: None, is_api }
    }

    /// Records the client software of the session `session`, which this exchange opened.
    pub(crate) fn session_opened(&mut self, session: String) {
        if let Some(name) = self.client_name.take() {
            let clients = self.guard.clients.lock();
            clients.unwrap_or_else(PoisonError::into_inner).put(session, name);
        }
    }

    fn pending(&mut self, exchange: Exchange) -> Ticket {
        self.exchanges.push(exchange);
        Ticket::Guard((self.exchanges.len() - 1).to_le_bytes().to_vec())
    }
}

impl MessageFilter for ExternalMessages {
    fn on_request(&mut self, caller: &Caller, message: &[u8]) -> Verdict {
        let envelope = Envelope::read(message);
        let request = envelope.and_then(|envelope| Some((envelope.id()?, envelope.method?)));
        let Some((id, method)) = request else { return Verdict::Forward(None, Ticket::Pass) };
        let id = match self.is_api {
            true => self.guard.recorder.next_request(),
            false => id.as_str().to_owned(),
        };
        let is_handshake = method == "initialize";
        let mut exchange = self.guard.begin(caller, id, message);
        if is_handshake {
            // The guard has nothing to do with a handshake.
            let head = Head::read(message);
            let client = head.and_then(|head| ClientInfo::from_initialize(&head).ok());
            self.client_name = client.and_then(|client| client.name());
            return Verdict::Forward(None, self.pending(exchange));
        }
        match self.guard.on_request(&mut exchange, message, !self.is_api) {
            NextStep::Answer(answer, _) => Verdict::Answer(answer),
            NextStep::Forward(changed) => Verdict::Forward(changed, self.pending(exchange)),
        }
    }

    fn on_response(&mut self, _: &Caller, ticket: &Ticket, message: &[u8]) -> Option<Vec<u8>> {
        let Ticket::Guard(index) = ticket else { return None };
        let index = usize::from_le_bytes(index.as_slice().try_into().ok()?);
        self.guard.on_response(self.exchanges.get(index)?, message)
    }
}
