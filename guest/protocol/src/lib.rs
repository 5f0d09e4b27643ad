//! The protocol layer of context-guard: everything that hosts and guests know of JSON-RPC, MCP, event
//! streams, HTTP exchanges and plain JSON APIs. It performs no I/O and shapes nothing.
//!
//! An adapter passes heads and bodies to an [`HttpExchange`](http::HttpExchange), as its host receives
//! them, together with a [`MessageFilter`] that calls the guard. Hosts that correlate messages
//! themselves use the parts below it: [`Head`], [`RequestId`], [`batch`], [`sse`], [`rest`],
//! [`response`] and [`fallback`].
//!
//! ```text
//! request head  -> HttpExchange::open -> on_request -> RequestAction   (forwarded, or answered)
//! response head -> on_response -> ResponseAction -> on_body            (a whole body)
//!                                                -> on_events          (an event stream)
//! ```
//!
//! # Example
//!
//! A filter that replaces every answer of a tool:
//!
//! ```
//! use context_guard_protocol::http::{HttpExchange, RequestHead, ResponseAction, ResponseHead};
//! use context_guard_protocol::{Caller, MessageFilter, Settings, Ticket, Verdict};
//!
//! struct Shorten;
//!
//! impl MessageFilter for Shorten {
//!     fn on_request(&mut self, _: &Caller, _: &[u8]) -> Verdict {
//!         Verdict::Forward(None, Ticket::Guard(b"ticket".to_vec()))
//!     }
//!     fn on_response(&mut self, _: &Caller, _: &Ticket, _: &[u8]) -> Option<Vec<u8>> {
//!         Some(b"{\"id\":1,\n\"result\":\"short\"}".to_vec())
//!     }
//! }
//!
//! let header = |name: &str| (name == "content-type").then(|| "application/json".to_owned());
//! let request = RequestHead { method: "POST", target: "/mcp", header: &header };
//! let mut exchange = HttpExchange::open(&Settings::default(), &request);
//! exchange.on_request(&mut Shorten, br#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#);
//!
//! let head = ResponseHead {
//!     status: 200,
//!     content_type: "text/event-stream",
//!     is_encoded: false,
//!     content_length: None,
//! };
//! assert_eq!(exchange.on_response(&head), ResponseAction::Events);
//! let stream = b"id: 7\ndata: {\"id\":1.0,\"result\":\"long\"}\n\n";
//! assert_eq!(
//!     exchange.on_events(&mut Shorten, stream, true),
//!     b"id: 7\ndata: {\"id\":1,\ndata: \"result\":\"short\"}\n\n",
//! );
//! ```
#![forbid(unsafe_code)]

pub mod batch;
pub mod code;
pub mod edit;
pub mod fallback;
pub mod glob;
mod head;
pub mod header;
pub mod http;
mod id;
mod mcp;
mod pending;
pub mod response;
pub mod rest;
mod settings;
pub mod sse;

pub use head::{
    CAPABILITIES_KEY, CLIENT_KEY, Envelope, Head, Kind, LOG_LEVEL_KEY, Parameters, SERVER_KEY,
    STATELESS_VERSION, SUBSCRIPTION_KEY, VERSION_KEY, is_stateless_version,
};
pub use id::{RequestId, is_same_id};
pub use pending::{MAX_PENDING_REQUESTS, PendingRequests};
pub use settings::{Api, OverLimit, Settings};

/// The sender of a request, and its context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The owner of snapshots and cursors.
    pub principal: String,
    /// The session, or empty.
    pub session: String,
    /// The upstream's name, or empty.
    pub upstream: String,
    /// The MCP revision that the transport names, or empty.
    pub protocol_version: String,
}

/// The treatment of the response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ticket {
    /// The response passes unchanged.
    Pass,
    /// The guard failed on the request, so only the byte limit applies.
    Limit,
    /// The guard shapes the response, with the ticket that it issued for it.
    Guard(Vec<u8>),
}

/// The decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request is forwarded, with other bytes if there are any.
    Forward(Option<Vec<u8>>, Ticket),
    /// The request is answered with this message.
    Answer(Vec<u8>),
}

/// The guard, as an adapter calls it. Implementations handle the guard's faults: they fall back to
/// [`fallback::limit`] and count the fault.
pub trait MessageFilter {
    /// Decides on a request, a whole JSON-RPC message.
    fn on_request(&mut self, caller: &Caller, message: &[u8]) -> Verdict;

    /// Shapes the response to a request. Returns none if it passes unchanged.
    fn on_response(&mut self, caller: &Caller, ticket: &Ticket, message: &[u8]) -> Option<Vec<u8>>;

    /// Counts a body that exceeded [`Settings::max_body`] or [`Settings::max_buffered`].
    fn on_limit_exceeded(&mut self) {}
}
