//! An exchange, as Envoy's callbacks have it.
//!
//! Of answers in JSON nothing is held back in Envoy: their bytes are taken out of each chunk, and given to the last. Only an answer of an API, whose status and headers may change, is
//! held, within `maxBuffered`.

use std::rc::Rc;

use context_guard_protocol::{
    Exchange, OF_A_PART, OF_THE_WHOLE, Onward, Reply, RequestHead, ResponseHead, Way,
};
use proxy_wasm::hostcalls::{
    get_buffer, get_map_value_bytes, reset_http_response, send_http_response, set_buffer,
    set_map_value,
};
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::{Action, BufferType, MapType};

use crate::guard::{Asking, Shared};

/// An exchange.
pub(crate) struct Stream {
    shared: Rc<Shared>,
    exchange: Option<Exchange>,
    /// The request is being held.
    holds_request: bool,
    response: Response,
}

/// What becomes of the body of a response.
enum Response {
    Pass,
    /// It is collected here.
    Collect {
        body: Vec<u8>,
        most: usize,
        with_head: bool,
    },
    Events,
    /// Something else was sent in its place.
    Drop,
}

impl Stream {
    pub(crate) fn new(shared: Rc<Shared>) -> Self {
        Self { shared, exchange: None, holds_request: false, response: Response::Pass }
    }

    /// Sends a request on as the guard has it, or answers it. `body`: what Envoy holds of it.
    fn onward(&mut self, body: &[u8]) -> Action {
        self.holds_request = false;
        let shared = Rc::clone(&self.shared);
        let Some(exchange) = &mut self.exchange else { return Action::Continue };
        match exchange.request(&mut Asking(&shared), body) {
            Onward::Answer(reply) => self.answer(&reply),
            Onward::Forward { body: changed, target, subject } => {
                if let Some(target) = target {
                    set(MapType::HttpRequestHeaders, ":path", &target);
                }
                let named = header(MapType::HttpRequestHeaders, "mcp-name").is_some();
                if let Some(subject) = subject.filter(|_| named) {
                    set(MapType::HttpRequestHeaders, "mcp-name", &subject);
                }
                if let Some(changed) = changed {
                    // A length that is not right leaks what is too much into the next request of the connection.
                    set(MapType::HttpRequestHeaders, "content-length", &changed.len().to_string());
                    let _ = set_buffer(BufferType::HttpRequestBody, 0, body.len(), &changed);
                }
                Action::Continue
            }
        }
    }

    /// Answers a request at once.
    fn answer(&mut self, reply: &Reply) -> Action {
        self.exchange = None;
        let mut headers = vec![("content-type", reply.content_type)];
        headers.extend(reply.headers.iter().map(|(name, value)| (*name, value.as_str())));
        let _ = send_http_response(reply.status.into(), headers, Some(&reply.body));
        Action::Pause
    }

    /// A request that is longer than is looked into.
    fn too_long(&mut self) -> Action {
        self.holds_request = false;
        self.shared.metrics.over_limit();
        match Reply::request_too_long(&self.shared.settings) {
            Some(reply) => self.answer(&reply),
            None => {
                self.exchange = None;
                Action::Continue
            }
        }
    }

    /// A chunk of a body that is collected.
    fn collect(&mut self, chunk: Vec<u8>, end: bool) -> Action {
        let shared = Rc::clone(&self.shared);
        let (Response::Collect { body, most, with_head }, Some(exchange)) =
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
        let too_long = body.len() > *most;
        if !end && !too_long {
            let _ = set_buffer(BufferType::HttpResponseBody, 0, size, b"");
            return if with_head { Action::Pause } else { Action::Continue };
        }
        // To put more into a stream that is held than its buffer takes ends the process. What was not taken out needs not be put back; of the rest, twice `maxBuffered` is what the buffer
        // takes at least.
        let most_held = 2 * shared.settings.max_buffered;
        let fits = !with_head || body.len() == size || body.len() <= most_held;
        let filter = &mut Asking(&shared);
        let shaped =
            if too_long { exchange.too_long(filter, fits) } else { exchange.answer(filter, body) };
        let body = std::mem::take(body);
        let shaped = shaped.filter(|shaped| !with_head || shaped.body.len() <= most_held);
        let sent = shaped.as_ref().map_or(&body, |shaped| &shaped.body);
        if let Some(head) = shaped.as_ref().and_then(|shaped| shaped.head.as_ref()) {
            change_head(head);
        }
        if with_head && (end || shaped.is_some()) {
            set(MapType::HttpResponseHeaders, "content-length", &sent.len().to_string());
        }
        if shaped.is_some() || sent.len() != size {
            let _ = set_buffer(BufferType::HttpResponseBody, 0, size, sent);
        }
        self.response = if too_long && shaped.is_some() { Response::Drop } else { Response::Pass };
        Action::Continue
    }
}

impl Context for Stream {}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _: usize, end: bool) -> Action {
        let request = |name: &str| header(MapType::HttpRequestHeaders, name);
        let (method, target) =
            (request(":method").unwrap_or_default(), request(":path").unwrap_or_default());
        let head = RequestHead { method: &method, target: &target, header: &request };
        let exchange = Exchange::open(&self.shared.settings, &head);
        let reads = exchange.reads_request();
        if exchange.passes() || (reads && end) {
            return Action::Continue;
        }
        self.exchange = Some(exchange);
        // What comes compressed cannot be looked into.
        remove(MapType::HttpRequestHeaders, "accept-encoding");
        if !reads {
            OF_A_PART.iter().for_each(|name| remove(MapType::HttpRequestHeaders, name));
            return self.onward(b"");
        }
        if length(MapType::HttpRequestHeaders)
            .is_some_and(|it| it > self.shared.settings.max_buffered)
        {
            return self.too_long();
        }
        self.holds_request = true;
        Action::Pause
    }

    fn on_http_request_body(&mut self, size: usize, end: bool) -> Action {
        if !self.holds_request {
            return Action::Continue;
        }
        if size > self.shared.settings.max_buffered {
            return self.too_long();
        }
        if !end {
            return Action::Pause;
        }
        let body = buffer(BufferType::HttpRequestBody, size);
        self.onward(&body)
    }

    fn on_http_request_trailers(&mut self, _: usize) -> Action {
        if self.holds_request {
            let most = self.shared.settings.max_buffered;
            let body = buffer(BufferType::HttpRequestBody, most);
            return self.onward(&body);
        }
        Action::Continue
    }

    fn on_http_response_headers(&mut self, _: usize, end: bool) -> Action {
        let Some(exchange) = self.exchange.as_mut().filter(|_| !end) else {
            return Action::Continue;
        };
        let response = |name: &str| header(MapType::HttpResponseHeaders, name);
        let content_type = response("content-type").unwrap_or_default();
        let status = response(":status").and_then(|status| status.parse().ok()).unwrap_or_default();
        let head = ResponseHead {
            status,
            content_type: &content_type,
            encoded: response("content-encoding").is_some_and(|encoding| encoding != "identity"),
            length: length(MapType::HttpResponseHeaders),
        };
        let way = exchange.response(&head);
        let (response, with_head) = match way {
            Way::Pass => (Response::Pass, false),
            Way::Events => (Response::Events, false),
            Way::Collect { most, with_head } => {
                (Response::Collect { body: Vec::new(), most, with_head }, with_head)
            }
            // Nothing of it is kept: the first chunk decides.
            Way::TooLong => {
                (Response::Collect { body: Vec::new(), most: 0, with_head: true }, true)
            }
        };
        self.response = response;
        if with_head {
            return Action::Pause;
        }
        if way != Way::Pass {
            remove(MapType::HttpResponseHeaders, "content-length");
        }
        Action::Continue
    }

    fn on_http_response_body(&mut self, size: usize, end: bool) -> Action {
        match &self.response {
            Response::Pass => Action::Continue,
            Response::Drop => {
                let _ = set_buffer(BufferType::HttpResponseBody, 0, size, b"");
                Action::Continue
            }
            Response::Events => {
                let shared = Rc::clone(&self.shared);
                let Some(exchange) = &mut self.exchange else { return Action::Continue };
                let chunk = buffer(BufferType::HttpResponseBody, size);
                let sent = exchange.events(&mut Asking(&shared), &chunk, end);
                if sent != chunk {
                    let _ = set_buffer(BufferType::HttpResponseBody, 0, size, &sent);
                }
                Action::Continue
            }
            Response::Collect { .. } => {
                let chunk = buffer(BufferType::HttpResponseBody, size);
                self.collect(chunk, end)
            }
        }
    }

    fn on_http_response_trailers(&mut self, _: usize) -> Action {
        // The body has ended without word of it, and nothing can be added to it any more: an error is better than a part of it.
        if matches!(&self.response, Response::Collect { body, .. } if !body.is_empty()) {
            let _ = reset_http_response();
        }
        Action::Continue
    }
}

/// Puts a head of the guard's in the place of the upstream's.
fn change_head(head: &Reply) {
    OF_THE_WHOLE.iter().for_each(|name| remove(MapType::HttpResponseHeaders, name));
    if head.status != 200 {
        set(MapType::HttpResponseHeaders, ":status", &head.status.to_string());
    }
    set(MapType::HttpResponseHeaders, "content-type", head.content_type);
    for (name, value) in &head.headers {
        set(MapType::HttpResponseHeaders, name, value);
    }
}

/// A header, whatever its bytes are.
fn header(map: MapType, name: &str) -> Option<String> {
    let value = get_map_value_bytes(map, name).ok()??;
    Some(String::from_utf8_lossy(&value).into_owned())
}

fn set(map: MapType, name: &str, value: &str) {
    let _ = set_map_value(map, name, Some(value));
}

fn remove(map: MapType, name: &str) {
    let _ = set_map_value(map, name, None);
}

fn length(map: MapType) -> Option<usize> {
    header(map, "content-length")?.trim().parse().ok()
}

fn buffer(kind: BufferType, size: usize) -> Vec<u8> {
    if size == 0 {
        Vec::new()
    } else {
        get_buffer(kind, 0, size).ok().flatten().unwrap_or_default()
    }
}
