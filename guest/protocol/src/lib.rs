//! What lies between HTTP and the guard, for the guests that stand in an HTTP proxy: which exchanges are looked into, where the messages are in their
//! bodies, and what becomes of a body whose messages were changed.
//!
//! No I/O and no shaping: an adapter ([`Exchange`] is its map) hands in heads and bodies as its host gives them, and a [`Filter`] that asks the guard.
//!
//! ```text
//! head -> Exchange::open -> Exchange::request -> Onward     (forwarded, or answered at once)
//! head -> Exchange::response -> Way -> Exchange::answer     (a whole body)
//!                                   -> Exchange::events     (an event stream, event by event)
//! ```
#![forbid(unsafe_code)]

mod api;
mod events;
mod exchange;
pub mod fallback;
mod mcp;
mod message;
mod settings;

pub use exchange::{
    Exchange, OF_A_PART, OF_THE_WHOLE, Onward, Reply, RequestHead, ResponseHead, Shaped, Way,
};
pub use settings::{Api, OverLimit, Settings};

/// Who asks, through what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// What snapshots and cursors are bound to.
    pub principal: String,
    /// The session; empty where there is none.
    pub session: String,
    /// The upstream's name; may be empty.
    pub upstream: String,
    /// The MCP revision in use; empty where nobody said.
    pub protocol_version: String,
}

/// What the response to a request needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ticket {
    /// No look at all.
    Pass,
    /// The guard failed on the request: the byte limit alone.
    Limit,
    /// The guard's look, with what it gave for that.
    Guard(Vec<u8>),
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is sent on, with other bytes if there are any.
    Forward(Option<Vec<u8>>, Ticket),
    /// It is not: this is the answer.
    Answer(Vec<u8>),
}

/// The guard, as an adapter reaches it. Its faults end in it: it falls back to [`fallback::limit`], and counts.
pub trait Filter {
    /// Looks at a request, a whole JSON-RPC message.
    fn request(&mut self, caller: &Caller, message: &[u8]) -> Verdict;

    /// Looks at the response to a request. None: it is sent as it came.
    fn response(&mut self, caller: &Caller, ticket: &Ticket, message: &[u8]) -> Option<Vec<u8>>;

    /// An answer was longer than [`Settings::max_body`], and was refused or sent on as it came.
    fn over_limit(&mut self) {}
}
