//! Requests that wait for their answers.

use std::num::NonZeroUsize;
use std::time::Instant;

use lru::LruCache;

use super::envelope::Id;
use crate::filter::Ticket;

/// Requests that may wait at once. Beyond, the oldest is forgotten, and its answer passes as it comes: a client that never gets answers must not fill the memory.
const MOST: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();

/// A request that was sent on.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// What is done with its answer.
    pub(super) ticket: Ticket,
    /// What was asked. An answer to `initialize` names the revision in use.
    pub(super) method: String,
    /// When.
    pub(super) since: Instant,
}

/// All that wait, by id.
pub(super) struct Pending(LruCache<Id, Waiting>);

impl Pending {
    pub(super) fn new() -> Self {
        Self(LruCache::new(MOST))
    }

    /// A request was sent on. Where its id is in use already, the answer that comes first gets the later ticket: ids must not be used twice.
    pub(super) fn add(&mut self, id: Id, waiting: Waiting) {
        self.0.put(id, waiting);
    }

    /// Its answer came.
    pub(super) fn take(&mut self, id: &Id) -> Option<Waiting> {
        self.0.pop(id)
    }
}
