//! The guard, as adapters call it.

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
/// [`fallback::limit`](crate::fallback::limit) and count the fault.
pub trait MessageFilter {
    /// Decides on a request, a whole JSON-RPC message.
    fn on_request(&mut self, caller: &Caller, message: &[u8]) -> Verdict;

    /// Shapes the response to a request. Returns none if it passes unchanged.
    fn on_response(&mut self, caller: &Caller, ticket: &Ticket, message: &[u8]) -> Option<Vec<u8>>;

    /// Counts a body that exceeded [`Settings::max_body`](crate::Settings::max_body) or
    /// [`Settings::max_buffered`](crate::Settings::max_buffered).
    fn on_limit_exceeded(&mut self) {}
}
