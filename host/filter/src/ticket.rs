//! The state of an exchange between the client's request and the upstream's response.

use std::fmt;
use std::sync::Arc;

use crate::cache::CacheKey;
use crate::revision::Revision;

/// The state that processing the response to a request needs.
/// [`Filter::request`](crate::Filter::request) returns it, and
/// [`Filter::response`](crate::Filter::response) requires it.
#[derive(Clone)]
pub struct Ticket(pub(super) ResponseHandling);

#[derive(Clone)]
pub(super) enum ResponseHandling {
    /// The response is sent unchanged.
    Pass,
    /// The byte limit of this revision's policy is applied to the response, because the guard
    /// failed on the request.
    LimitBytes(Arc<Revision>),
    /// The guard shapes the response.
    Guard(Box<GuardTicket>),
}

/// The state that the guard's processing of a request leaves for the response.
#[derive(Clone)]
pub(super) struct GuardTicket {
    /// The revision that processes the request and the response, even if another is deployed
    /// meanwhile.
    pub(super) revision: Arc<Revision>,
    /// The ticket of the guard component. Empty if the component does not need the response.
    pub(super) bytes: Vec<u8>,
    /// The endpoints of the stored answers whose values replaced references in the request.
    pub(super) references: Vec<String>,
    /// The client's original request. `None` unless a layer needs it with the response.
    pub(super) request: Option<Arc<[u8]>>,
    /// The key under which the upstream's answer is cached. `None` if it is not cacheable.
    pub(super) cache_key: Option<CacheKey>,
}

impl GuardTicket {
    pub(super) fn new(revision: Arc<Revision>, bytes: Vec<u8>, references: Vec<String>) -> Self {
        Self { revision, bytes, references, request: None, cache_key: None }
    }

    /// Returns true if the guard needs to process the upstream's response.
    pub(super) fn wants_response(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Retains the client's request until the response arrives, shared by all layers that need it.
    /// Has no effect if the guard does not need the response.
    pub(super) fn retain_request(&mut self, request: &[u8]) {
        if self.wants_response() {
            self.request.get_or_insert_with(|| request.into());
        }
    }
}

impl Ticket {
    /// Returns true if the response is sent unchanged.
    #[must_use]
    pub fn is_pass(&self) -> bool {
        matches!(self.0, ResponseHandling::Pass)
    }

    /// Returns the endpoints of the stored answers whose values replaced references in the request.
    #[must_use]
    pub fn references(&self) -> &[String] {
        match &self.0 {
            ResponseHandling::Guard(ticket) => &ticket.references,
            ResponseHandling::Pass | ResponseHandling::LimitBytes(_) => &[],
        }
    }

    /// Returns the approximate memory of the ticket, in bytes.
    #[must_use]
    pub fn retained_bytes(&self) -> usize {
        let ResponseHandling::Guard(ticket) = &self.0 else { return 0 };
        let references: usize = ticket.references.iter().map(String::len).sum();
        let request = ticket.request.as_ref().map_or(0, |request| request.len());
        let key = ticket.cache_key.as_ref().map_or(0, CacheKey::retained_bytes);
        ticket.bytes.len() + references + request + key
    }

    /// Returns true if the response is limited in bytes because the guard failed on the request.
    #[must_use]
    pub fn is_limit(&self) -> bool {
        matches!(self.0, ResponseHandling::LimitBytes(_))
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ResponseHandling::Pass => f.write_str("Pass"),
            ResponseHandling::LimitBytes(revision) => write!(f, "LimitBytes({})", revision.number),
            ResponseHandling::Guard(ticket) => write!(f, "Guard({})", ticket.revision.number),
        }
    }
}
