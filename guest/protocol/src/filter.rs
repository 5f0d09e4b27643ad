//! The interface through which adapters call the guard.

/// The caller of a request, with its session, upstream and protocol revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The identity of the caller, which owns the snapshots and cursors made from its answers.
    pub principal: String,
    /// The id of the MCP session; empty if there is none.
    pub session: String,
    /// The configured name of the upstream server; empty if it has none.
    pub upstream: String,
    /// The MCP revision that the transport names (in HTTP, a header); empty if it names none.
    pub protocol_version: String,
    /// The name of the client software: from the header
    /// [`CLIENT_HEADER`](crate::client::CLIENT_HEADER) or, in stateless revisions, from the
    /// request. `None` if neither has it.
    pub client: Option<String>,
    /// A text that distinguishes the MCP server and its session from others of the same name.
    /// `None` if clients do not see the tools of this server alone.
    pub server: Option<String>,
}

/// The treatment of the upstream's response, decided when its request is forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ticket {
    /// The response is sent unchanged.
    Pass,
    /// The guard failed on the request, so [`fallback::limit`](crate::fallback::limit) is applied
    /// to the response.
    Limit,
    /// The guard shapes the response. Holds the ticket that the guard issued for the request.
    Guard(Vec<u8>),
}

/// The guard's decision on a request of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The host forwards the request. If bytes are given, they replace the request's own. The
    /// ticket determines the treatment of the response.
    Forward(Option<Vec<u8>>, Ticket),
    /// The guard answers the request with this message, and the upstream does not receive it.
    Answer(Vec<u8>),
}

/// The guard, as adapters call it. If the guard fails on a message, an implementation applies
/// [`fallback::limit`](crate::fallback::limit) and counts the failure.
pub trait MessageFilter {
    /// Returns the decision on `message`, a whole JSON-RPC message of the client: forward or answer
    /// it.
    fn on_request(&mut self, caller: &Caller, message: &[u8]) -> Verdict;

    /// Shapes `message`, the upstream's response to a request that was forwarded with `ticket`.
    /// Returns `None` if the response passes unchanged.
    fn on_response(&mut self, caller: &Caller, ticket: &Ticket, message: &[u8]) -> Option<Vec<u8>>;

    /// Records that a body exceeded [`Settings::max_body`](crate::Settings::max_body) or
    /// [`Settings::max_buffered`](crate::Settings::max_buffered). Does nothing by default.
    fn on_limit_exceeded(&mut self) {}
}
