//! HTTP heads, responses of the guard, and the decisions about them.

use crate::code::TOO_LARGE;
use crate::response;
use crate::settings::{OverLimit, Settings};

/// The head of a request.
pub struct RequestHead<'a> {
    /// The method, such as `POST`.
    pub method: &'a str,
    /// The path with its query.
    pub target: &'a str,
    /// Looks up a header by its name in lower case.
    pub header: &'a dyn Fn(&str) -> Option<String>,
}

/// The head of a response.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// The status.
    pub status: u16,
    /// `content-type`, or empty.
    pub content_type: &'a str,
    /// True if there is a `content-encoding` other than `identity`: see
    /// [`header::is_encoded`](crate::header::is_encoded).
    pub is_encoded: bool,
    /// `content-length`, if it is known.
    pub content_length: Option<usize>,
}

/// A response that the guard writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// `content-type`.
    pub content_type: &'static str,
    /// Further headers. Adapters add them to headers of the same name.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// A response with a JSON body.
    #[must_use]
    pub fn json(status: u16, body: Vec<u8>) -> Self {
        Self { status, content_type: "application/json", headers: Vec::new(), body }
    }

    /// The response to a request that exceeds [`Settings::max_buffered`]. Returns none if the
    /// request is forwarded unchanged.
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

/// The decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestAction {
    /// The request is forwarded.
    Forward {
        /// Replaces the body.
        body: Option<Vec<u8>>,
        /// Replaces path and query.
        target: Option<String>,
        /// Replaces the value of [`header::MCP_NAME`](crate::header::MCP_NAME), if the request has
        /// this header.
        mcp_name: Option<String>,
    },
    /// The request is answered at once.
    Respond(HttpResponse),
}

/// The decision on a response, before its body is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseAction {
    /// The body passes unchanged.
    Pass,
    /// The body is collected and handed to [`HttpExchange::on_body`](crate::HttpExchange::on_body).
    /// A longer one is handed to
    /// [`HttpExchange::on_oversized_body`](crate::HttpExchange::on_oversized_body).
    Collect {
        /// Maximum size of the body.
        max_bytes: usize,
        /// True if status and headers may change with the body.
        with_head: bool,
    },
    /// The body is an event stream. Its chunks are handed to
    /// [`HttpExchange::on_events`](crate::HttpExchange::on_events), and it has no known length.
    Events,
    /// The body is known to be too long:
    /// [`HttpExchange::on_oversized_body`](crate::HttpExchange::on_oversized_body) before it is
    /// read.
    TooLong,
    /// Another response replaces it.
    Respond(HttpResponse),
}

/// The replacement of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// Another body under the same status and headers.
    Body(Vec<u8>),
    /// Another status, content type and body.
    /// [`header::WHOLE_BODY_HEADERS`](crate::header::WHOLE_BODY_HEADERS) have to be removed.
    Response(HttpResponse),
}

impl Replacement {
    /// The new body.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        match self {
            Self::Body(body) => body,
            Self::Response(response) => &response.body,
        }
    }

    /// The new head, if it changes.
    #[must_use]
    pub fn head(&self) -> Option<&HttpResponse> {
        match self {
            Self::Body(_) => None,
            Self::Response(response) => Some(response),
        }
    }
}
