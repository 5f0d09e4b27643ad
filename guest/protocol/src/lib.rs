//! The protocol layer of context-guard: everything that hosts and guests know of JSON-RPC, MCP,
//! event streams, HTTP exchanges and plain JSON APIs. It performs no I/O and shapes nothing.
//!
//! An adapter passes heads and bodies to an [`HttpExchange`], as its host receives
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
//! use context_guard_protocol::http::{RequestHead, ResponseAction, ResponseHead};
//! use context_guard_protocol::{Caller, HttpExchange, MessageFilter, Settings, Ticket, Verdict};
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

pub mod answer;
pub mod argument;
pub mod batch;
pub mod client;
pub mod code;
pub mod edit;
mod exchange;
pub mod fallback;
mod filter;
pub mod glob;
mod head;
pub mod header;
mod hex;
pub mod http;
mod id;
mod mcp;
mod non_finite;
pub mod path;
mod pending;
mod request_fault;
pub mod response;
pub mod rest;
mod settings;
pub mod sse;
pub mod store_message;

pub use exchange::{HttpExchange, identify_caller};
pub use filter::{Caller, MessageFilter, Ticket, Verdict};
pub use head::{
    CAPABILITIES_KEY, CLIENT_KEY, Envelope, Head, Kind, LOG_LEVEL_KEY, Parameters, SERVER_KEY,
    STATELESS_VERSION, SUBSCRIPTION_KEY, VERSION_KEY, is_stateless_version,
};
pub use hex::to_hex;
pub use id::{MAX_ID_BYTES, RequestId, is_same_id};
pub use pending::{MAX_PENDING_REQUESTS, PendingRequests};
pub use request_fault::{RequestFault, request_fault};
pub use settings::{Api, OverLimit, Settings};
