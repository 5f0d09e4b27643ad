//! MCP over Streamable HTTP: the requests of a POST, and their responses in its body or event
//! stream.

use std::borrow::Cow;

use crate::batch::{Body, join_batch};
use crate::filter::{Caller, MessageFilter, Ticket, Verdict};
use crate::head::{Envelope, Head, is_stateless_version};
use crate::http::{HttpResponse, RequestAction};
use crate::pending::PendingRequests;
use crate::request_fault::{RequestFault, batch_fault, request_fault};
use crate::response::FailedRequest;
use crate::sse::Event;

/// The state of one MCP POST: its requests whose responses are pending, and the answers that the
/// guard gave itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct McpExchange {
    caller: Caller,
    pending: PendingRequests<PendingRequest>,
    /// The guard's own answers to requests of a batch that were not sent yet.
    own_answers: Vec<Vec<u8>>,
    /// True after an event with an id. The client may then resume the stream later, and receive
    /// pending responses there.
    is_resumable: bool,
    /// True if the body of the request has a `content-encoding`.
    is_compressed: bool,
    /// True if the request may be one to another API, whose body the guard need not read.
    may_be_other: bool,
}

#[derive(Clone, Debug)]
struct PendingRequest {
    failed: FailedRequest,
    ticket: Ticket,
}

impl McpExchange {
    pub(crate) fn new(caller: Caller, is_compressed: bool, may_be_other: bool) -> Self {
        Self { caller, is_compressed, may_be_other, ..Self::default() }
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Passes each message of the request's body through the filter. Returns the action for the
    /// request: forward or answer it. Refuses a body that a server may read differently.
    pub(crate) fn on_request(
        &mut self,
        filter: &mut dyn MessageFilter,
        body: &[u8],
    ) -> RequestAction {
        let compressed =
            (self.is_compressed && !body.is_empty()).then_some(RequestFault::Compressed);
        if let Some(fault) = compressed.or_else(|| request_fault(body)) {
            if self.may_be_other && fault.is_of_body() {
                return RequestAction::UNCHANGED;
            }
            return RequestAction::Respond(fault.response());
        }
        let requests = Body::parse(body);
        if let Some(fault) = batch_fault(&requests, &self.caller.protocol_version) {
            return RequestAction::Respond(fault.response());
        }
        if self.caller.client.is_none()
            && is_stateless_version(&self.caller.protocol_version)
            && let Body::Single(message) = &requests
        {
            self.caller.client =
                Head::read(message).and_then(|head| head.parameters().client_name());
        }
        let (mut forwarded, mut is_changed, mut mcp_headers) = (Vec::new(), false, Vec::new());
        for message in requests.messages() {
            match filter.on_request(&self.caller, message) {
                Verdict::Answer(answer) => self.own_answers.push(answer),
                Verdict::Forward(changed, ticket) => {
                    if ticket != Ticket::Pass
                        && let Some(head) = Head::read(message)
                        && let Some(id) = head.request_id()
                    {
                        let failed = FailedRequest::new(&head, &self.caller.protocol_version);
                        self.pending.insert(id, PendingRequest { failed, ticket });
                    }
                    is_changed |= changed.is_some();
                    if let Some(head) = changed.as_deref().and_then(Head::read) {
                        mcp_headers = head.routing_headers().into();
                    }
                    forwarded.push(changed.map_or(Cow::Borrowed(*message), Cow::Owned));
                }
            }
        }
        let is_batch = matches!(requests, Body::Batch(_));
        if forwarded.is_empty() && !self.own_answers.is_empty() {
            return RequestAction::Respond(HttpResponse::json(200, self.take_own_body(is_batch)));
        }
        is_changed |= !self.own_answers.is_empty();
        let body = is_changed.then(|| match forwarded.as_slice() {
            [message] if !is_batch => message.to_vec(),
            messages => join_batch(messages),
        });
        // A batch has no name of its own. Revisions with these headers have no batches.
        if is_batch {
            mcp_headers.clear();
        }
        RequestAction::Forward { body, target: None, mcp_headers }
    }

    fn take_own_body(&mut self, is_batch: bool) -> Vec<u8> {
        match std::mem::take(&mut self.own_answers).as_slice() {
            [answer] if !is_batch => answer.clone(),
            answers => join_batch(answers),
        }
    }

    /// Returns true if every request is answered, and every answer of the guard was sent.
    pub(crate) fn is_done(&self) -> bool {
        self.pending.is_empty() && self.own_answers.is_empty()
    }

    /// Removes and returns the guard's own answers as a response. Used if the upstream's body has
    /// no messages, such as 202 on notifications. Returns `None` if there are no such answers.
    pub(crate) fn own_response(&mut self) -> Option<HttpResponse> {
        let has_answers = !self.own_answers.is_empty();
        has_answers.then(|| HttpResponse::json(200, self.take_own_body(true)))
    }

    /// Shapes the messages in a whole response body, or in an event's data. Returns `None` if the
    /// bytes pass unchanged.
    pub(crate) fn on_body(
        &mut self,
        filter: &mut dyn MessageFilter,
        body: &[u8],
    ) -> Option<Vec<u8>> {
        let answers = Body::parse(body);
        let own = std::mem::take(&mut self.own_answers);
        if let (Body::Single(message), true) = (&answers, own.is_empty()) {
            return self.on_message(filter, message);
        }
        let mut is_changed = !own.is_empty();
        let mut all: Vec<Cow<'_, [u8]>> = own.into_iter().map(Cow::Owned).collect();
        for message in answers.messages() {
            let shaped = self.on_message(filter, message);
            is_changed |= shaped.is_some();
            all.push(shaped.map_or(Cow::Borrowed(*message), Cow::Owned));
        }
        is_changed.then(|| join_batch(&all))
    }

    /// Shapes an upstream's message if it answers a pending request. Returns `None` if the message
    /// passes unchanged.
    fn on_message(&mut self, filter: &mut dyn MessageFilter, message: &[u8]) -> Option<Vec<u8>> {
        if self.pending.is_empty() {
            return None;
        }
        let envelope = Envelope::read(message).filter(|envelope| envelope.method.is_none())?;
        let PendingRequest { ticket, .. } = self.pending.remove(&envelope.id()?)?;
        filter.on_response(&self.caller, &ticket, message)
    }

    /// Removes and returns the guard's own answers, as events to send before the first event of the
    /// upstream.
    pub(crate) fn first_events(&mut self) -> Vec<u8> {
        let own = std::mem::take(&mut self.own_answers);
        own.iter().flat_map(|answer| Event::message(None, answer).0).collect()
    }

    /// Shapes the messages in an upstream event, and returns the bytes of the event to send.
    pub(crate) fn on_event(&mut self, filter: &mut dyn MessageFilter, event: Event) -> Vec<u8> {
        self.is_resumable |= event.id().is_some();
        let shaped = match event.data() {
            Some(data) if !data.is_empty() => self.on_body(filter, &data),
            _ => None,
        };
        shaped.map_or_else(|| event.0.clone(), |data| event.with_data(&data).0)
    }

    /// Returns the events to send at the end of the stream. They answer each pending request with
    /// the failure `code` and `reason`. Empty if the client may resume the stream.
    pub(crate) fn on_stream_end(&mut self, code: i64, reason: &str) -> Vec<u8> {
        if self.is_resumable {
            return Vec::new();
        }
        let failed = self.fail(code, reason);
        failed.iter().flat_map(|answer| Event::message(None, answer).0).collect()
    }

    /// Removes and returns the guard's own answers that were not sent yet, then a failure response
    /// to each pending request.
    pub(crate) fn fail(&mut self, code: i64, reason: &str) -> Vec<Vec<u8>> {
        let pending = self.pending.drain().into_iter();
        let failed = pending.map(|(_, request)| request.failed.response(code, reason));
        std::mem::take(&mut self.own_answers).into_iter().chain(failed).collect()
    }
}
