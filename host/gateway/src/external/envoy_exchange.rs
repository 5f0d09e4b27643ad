//! One HTTP request that Envoy processes, with its response, as messages of `ext_proc`.
//!
//! Envoy sends bodies in one of two ways, which its configuration determines:
//!
//! - `FULL_DUPLEX_STREAMED`: Envoy sends chunks as they arrive, and waits for the replies. Heads
//!   wait for decisions about bodies, and bodies up to their size limits are shaped.
//! - Otherwise the guard asks for each body by `mode_override`. Short bodies are `BUFFERED`, so
//!   that Envoy still has them if this process ends. Longer ones are `STREAMED`: the guard removes
//!   the bytes from each chunk and puts the shaped body into the last.

mod upstream_response;

use std::sync::Arc;

use context_guard_grpc::ext_proc::processing_request::Request;
use context_guard_grpc::ext_proc::{HttpBody, HttpHeaders, ProcessingResponse};
use context_guard_protocol::code::REFUSED;
use context_guard_protocol::http::{HttpResponse, RequestAction, RequestHead};
use context_guard_protocol::{
    HttpExchange, MessageFilter as _, Settings, header as headers, response,
};
use tokio_util::sync::CancellationToken;

use self::upstream_response::content_length;
use super::body_memory::EnvoyBodyMemory;
use super::collected_body::{BodyExcess, BodyState, CollectedBody};
use super::envoy_replies::{BodyChange, CONTENT_LENGTH, Direction, HeadChange, Overrides, Replies};
use super::messages::{ExternalGuard, ExternalMessages};
use super::transfers::Transfers;
use crate::config::Timeouts;
use crate::tasks::GuardInput;

/// The state of one HTTP request and its response.
pub(crate) struct EnvoyExchange {
    guard: Arc<ExternalGuard>,
    settings: Settings,
    transfers: Transfers,
    /// The memory for the bodies of all exchanges.
    bodies: Arc<EnvoyBodyMemory>,
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
        bodies: Arc<EnvoyBodyMemory>,
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
            BodyState::Events(_) => return Some(GuardInput::Parts),
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

    /// Returns true if the next message from Envoy is a part of a request body that is collected.
    pub(crate) fn collects_request(&self) -> bool {
        matches!(self.request, BodyState::Collect(_))
    }

    /// Returns the token that is cancelled when other bodies need the memory of this exchange.
    /// [`Self::give_up`] releases it. `None` if the exchange uses no memory.
    pub(crate) fn given_up(&self) -> Option<CancellationToken> {
        self.request.share().or(self.response.share())?.given_up()
    }

    /// Releases the memory of the body that is collected. Returns the messages to send to Envoy.
    ///
    /// # Errors
    /// The reason why the exchange cannot continue: unless it is `FULL_DUPLEX_STREAMED`, Envoy
    /// accepts no message before the next part of the body.
    pub(crate) fn give_up(&mut self) -> Result<Vec<ProcessingResponse>, &'static str> {
        if self.collects_request() {
            return Ok(self.give_up_request(BodyExcess::NoMemory, false));
        }
        if !self.is_duplex(Direction::Response) {
            return Err("other bodies need the memory of a response");
        }
        let (BodyState::Events(share), Some(exchange)) = (&mut self.response, &mut self.exchange)
        else {
            return Ok(self.on_oversized_response(false));
        };
        let sent = exchange.on_oversized_event(&mut self.messages);
        share.resize(0);
        Ok(self.replies(Direction::Response).replace_part(sent, false))
    }

    /// Refuses a request whose body does not arrive within the time limits. Returns the messages to
    /// send to Envoy.
    pub(crate) fn refuse_slow_request(&mut self, timeouts: &Timeouts) -> Vec<ProcessingResponse> {
        self.guard.recorder.refused(self.principal(), "slow", "");
        self.exchange = None;
        self.request = BodyState::Pass;
        self.replies(Direction::Request).immediate(&request_timeout(timeouts)).into()
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

    fn principal(&self) -> &str {
        self.caller().map_or("", |caller| &caller.principal)
    }

    /// Returns the state of a body that is collected, of at most `max_bytes` bytes.
    fn collect(&self, max_bytes: usize) -> BodyState {
        BodyState::Collect(CollectedBody::new(max_bytes, &self.bodies, self.principal()))
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
            return match self.refuse_request(BodyExcess::TooLong) {
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

    /// Records that a request exceeds a limit. Returns the response, or `None` if the request is
    /// forwarded without the guard.
    fn refuse_request(&mut self, excess: BodyExcess) -> Option<HttpResponse> {
        self.messages.on_limit_exceeded();
        self.exchange = None;
        self.request = BodyState::Pass;
        let too_long = HttpResponse::request_too_long(&self.settings)?;
        Some(match excess {
            BodyExcess::TooLong => too_long,
            BodyExcess::NoMemory => try_again(),
        })
    }

    /// Refuses or forwards a request whose body exceeds a limit. `is_last` is true if its last part
    /// has arrived.
    fn give_up_request(&mut self, excess: BodyExcess, is_last: bool) -> Vec<ProcessingResponse> {
        let replies = self.replies(Direction::Request);
        if excess == BodyExcess::NoMemory {
            self.guard.recorder.refused(self.principal(), "memory", "");
        }
        let body = std::mem::replace(&mut self.request, BodyState::Pass).into_bytes();
        match self.refuse_request(excess) {
            Some(response) => replies.immediate(&response).into(),
            None => replies.forward(HeadChange::default(), body, is_last),
        }
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
                if let Err(excess) = body.push(&part.body) {
                    return self.give_up_request(excess, part.end_of_stream);
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
}

/// Returns the response to a request whose body does not arrive within the time limits.
fn request_timeout(timeouts: &Timeouts) -> HttpResponse {
    let text = format!(
        "The request body did not arrive in time: {} s for each part (timeouts.bodyPartSeconds), {} s in total (timeouts.bodySeconds).",
        timeouts.body_part_seconds, timeouts.body_seconds
    );
    HttpResponse::json(408, response::error("null", REFUSED, &text))
}

/// Returns the response to a request whose body was given up, because other bodies need its memory.
fn try_again() -> HttpResponse {
    let text = "The gateway is receiving as many bytes as it can take. Try again soon.";
    let mut response = HttpResponse::json(503, response::error("null", REFUSED, text));
    response.headers.push(("retry-after", "1".to_owned()));
    response
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    use context_guard_grpc::ext_proc::body_mutation::Mutation;
    use context_guard_grpc::ext_proc::processing_response::Response;
    use context_guard_grpc::ext_proc::{HeaderMap, HeaderValue};

    use crate::session::tests::filter;
    use crate::store::clock::SystemClock;
    use crate::telemetry::Recorder;

    pub(crate) fn guard() -> Arc<ExternalGuard> {
        let recorder = Arc::new(Recorder::new(0, None, Arc::new(SystemClock)));
        Arc::new(ExternalGuard::new(filter(), recorder))
    }

    fn head(headers: &[(&str, &str)]) -> HttpHeaders {
        let header = |(key, value): &(&str, &str)| HeaderValue {
            key: (*key).to_owned(),
            value: (*value).to_owned(),
            ..HeaderValue::default()
        };
        let headers = headers.iter().map(header).collect();
        HttpHeaders { headers: Some(HeaderMap { headers }), ..HttpHeaders::default() }
    }

    /// Returns the head of a request with an MCP message, of the principal that `key` identifies.
    pub(crate) fn request_head(key: &str) -> Request {
        Request::RequestHeaders(head(&[
            (":method", "POST"),
            (":path", "/mcp"),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("authorization", key),
        ]))
    }

    /// Returns a part of a body.
    pub(crate) fn body(part: &'static [u8], end_of_stream: bool) -> HttpBody {
        HttpBody { body: part.into(), end_of_stream }
    }

    pub(crate) const DUPLEX: Transfers = Transfers {
        request_is_duplex: true,
        response_is_duplex: true,
        response_is_streamed: false,
    };

    fn exchange(guard: &Arc<ExternalGuard>, memory: &Arc<EnvoyBodyMemory>) -> EnvoyExchange {
        let (guard, memory) = (Arc::clone(guard), Arc::clone(memory));
        EnvoyExchange::new(guard, Settings::default(), DUPLEX, memory)
    }

    /// Returns the status of the guard's own response, if a message has one.
    pub(crate) fn immediate_status(messages: &[ProcessingResponse]) -> Option<i32> {
        messages.iter().find_map(|message| match &message.response {
            Some(Response::ImmediateResponse(own)) => Some(own.status.as_ref()?.code),
            _ => None,
        })
    }

    fn is_given_up(exchange: &EnvoyExchange) -> bool {
        exchange.given_up().is_some_and(|token| token.is_cancelled())
    }

    #[test]
    fn oldest_request_is_refused_if_all_exceed_the_memory() {
        let (guard, memory) = (guard(), EnvoyBodyMemory::new(100, 100));
        let mut exchanges: Vec<_> = ["a", "b", "c"]
            .map(|key| {
                let mut exchange = exchange(&guard, &memory);
                assert!(exchange.handle(request_head(key)).unwrap().is_empty());
                exchange
            })
            .into();
        for exchange in &mut exchanges {
            let sent = exchange.handle(Request::RequestBody(body(&[b' '; 45], false))).unwrap();
            assert!(sent.is_empty());
        }
        assert_eq!([0, 1, 2].map(|at| is_given_up(&exchanges[at])), [true, false, false]);
        assert_eq!(immediate_status(&exchanges[0].give_up().unwrap()), Some(503));
        assert!(!exchanges[0].collects_request());
    }

    #[test]
    fn incomplete_events_use_the_memory_of_bodies() {
        let (guard, memory) = (guard(), EnvoyBodyMemory::new(100, 100));
        let mut stream = exchange(&guard, &memory);
        stream.handle(request_head("a")).unwrap();
        let call = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        stream.handle(Request::RequestBody(body(call, true))).unwrap();
        let events = head(&[(":status", "200"), ("content-type", "text/event-stream")]);
        stream.handle(Request::ResponseHeaders(events)).unwrap();
        stream.handle(Request::ResponseBody(body(b": hello\n\ndata: {", false))).unwrap();
        assert!(stream.given_up().is_some());
        let mut other = exchange(&guard, &memory);
        other.handle(request_head("b")).unwrap();
        other.handle(Request::RequestBody(body(&[b' '; 95], false))).unwrap();
        assert!(is_given_up(&stream) && !is_given_up(&other));
        let sent = stream.give_up().unwrap();
        let [ProcessingResponse { response: Some(Response::ResponseBody(sent)), .. }] = &*sent
        else {
            panic!("{sent:?}");
        };
        let mutation = sent.response.as_ref().unwrap().body_mutation.as_ref().unwrap();
        let Some(Mutation::StreamedResponse(event)) = &mutation.mutation else {
            panic!("{mutation:?}");
        };
        let event = String::from_utf8_lossy(&event.body);
        assert!(event.contains(r#""id":1,"error""#) && !event.contains("hello"), "{event}");
        // The stream continues. The rest of the event is dropped.
        let end = stream.handle(Request::ResponseBody(body(b"}\n\n: bye\n\n", true))).unwrap();
        assert!(stream.given_up().is_none() && !end.is_empty());
    }
}
