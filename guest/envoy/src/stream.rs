//! An exchange, driven by Envoy's callbacks.
//!
//! The filter takes the bytes of MCP answers out of each chunk, and replaces the last chunk by the
//! shaped body. Envoy buffers only answers of an API, up to `maxBuffered`, because their status and
//! headers may change.

mod waiting;

use std::rc::Rc;

use context_guard_protocol::HttpExchange;
use context_guard_protocol::header as headers;
use context_guard_protocol::http::{
    HttpResponse, Replacement, RequestAction, RequestHead, ResponseAction, ResponseHead,
};
use proxy_wasm::hostcalls::{reset_http_response, send_http_response, set_buffer};
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::{Action, BufferType, MapType};

use crate::envoy_message::{buffer, content_length, header, remove, replace_body, set};
use crate::guard::store_pass::StorePass;
use crate::guard::{CoreFilter, Shared};
use crate::pause_monitor::{Pause, PausedStream};
use crate::resumption::{LAST_EVENT_ID, ResumableStream, StreamOwner};
use waiting::Waiting;

/// The proxy-wasm context of one HTTP request and its response.
pub(crate) struct Stream {
    pub(crate) shared: Rc<Shared>,
    pub(crate) exchange: Option<HttpExchange>,
    /// The step that waits for the store of a gateway, if any.
    pub(crate) waiting: Waiting,
    /// The direction in which Envoy pauses the stream until its body is complete.
    paused: Rc<PausedStream>,
    response: BodyState,
    /// The owner of the response, if it may be an event stream that the client resumes later.
    owner: Option<StreamOwner>,
    resumable: Option<ResumableStream>,
}

/// The action of the filter on the chunks of the upstream's response body.
enum BodyState {
    Pass,
    /// The filter collects the chunks, to shape the body as a whole.
    Collect {
        body: Vec<u8>,
        max_bytes: usize,
        with_head: bool,
    },
    Events,
    /// The body was already replaced. Its remaining chunks are dropped.
    Drop,
}

impl Stream {
    pub(crate) fn new(shared: Rc<Shared>, context: u32) -> Self {
        let paused = PausedStream::new(context);
        Self {
            shared,
            exchange: None,
            waiting: Waiting::Nothing,
            paused,
            response: BodyState::Pass,
            owner: None,
            resumable: None,
        }
    }

    fn is_request_held(&self) -> bool {
        self.paused.pause() == Pause::Request
    }

    /// Forwards, answers or pauses a request whose body is complete. `body` is the request body in
    /// Envoy's buffer.
    fn finish_request(&mut self, body: Vec<u8>, pass: StorePass) -> Action {
        self.paused.resume();
        self.run_request(body, pass).unwrap_or(Action::Pause)
    }

    /// Forwards or answers a request according to `action`. `body` is the request body in Envoy's
    /// buffer.
    pub(crate) fn apply_request(&mut self, action: RequestAction, body: &[u8]) -> Action {
        let Some(exchange) = &mut self.exchange else { return Action::Continue };
        match action {
            RequestAction::Respond(response) => self.respond(&response),
            RequestAction::Forward { body: changed, target, mcp_headers } => {
                if exchange.is_pending() {
                    let owner = self.owner.take();
                    self.resumable = owner.and_then(|owner| ResumableStream::new(owner, body));
                }
                if let Some(target) = target {
                    set(MapType::HttpRequestHeaders, ":path", &target);
                }
                for (name, value) in mcp_headers {
                    match (header(MapType::HttpRequestHeaders, name), value) {
                        (Some(_), Some(value)) => set(MapType::HttpRequestHeaders, name, &value),
                        (Some(_), None) => remove(MapType::HttpRequestHeaders, name),
                        (None, _) => {}
                    }
                }
                if let Some(changed) = changed {
                    // With a wrong length, the upstream would read the rest of this body as its
                    // next request.
                    set(MapType::HttpRequestHeaders, "content-length", &changed.len().to_string());
                    let _ = set_buffer(BufferType::HttpRequestBody, 0, body.len(), &changed);
                }
                Action::Continue
            }
        }
    }

    /// Prepares the exchange for the answer of a stream that the client resumes. Does nothing if
    /// the stream is unknown.
    fn resume(&mut self, owner: StreamOwner, request: &[u8], exchange: HttpExchange) {
        let shared = Rc::clone(&self.shared);
        let (mut exchange, mut pass) = (exchange, StorePass::local());
        let mut filter = CoreFilter { shared: &shared, pass: &mut pass };
        let action = exchange.on_request(&mut filter, request);
        if matches!(action, RequestAction::Forward { .. }) && exchange.is_pending() {
            remove(MapType::HttpRequestHeaders, "accept-encoding");
            self.resumable = ResumableStream::new(owner, request);
            self.exchange = Some(exchange);
        }
    }

    /// Stores the request of an event stream that ended before its answer.
    fn suspend(&mut self) {
        let is_pending = self.exchange.as_ref().is_some_and(HttpExchange::is_pending);
        if let Some(resumable) = self.resumable.take().filter(|_| is_pending) {
            resumable.save(&self.shared);
        }
    }

    /// Sends a response of the guard to the client, as a local reply of Envoy.
    fn respond(&mut self, response: &HttpResponse) -> Action {
        self.exchange = None;
        let mut headers = vec![("content-type", response.content_type)];
        headers.extend(response.headers.iter().map(|(name, value)| (*name, value.as_str())));
        let _ = send_http_response(response.status.into(), headers, Some(&response.body));
        Action::Pause
    }

    /// Rejects or forwards a request that exceeds `maxBuffered`.
    fn on_oversized_request(&mut self) -> Action {
        self.paused.resume();
        self.shared.metrics.over_limit();
        match HttpResponse::request_too_long(&self.shared.settings) {
            Some(response) => self.respond(&response),
            None => {
                self.exchange = None;
                Action::Continue
            }
        }
    }

    /// Rejects or forwards a response whose `content-length` exceeds the limit, before its body is
    /// read. `status` is the status of the upstream's response.
    fn on_oversized_response(&mut self, status: u16) -> Action {
        let shared = Rc::clone(&self.shared);
        let Some(exchange) = &mut self.exchange else { return Action::Continue };
        let mut pass = StorePass::local();
        let mut filter = CoreFilter { shared: &shared, pass: &mut pass };
        match exchange.on_oversized_body(&mut filter, true) {
            Some(Replacement::Response(response)) => self.respond(&response),
            Some(Replacement::Body(body)) => self.respond(&HttpResponse::json(status, body)),
            None => Action::Continue,
        }
    }

    /// Collects a chunk of the response body. `end` is true for the last chunk, which is replaced
    /// by the shaped body.
    fn collect(&mut self, chunk: Vec<u8>, end: bool) -> Action {
        let shared = Rc::clone(&self.shared);
        let (BodyState::Collect { body, max_bytes, with_head }, Some(exchange)) =
            (&mut self.response, &mut self.exchange)
        else {
            return Action::Continue;
        };
        let (size, with_head) = (chunk.len(), *with_head);
        if body.is_empty() {
            *body = chunk;
        } else {
            body.extend_from_slice(&chunk);
        }
        let is_too_long = body.len() > *max_bytes;
        if !end && !is_too_long {
            let _ = set_buffer(BufferType::HttpResponseBody, 0, size, b"");
            return if with_head { Action::Pause } else { Action::Continue };
        }
        let body = std::mem::take(body);
        if !is_too_long {
            self.response = BodyState::Pass;
            let pass = StorePass::new(&shared);
            return self.run_body(body, pass, size, with_head);
        }
        // A body that consists of this chunk only is in Envoy's buffer already.
        let can_forward =
            !with_head || body.len() == size || body.len() <= shared.max_paused_bytes();
        let mut pass = StorePass::local();
        let mut filter = CoreFilter { shared: &shared, pass: &mut pass };
        let replacement = exchange.on_oversized_body(&mut filter, can_forward);
        let is_replaced = replacement.is_some();
        self.response = if is_replaced { BodyState::Drop } else { BodyState::Pass };
        replace_body(replacement.as_ref(), &body, size, with_head && (end || is_replaced));
        Action::Continue
    }

    /// Sends a whole response body or its replacement. `size` bytes are in Envoy's buffer.
    pub(crate) fn send_body(
        &self,
        replacement: Option<Replacement>,
        body: &[u8],
        size: usize,
        with_head: bool,
    ) {
        let max_bytes = self.shared.max_paused_bytes();
        let replacement = replacement.filter(|new| !with_head || new.body().len() <= max_bytes);
        replace_body(replacement.as_ref(), body, size, with_head);
    }

    /// Shapes a chunk of an event stream, or pauses the stream.
    fn on_event_chunk(&mut self, chunk: Vec<u8>, end: bool) -> Action {
        let size = chunk.len();
        if self.waiting.is_active() {
            let _ = set_buffer(BufferType::HttpResponseBody, 0, size, b"");
            let Some(sent) = self.on_late_events(chunk, end) else { return Action::Pause };
            self.send_paused_events(&sent, end);
            return Action::Continue;
        }
        let Some(exchange) = &self.exchange else { return Action::Continue };
        // Only the end of an event needs the store. A pass that may use it copies the exchange.
        let needs_store = end || exchange.completes_event(&chunk);
        let pass = if needs_store { StorePass::new(&self.shared) } else { StorePass::local() };
        match self.run_events(chunk, end, pass, Vec::new()) {
            Some(sent) => {
                let _ = set_buffer(BufferType::HttpResponseBody, 0, size, &sent);
                self.on_events_sent(&sent, end);
                Action::Continue
            }
            None => {
                let _ = set_buffer(BufferType::HttpResponseBody, 0, size, b"");
                Action::Pause
            }
        }
    }

    /// Records events that are sent to the client. `end` is true at the end of the stream.
    pub(crate) fn on_events_sent(&mut self, sent: &[u8], end: bool) {
        if let Some(resumable) = &mut self.resumable {
            resumable.on_events(sent);
        }
        if end {
            self.suspend();
        }
    }
}

impl Context for Stream {
    fn on_http_call_response(&mut self, token: u32, headers: usize, body_bytes: usize, _: usize) {
        self.on_store_call(token, headers, body_bytes);
    }
}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _: usize, end: bool) -> Action {
        let request = |name: &str| header(MapType::HttpRequestHeaders, name);
        let (method, target) =
            (request(":method").unwrap_or_default(), request(":path").unwrap_or_default());
        let owner = StreamOwner::new(&self.shared.settings, &target, &request);
        if method == "GET"
            && let Some(request_body) =
                request(LAST_EVENT_ID).and_then(|event| owner.load(&self.shared, &event))
        {
            // The exchange is that of the POST whose stream is resumed.
            let posted = |name: &str| match name {
                "content-type" => Some("application/json".to_owned()),
                "content-encoding" => None,
                name => request(name),
            };
            let head = RequestHead { method: "POST", target: &target, header: &posted };
            let exchange = HttpExchange::open(&self.shared.settings, &head);
            self.resume(owner, &request_body, exchange);
            return Action::Continue;
        }
        let head = RequestHead { method: &method, target: &target, header: &request };
        let exchange = HttpExchange::open(&self.shared.settings, &head);
        let needs_body = exchange.needs_request_body();
        if exchange.is_ignored() || (needs_body && end) {
            return Action::Continue;
        }
        self.exchange = Some(exchange);
        self.owner = Some(owner);
        // A compressed response could not be read.
        remove(MapType::HttpRequestHeaders, "accept-encoding");
        if !needs_body {
            headers::PARTIAL_REQUEST_HEADERS
                .iter()
                .for_each(|name| remove(MapType::HttpRequestHeaders, name));
            // Envoy cannot hold the body of a large request while it waits for a gateway.
            let pass = if end { StorePass::new(&self.shared) } else { StorePass::local() };
            return self.finish_request(Vec::new(), pass);
        }
        if content_length(MapType::HttpRequestHeaders)
            .is_some_and(|length| length > self.shared.settings.max_buffered)
        {
            return self.on_oversized_request();
        }
        self.shared.pause_monitor.watch(&self.paused, Pause::Request);
        Action::Pause
    }

    fn on_http_request_body(&mut self, size: usize, end: bool) -> Action {
        self.shared.pause_monitor.on_body(&self.paused);
        if self.waiting.is_active() {
            return Action::Pause;
        }
        if !self.is_request_held() {
            return Action::Continue;
        }
        if size > self.shared.settings.max_buffered {
            return self.on_oversized_request();
        }
        if !end {
            return Action::Pause;
        }
        let body = buffer(BufferType::HttpRequestBody, size);
        self.finish_request(body, StorePass::new(&self.shared))
    }

    fn on_http_request_trailers(&mut self, _: usize) -> Action {
        if self.is_request_held() {
            let max_bytes = self.shared.settings.max_buffered;
            let body = buffer(BufferType::HttpRequestBody, max_bytes);
            return self.finish_request(body, StorePass::new(&self.shared));
        }
        if self.waiting.is_active() { Action::Pause } else { Action::Continue }
    }

    fn on_http_response_headers(&mut self, _: usize, end: bool) -> Action {
        if self.paused.pause() == Pause::Refused {
            return Action::Continue;
        }
        if self.waiting.is_active() {
            // Another filter answered the request before the guard decided about it.
            self.waiting = Waiting::Nothing;
            self.exchange = None;
        }
        let Some(exchange) = self.exchange.as_mut() else { return Action::Continue };
        let response = |name: &str| header(MapType::HttpResponseHeaders, name);
        let content_type = response("content-type").unwrap_or_default();
        let status = response(":status").and_then(|status| status.parse().ok()).unwrap_or_default();
        let head = ResponseHead {
            status,
            content_type: &content_type,
            is_encoded: headers::is_encoded(response("content-encoding").as_deref()),
            content_length: content_length(MapType::HttpResponseHeaders),
        };
        let (response, with_head) = match exchange.on_response(&head) {
            ResponseAction::Respond(response) => return self.respond(&response),
            ResponseAction::Pass => return Action::Continue,
            // No body callback follows.
            _ if end => return Action::Continue,
            ResponseAction::Events => (BodyState::Events, false),
            ResponseAction::Collect { max_bytes, with_head } => {
                (BodyState::Collect { body: Vec::new(), max_bytes, with_head }, with_head)
            }
            ResponseAction::TooLong => return self.on_oversized_response(status),
        };
        self.response = response;
        if with_head {
            self.shared.pause_monitor.watch(&self.paused, Pause::Response);
            return Action::Pause;
        }
        remove(MapType::HttpResponseHeaders, "content-length");
        Action::Continue
    }

    fn on_http_response_body(&mut self, size: usize, end: bool) -> Action {
        self.shared.pause_monitor.on_body(&self.paused);
        match &self.response {
            BodyState::Pass => Action::Continue,
            BodyState::Drop => {
                let _ = set_buffer(BufferType::HttpResponseBody, 0, size, b"");
                Action::Continue
            }
            BodyState::Events => {
                let chunk = buffer(BufferType::HttpResponseBody, size);
                self.on_event_chunk(chunk, end)
            }
            BodyState::Collect { .. } => {
                let chunk = buffer(BufferType::HttpResponseBody, size);
                self.collect(chunk, end)
            }
        }
    }

    fn on_http_response_trailers(&mut self, _: usize) -> Action {
        // With trailers, no chunk was marked as the last, and Envoy accepts no more body now. A
        // reset is better than a truncated answer.
        if matches!(&self.response, BodyState::Collect { body, .. } if !body.is_empty()) {
            let _ = reset_http_response();
        }
        if self.waiting.is_active() { Action::Pause } else { Action::Continue }
    }

    /// Handles the end of the stream, including a disconnect of the client or the upstream.
    fn on_log(&mut self) {
        self.suspend();
    }
}
