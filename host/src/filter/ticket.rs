//! What is carried from a request to its response.

use std::fmt;
use std::sync::Arc;

use crate::cache::Key;
use crate::generation::Generation;

/// What is done with the response to a request.
#[derive(Clone)]
pub struct Ticket(pub(super) Way);

#[derive(Clone)]
pub(super) enum Way {
    /// Nothing.
    Pass,
    /// The byte limit decides, because the guard failed on the request.
    Limit(Arc<Generation>),
    /// The guard looks at it.
    Guard(Box<Guarded>),
}

/// A request that the guard wants to see the response of.
#[derive(Clone)]
pub(super) struct Guarded {
    /// What began it, and ends it, whatever serves by then.
    pub(super) generation: Arc<Generation>,
    /// The component's own ticket.
    pub(super) bytes: Vec<u8>,
    /// The request as it came, where it may be needed once more.
    pub(super) request: Option<Arc<[u8]>>,
    /// What its answer may be kept under.
    pub(super) key: Option<Key>,
}

impl Ticket {
    /// Whether the response passes as it comes.
    #[must_use]
    pub fn is_pass(&self) -> bool {
        matches!(self.0, Way::Pass)
    }

    /// Whether the byte limit decides on the response.
    #[must_use]
    pub fn is_limit(&self) -> bool {
        matches!(self.0, Way::Limit(_))
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Way::Pass => f.write_str("Pass"),
            Way::Limit(generation) => write!(f, "Limit({})", generation.number),
            Way::Guard(guarded) => write!(f, "Guard({})", guarded.generation.number),
        }
    }
}
