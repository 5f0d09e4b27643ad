//! One HTTP request that Envoy processes, with its response, as messages of `ext_proc`.
//!
//! Envoy sends bodies in one of two ways, which its configuration determines:
//!
//! - `FULL_DUPLEX_STREAMED`: Envoy sends chunks as they arrive, and waits for the replies. Heads
//!   wait for decisions about bodies, and bodies up to their size limits are shaped.
//! - Otherwise the guard asks for each body by `mode_override`. Short bodies are `BUFFERED`, so
//!   that Envoy still has them if this process ends. Longer ones are `STREAMED`: the guard removes
//!   the bytes from each chunk and puts the shaped body into the last.

use std::sync::Arc;

use context_guard_grpc::ext_proc::processing_request::Request;
use context_guard_grpc::ext_proc::{HttpBody, HttpHeaders, ProcessingResponse};
use context_guard_protocol::http::{
    HttpResponse, Replacement, RequestAction, RequestHead, ResponseAction, ResponseHead,
};
use context_guard_protocol::{HttpExchange, MessageFilter as _, Settings, header as headers};

use super::collected_body::{BodyState, CollectedBody};
use super::envoy_replies::{BodyChange, CONTENT_LENGTH, Direction, HeadChange, Overrides, Replies};
use super::messages::{ExternalGuard, ExternalMessages};
use super::transfers::{self, Transfers};
use crate::memory_shares::MemoryShares;
use crate::tasks::GuardInput;

/// The state of one HTTP request and its response.
pub(crate) struct EnvoyExchange {
    guard: Arc<ExternalGuard>,
    settings: Settings,
    transfers: Transfers,
    /// The memory for the bodies of all exchanges.
    bodies: Arc<MemoryShares>,
    exchange: Option<HttpExchange>,
    messages: ExternalMessages,
    request: BodyState,
    response: BodyState,
    /// The changes of the request's head, which are sent after its body was processed.
    request_head: HeadChange,
    /// The headers of the request that repeat parts of its body.
    mcp_headers: Vec<&'static str>,
    /// The HTTP status of the upstream's response.
    status: u16,
}

impl EnvoyExchange {
    pub(crate) fn new(
        guard: Arc<ExternalGuard>,
        settings: Settings,
        transfers: Transfers,
        bodies: Arc<MemoryShares>,
    ) -> Self {
        Self {
            bodies,
            messages: ExternalMessages::new(Arc::clone(&guard), false),
            guard,
            settings,
            transfers,
            exchange: None,
            request: BodyState::Pass,
            response: BodyState::Pass,
            request_head: HeadChange::default(),
            mcp_headers: Vec::new(),
            status: 200,
        }
    }

    /// Returns the message that the guard processes when [`Self::handle`] receives this part.
    /// `None` if the guard does not run.
    pub(crate) fn guard_input<'p>(&self, part: &'p Request) -> Option<GuardInput<'p>> {
        let (state, body, is_request) = match part {
            Request::RequestHeaders(_) | Request::ResponseHeaders(_) => return None,
            Request::RequestBody(body) => (&self.request, Some(body), true),
            Request::ResponseBody(body) => (&self.response, Some(body), false),
            Request::RequestTrailers(_) => (&self.request, None, true),
            Request::ResponseTrailers(_) => (&self.response, None, false),
        };
        let before = match state {
            BodyState::Pass | BodyState::Drop => return None,
            BodyState::Collect(_) if body.is_some_and(|body| !body.end_of_stream) => return None,
            BodyState::Collect(body) => body.len(),
            BodyState::Whole => 0,
            // An event may have begun in an earlier part.
            BodyState::Events => return Some(GuardInput::Parts),
        };
        Some(match body {
            Some(body) if before == 0 && is_request => GuardInput::Request(&body.body),
            Some(body) if before == 0 => GuardInput::Response(&body.body),
            _ => GuardInput::Parts,
        })
    }

    /// Returns the caller of the request. `None` before its head has arrived.
    pub(crate) fn caller(&self) -> Option<&context_guard_protocol::Caller> {
        self.exchange.as_ref()?.caller()
    }

    /// Handles a message from Envoy. Returns the messages to send to Envoy.
    ///
    /// # Errors
    /// The reason why the exchange cannot continue.
    pub(crate) fn handle(
        &mut self,
        request: Request,
    ) -> Result<Vec<ProcessingResponse>, &'static str> {
        Ok(match request {
            Request::RequestHeaders(head) => self.on_request_head(&head),
            Request::RequestBody(body) => self.on_request_body(body),
            Request::RequestTrailers(_) => self.on_request_trailers(),
            Request::ResponseHeaders(head) => self.on_response_head(&head),
            Request::ResponseBody(body) => self.on_response_body(body),
            Request::ResponseTrailers(_) => return self.on_response_trailers(),
        })
    }

    /// Returns the state of a body that is collected, of at most `max_bytes` bytes.
    fn collect(&self, max_bytes: usize) -> BodyState {
        let principal = self.caller().map_or("", |caller| &caller.principal);
        BodyState::Collect(CollectedBody::new(max_bytes, &self.bodies, principal))
    }

    fn is_duplex(&self, direction: Direction) -> bool {
        match direction {
            Direction::Request => self.transfers.request_is_duplex,
            Direction::Response => self.transfers.response_is_duplex,
        }
    }

    fn replies(&self, direction: Direction) -> Replies {
        Replies::new(direction, self.is_duplex(direction))
    }

    fn on_request_head(&mut self, head: &HttpHeaders) -> Vec<ProcessingResponse> {
        let lookup = |name: &str| header(head, name);
        let method = lookup(":method").unwrap_or_default();
        let target = lookup(":path").unwrap_or_default();
        let known = RequestHead { method: &method, target: &target, header: &lookup };
        let exchange = HttpExchange::open(&self.settings, &known);
        let needs_body = exchange.needs_request_body();
        let replies = self.replies(Direction::Request);
        if exchange.is_ignored() || (needs_body && head.end_of_stream) {
            return replies.head(&HeadChange::default(), &Overrides::IGNORE).into();
        }
        self.messages = ExternalMessages::new(Arc::clone(&self.guard), !needs_body);
        self.exchange = Some(exchange);
        let known = [headers::MCP_METHOD, headers::MCP_NAME].into_iter();
        self.mcp_headers = known.filter(|name| lookup(name).is_some()).collect();
        // A compressed response could not be read.
        self.request_head.remove.push("accept-encoding");
        if !needs_body {
            self.request_head.remove.extend(headers::PARTIAL_REQUEST_HEADERS);
            let (change, _) = match self.decide_request(b"") {
                Ok(forwarded) => forwarded,
                Err(response) => return replies.immediate(&response).into(),
            };
            return replies.head(&change, &Overrides::SEND_RESPONSE_HEAD).into();
        }
        let max_bytes = self.settings.max_buffered;
        if content_length(head).is_some_and(|length| length > max_bytes) {
            return match self.refuse_request() {
                Some(response) => replies.immediate(&response).into(),
                None => replies.head(&HeadChange::default(), &Overrides::IGNORE).into(),
            };
        }
        if self.is_duplex(Direction::Request) {
            self.request = self.collect(max_bytes);
            return Vec::new();
        }
        self.request = BodyState::Whole;
        let change = std::mem::take(&mut self.request_head);
        replies.head(&change, &Overrides::SEND_REQUEST_BODY).into()
    }

    /// Processes a request. Returns the changes of its head, and its new body if the body changes.
    ///
    /// # Errors
    /// The guard's own response, if the request is not forwarded.
    fn decide_request(
        &mut self,
        body: &[u8],
    ) -> Result<(HeadChange, Option<Vec<u8>>), HttpResponse> {
        let mut change = std::mem::take(&mut self.request_head);
        let Some(exchange) = &mut self.exchange else { return Ok((change, None)) };
        match exchange.on_request(&mut self.messages, body) {
            RequestAction::Respond(response) => {
                self.exchange = None;
                Err(response)
            }
            RequestAction::Forward { body, target, mcp_headers } => {
                change.set.extend(target.map(|target| (":path", target)));
                let known = mcp_headers.into_iter();
                for (name, value) in known.filter(|(name, _)| self.mcp_headers.contains(name)) {
                    match value {
                        Some(value) => change.set.push((name, value)),
                        None => change.remove.push(name),
                    }
                }
                if let Some(body) = &body {
                    change.set.push((CONTENT_LENGTH, body.len().to_string()));
                }
                Ok((change, body))
            }
        }
    }

    /// Records that a request exceeds the size limit. Returns the response, or `None` if the
    /// request is forwarded without the guard.
    fn refuse_request(&mut self) -> Option<HttpResponse> {
        self.messages.on_limit_exceeded();
        self.exchange = None;
        self.request = BodyState::Pass;
        HttpResponse::request_too_long(&self.settings)
    }

    fn on_request_body(&mut self, part: HttpBody) -> Vec<ProcessingResponse> {
        let replies = self.replies(Direction::Request);
        match &mut self.request {
            BodyState::Whole => {
                self.request = BodyState::Pass;
                match self.decide_request(&part.body) {
                    Err(response) => replies.immediate(&response).into(),
                    Ok((change, body)) => {
                        let body = body.map_or(BodyChange::None, BodyChange::Replace);
                        replies.changed_body(&change, body).into()
                    }
                }
            }
            BodyState::Collect(body) => {
                if !body.push(&part.body) {
                    let body = std::mem::replace(&mut self.request, BodyState::Pass).into_bytes();
                    return match self.refuse_request() {
                        Some(response) => replies.immediate(&response).into(),
                        None => replies.forward(HeadChange::default(), body, part.end_of_stream),
                    };
                }
                if part.end_of_stream { self.finish_request(true) } else { Vec::new() }
            }
            _ => replies.pass(part),
        }
    }

    /// Processes the collected request body. `is_last` is true if no trailers follow.
    fn finish_request(&mut self, is_last: bool) -> Vec<ProcessingResponse> {
        let replies = self.replies(Direction::Request);
        let BodyState::Collect(body) = std::mem::replace(&mut self.request, BodyState::Pass) else {
            return Vec::new();
        };
        let body = body.into_bytes();
        match self.decide_request(&body) {
            Err(response) => replies.immediate(&response).into(),
            Ok((change, changed)) => replies.forward(change, changed.unwrap_or(body), is_last),
        }
    }

    fn on_request_trailers(&mut self) -> Vec<ProcessingResponse> {
        let mut replies = self.finish_request(false);
        if !replies.iter().any(Replies::is_immediate) {
            replies.push(self.replies(Direction::Request).trailers());
        }
        replies
    }

    fn on_response_head(&mut self, head: &HttpHeaders) -> Vec<ProcessingResponse> {
        let replies = self.replies(Direction::Response);
        let pass = || replies.head(&HeadChange::default(), &Overrides::IGNORE).into();
        if let Some(session) = header(head, "mcp-session-id") {
            self.messages.session_opened(session);
        }
        self.status = header(head, ":status").and_then(|status| status.parse().ok()).unwrap_or(200);
        // An upstream answers, although Envoy has not sent the body for which the guard asked.
        // Envoy's own errors pass, such as that of a body above its buffer limit.
        if matches!(self.request, BodyState::Whole) && self.status < 400 {
            return replies.immediate(&transfers::refusal()).into();
        }
        let Some(exchange) = &mut self.exchange else { return pass() };
        let content_type = header(head, "content-type").unwrap_or_default();
        let known = ResponseHead {
            status: self.status,
            content_type: &content_type,
            is_encoded: headers::is_encoded(header(head, "content-encoding").as_deref()),
            content_length: content_length(head),
        };
        let action = exchange.on_response(&known);
        let unsized_head = HeadChange { remove: vec![CONTENT_LENGTH], ..HeadChange::default() };
        match action {
            ResponseAction::Respond(response) => replies.immediate(&response).into(),
            ResponseAction::Pass => pass(),
            // No message about a body follows.
            _ if head.end_of_stream => pass(),
            ResponseAction::TooLong => match exchange.on_oversized_body(&mut self.messages, true) {
                Some(replacement) => replies.immediate(&self.response_of(replacement)).into(),
                None => pass(),
            },
            ResponseAction::Events => {
                self.response = BodyState::Events;
                replies.head(&unsized_head, &Overrides::STREAM_RESPONSE).into()
            }
            ResponseAction::Collect { max_bytes, .. } if self.is_duplex(Direction::Response) => {
                self.response = self.collect(max_bytes);
                Vec::new()
            }
            ResponseAction::Collect { max_bytes, with_head } => {
                let is_short =
                    known.content_length.is_some_and(|length| length <= self.settings.max_buffered);
                // Only the head of a buffered body can still change.
                if (with_head || is_short) && !self.transfers.response_is_streamed {
                    self.response = BodyState::Whole;
                    return replies
                        .head(&HeadChange::default(), &Overrides::BUFFER_RESPONSE)
                        .into();
                }
                self.response = self.collect(max_bytes);
                replies.head(&unsized_head, &Overrides::STREAM_RESPONSE).into()
            }
        }
    }

    /// Returns the replacement of a response whose head was not sent yet, as a whole response.
    fn response_of(&self, replacement: Replacement) -> HttpResponse {
        match replacement {
            Replacement::Response(response) => response,
            Replacement::Body(body) => HttpResponse::json(self.status, body),
        }
    }

    fn on_response_body(&mut self, part: HttpBody) -> Vec<ProcessingResponse> {
        let replies = self.replies(Direction::Response);
        let Some(exchange) = &mut self.exchange else { return replies.pass(part) };
        match &mut self.response {
            BodyState::Pass => replies.pass(part),
            BodyState::Drop => replies.replace_part(Vec::new(), part.end_of_stream),
            BodyState::Events => {
                let is_last = part.end_of_stream;
                let sent = exchange.on_events(&mut self.messages, &part.body, is_last);
                if sent == part.body {
                    replies.pass(part)
                } else {
                    replies.replace_part(sent, is_last)
                }
            }
            BodyState::Whole => {
                self.response = BodyState::Pass;
                let replacement = exchange.on_body(&mut self.messages, &part.body);
                let Some(replacement) = replacement else { return replies.pass(part) };
                let change = HeadChange::for_replacement(&replacement);
                let body = BodyChange::Replace(into_body(replacement));
                replies.changed_body(&change, body).into()
            }
            BodyState::Collect(body) => {
                if !body.push(&part.body) {
                    return self.on_oversized_response(part.end_of_stream);
                }
                if part.end_of_stream {
                    return self.finish_response(true);
                }
                if self.is_duplex(Direction::Response) {
                    return Vec::new();
                }
                replies.replace_part(Vec::new(), false)
            }
        }
    }

    /// Replaces or forwards a response body that exceeds the size limit. `is_last` is true for its
    /// last part.
    fn on_oversized_response(&mut self, is_last: bool) -> Vec<ProcessingResponse> {
        let replies = self.replies(Direction::Response);
        let state = std::mem::replace(&mut self.response, BodyState::Pass);
        let (BodyState::Collect(body), Some(exchange)) = (state, &mut self.exchange) else {
            return Vec::new();
        };
        let body = body.into_bytes();
        let replacement = exchange.on_oversized_body(&mut self.messages, true);
        match (replacement, self.is_duplex(Direction::Response)) {
            (Some(replacement), true) => replies.immediate(&self.response_of(replacement)).into(),
            (Some(replacement), false) => {
                self.response = BodyState::Drop;
                replies.replace_part(into_body(replacement), is_last)
            }
            (None, true) => replies.forward(HeadChange::default(), body, is_last),
            (None, false) => replies.replace_part(body, is_last),
        }
    }

    /// Shapes the collected response body. `is_last` is true if no trailers follow.
    fn finish_response(&mut self, is_last: bool) -> Vec<ProcessingResponse> {
        let replies = self.replies(Direction::Response);
        let state = std::mem::replace(&mut self.response, BodyState::Pass);
        let (BodyState::Collect(body), Some(exchange)) = (state, &mut self.exchange) else {
            return Vec::new();
        };
        let body = body.into_bytes();
        let replacement = exchange.on_body(&mut self.messages, &body);
        let change = replacement.as_ref().map(HeadChange::for_replacement).unwrap_or_default();
        let body = replacement.map_or(body, into_body);
        if self.is_duplex(Direction::Response) {
            return replies.forward(change, body, is_last);
        }
        replies.replace_part(body, is_last)
    }

    fn on_response_trailers(&mut self) -> Result<Vec<ProcessingResponse>, &'static str> {
        let is_duplex = self.is_duplex(Direction::Response);
        let mut replies = match (&self.response, &mut self.exchange) {
            (BodyState::Collect(body), _) if !is_duplex && body.len() > 0 => {
                // No chunk was marked as the last, and Envoy accepts no more body now. A reset is
                // better than a truncated answer.
                return Err("the response has trailers: use FULL_DUPLEX_STREAMED");
            }
            (BodyState::Events, Some(exchange)) if is_duplex => {
                let sent = exchange.on_events(&mut self.messages, b"", true);
                let replies = self.replies(Direction::Response);
                if sent.is_empty() { Vec::new() } else { replies.replace_part(sent, false) }
            }
            _ if is_duplex => self.finish_response(false),
            _ => Vec::new(),
        };
        replies.push(self.replies(Direction::Response).trailers());
        Ok(replies)
    }
}

fn into_body(replacement: Replacement) -> Vec<u8> {
    let (Replacement::Body(body) | Replacement::Response(HttpResponse { body, .. })) = replacement;
    body
}

/// Returns the value of a header. `name` must be in lower case, as Envoy sends names.
pub(super) fn header(head: &HttpHeaders, name: &str) -> Option<String> {
    let all = head.headers.as_ref()?.headers.iter();
    let values: Vec<&[u8]> = all
        .filter(|header| header.key == name)
        .map(|header| match header.raw_value.as_ref() {
            b"" => header.value.as_bytes(),
            raw => raw,
        })
        .collect();
    (!values.is_empty()).then(|| String::from_utf8_lossy(&values.join(&b", "[..])).into_owned())
}

fn content_length(head: &HttpHeaders) -> Option<usize> {
    header(head, CONTENT_LENGTH)?.trim().parse().ok()
}
