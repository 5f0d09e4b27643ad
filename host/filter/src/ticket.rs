//! The state of an exchange between its request and its response.

use std::fmt;
use std::sync::Arc;

use crate::cache::CacheKey;
use crate::revision::Revision;

/// Determines how the response to a request is handled.
#[derive(Clone)]
pub struct Ticket(pub(super) ResponseHandling);

#[derive(Clone)]
pub(super) enum ResponseHandling {
    /// The response passes unchanged.
    Pass,
    /// The byte limit of the revision applies, because the guard failed on the request.
    LimitBytes(Arc<Revision>),
    /// The guard shapes the response.
    Guard(Box<GuardTicket>),
}

/// The state of a request whose response the guard shapes.
#[derive(Clone)]
pub(super) struct GuardTicket {
    /// The revision that began the exchange and ends it, even if another is deployed meanwhile.
    pub(super) revision: Arc<Revision>,
    /// The ticket of the component.
    pub(super) bytes: Vec<u8>,
    /// The original request, if it may be needed again.
    pub(super) request: Option<Arc<[u8]>>,
    /// The key under which the answer may be cached.
    pub(super) cache_key: Option<CacheKey>,
}

impl GuardTicket {
    pub(super) fn new(revision: Arc<Revision>, bytes: Vec<u8>) -> Self {
        Self { revision, bytes, request: None, cache_key: None }
    }

    /// Returns true if the guard wants to see the response.
    pub(super) fn wants_response(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Retains the request until its response, once for all layers that need it.
    pub(super) fn retain_request(&mut self, request: &[u8]) {
        if self.wants_response() {
            self.request.get_or_insert_with(|| request.into());
        }
    }
}

impl Ticket {
    /// Returns true if the response passes unchanged.
    #[must_use]
    pub fn is_pass(&self) -> bool {
        matches!(self.0, ResponseHandling::Pass)
    }

    /// Returns true if the byte limit applies to the response.
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
