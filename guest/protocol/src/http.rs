//! HTTP heads, responses that the guard sends, and its decisions on requests and responses.

use crate::code::TOO_LARGE;
use crate::response;
use crate::settings::{OverLimit, Settings};

/// The head of a client's HTTP request.
pub struct RequestHead<'a> {
    /// The HTTP method, such as `POST`.
    pub method: &'a str,
    /// The path with its query, such as `/rooms?limit=5`.
    pub target: &'a str,
    /// Looks up the value of a header by its lower-case name. Returns `None` if the header is
    /// absent.
    pub header: &'a dyn Fn(&str) -> Option<String>,
}

/// The head of the upstream's HTTP response.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// The HTTP status code of the upstream's response.
    pub status: u16,
    /// The value of the `content-type` header, or empty.
    pub content_type: &'a str,
    /// True if there is a `content-encoding` other than `identity`. See
    /// [`header::is_encoded`](crate::header::is_encoded).
    pub is_encoded: bool,
    /// The value of the `content-length` header, if there is one.
    pub content_length: Option<usize>,
}

/// An HTTP response that the guard sends to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// The HTTP status code.
    pub status: u16,
    /// The value of the `content-type` header.
    pub content_type: &'static str,
    /// Further headers. Adapters append them, so that existing headers of the same name remain.
    pub headers: Vec<(&'static str, String)>,
    /// The body of the response.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// Creates a response with a JSON body and no further headers.
    #[must_use]
    pub fn json(status: u16, body: Vec<u8>) -> Self {
        Self { status, content_type: "application/json", headers: Vec::new(), body }
    }

    /// Returns the response to a request that exceeds [`Settings::max_buffered`]. `None` if the
    /// settings let the request pass unchanged.
    #[must_use]
    pub fn request_too_long(settings: &Settings) -> Option<Self> {
        let reason = format!(
            "The request is longer than {} bytes, the limit of this gateway (maxBuffered).",
            settings.max_buffered
        );
        let body = response::error("null", TOO_LARGE, &reason);
        (settings.over_max_body == OverLimit::Refuse).then(|| Self::json(413, body))
    }
}

/// The guard's decision on a client's HTTP request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestAction {
    /// The adapter forwards the request to the upstream, with these changes.
    Forward {
        /// The new body. `None` if the body remains unchanged.
        body: Option<Vec<u8>>,
        /// The new path and query. `None` if both remain unchanged.
        target: Option<String>,
        /// The new values of [`header::MCP_METHOD`](crate::header::MCP_METHOD) and
        /// [`header::MCP_NAME`](crate::header::MCP_NAME). `None` removes a header. Adapters change
        /// only headers that the request has. Empty if both remain unchanged.
        mcp_headers: Vec<(&'static str, Option<String>)>,
    },
    /// The guard answers the request with this response, and the upstream does not receive it.
    Respond(HttpResponse),
}

impl RequestAction {
    /// The adapter forwards the request unchanged.
    pub(crate) const UNCHANGED: Self =
        Self::Forward { body: None, target: None, mcp_headers: Vec::new() };
}

/// The guard's decision on the upstream's response, before its body is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseAction {
    /// The response passes unchanged.
    Pass,
    /// The adapter collects the body and passes it to
    /// [`HttpExchange::on_body`](crate::HttpExchange::on_body). If the body exceeds `max_bytes`, it
    /// calls [`HttpExchange::on_oversized_body`](crate::HttpExchange::on_oversized_body) instead.
    Collect {
        /// Maximum size of the body, in bytes.
        max_bytes: usize,
        /// True if status and headers may change with the body, so the adapter must not send them
        /// yet.
        with_head: bool,
    },
    /// The body is an event stream. The adapter passes each chunk to
    /// [`HttpExchange::on_events`](crate::HttpExchange::on_events), and removes the
    /// `content-length` header.
    Events,
    /// The body is too long by its `content-length` header. The adapter calls
    /// [`HttpExchange::on_oversized_body`](crate::HttpExchange::on_oversized_body) before it reads
    /// the body.
    TooLong,
    /// This response replaces the upstream's response.
    Respond(HttpResponse),
}

/// The replacement of the upstream's response, or of its body only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// Replaces the body only. The upstream's status and headers remain.
    Body(Vec<u8>),
    /// Replaces status, content type and body. Adapters remove the upstream's
    /// [`header::WHOLE_BODY_HEADERS`](crate::header::WHOLE_BODY_HEADERS).
    Response(HttpResponse),
}

impl Replacement {
    /// Returns the body to send in place of the upstream's.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        match self {
            Self::Body(body) => body,
            Self::Response(response) => &response.body,
        }
    }

    /// Returns the response whose status and headers replace the upstream's. `None` if only the
    /// body changes.
    #[must_use]
    pub fn head(&self) -> Option<&HttpResponse> {
        match self {
            Self::Body(_) => None,
            Self::Response(response) => Some(response),
        }
    }
}
