//! Requests that wait for their responses.

use std::collections::{BTreeMap, HashMap};

use crate::id::RequestId;

/// Maximum number of requests that one session or exchange tracks. If there are more, the oldest is
/// dropped, and its response passes unchanged. Otherwise, a client that never reads could exhaust
/// the memory.
pub const MAX_PENDING_REQUESTS: usize = 65_536;

/// A table of at most [`MAX_PENDING_REQUESTS`] pending requests by id.
#[derive(Clone, Debug)]
pub struct PendingRequests<T> {
    by_id: HashMap<RequestId, (u64, T)>,
    /// The ids in the order of insertion, by sequence number.
    order: BTreeMap<u64, RequestId>,
    next: u64,
    capacity: usize,
}

impl<T> Default for PendingRequests<T> {
    fn default() -> Self {
        Self::with_capacity(MAX_PENDING_REQUESTS)
    }
}

impl<T> PendingRequests<T> {
    fn with_capacity(capacity: usize) -> Self {
        Self { by_id: HashMap::new(), order: BTreeMap::new(), next: 0, capacity }
    }

    /// Adds a request. Replaces an earlier request with the same id.
    pub fn insert(&mut self, id: RequestId, request: T) {
        self.remove(&id);
        if self.by_id.len() >= self.capacity
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.by_id.remove(&oldest);
        }
        self.order.insert(self.next, id.clone());
        self.by_id.insert(id, (self.next, request));
        self.next += 1;
    }

    /// Removes the request whose response has arrived. Returns `None` if no request with this id is
    /// pending.
    pub fn remove(&mut self, id: &RequestId) -> Option<T> {
        let (position, request) = self.by_id.remove(id)?;
        self.order.remove(&position);
        Some(request)
    }

    /// Returns the id of the pending request to which an answer with the id `id` belongs. `None` if
    /// there is none. If no request has this id, looks for its other form
    /// ([`RequestId::other_form`]).
    #[must_use]
    pub fn find(&self, id: &RequestId) -> Option<RequestId> {
        let is_pending = |id: &RequestId| self.by_id.contains_key(id);
        Some(id.clone()).filter(is_pending).or_else(|| id.other_form().filter(is_pending))
    }

    /// Returns the pending request with this id. `None` if there is none.
    #[must_use]
    pub fn get(&self, id: &RequestId) -> Option<&T> {
        self.by_id.get(id).map(|(_, request)| request)
    }

    /// Returns the sequence number of a pending request. Later requests have higher numbers. `None`
    /// if no request with this id is pending.
    #[must_use]
    pub fn number(&self, id: &RequestId) -> Option<u64> {
        self.by_id.get(id).map(|(number, _)| *number)
    }

    /// Returns the ids of the pending requests with their sequence numbers, oldest first.
    pub fn numbers(&self) -> impl Iterator<Item = (u64, &RequestId)> {
        self.order.iter().map(|(number, id)| (*number, id))
    }

    /// Returns the sequence number of the next request to be added.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Removes and returns all requests, oldest first.
    pub fn drain(&mut self) -> Vec<(RequestId, T)> {
        let order = std::mem::take(&mut self.order);
        let request = |id: RequestId| self.by_id.remove(&id).map(|(_, request)| (id, request));
        order.into_values().filter_map(request).collect()
    }

    /// Returns true if no request is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(raw: &str) -> RequestId {
        RequestId::parse(raw).unwrap()
    }

    #[test]
    fn oldest_request_is_dropped() {
        let mut pending = PendingRequests::with_capacity(2);
        for (raw, request) in [("1", 'a'), ("2", 'b'), ("1.0", 'c'), ("3", 'd')] {
            pending.insert(id(raw), request);
        }
        assert_eq!(pending.remove(&id("2")), None);
        assert_eq!(pending.drain(), [(id("1"), 'c'), (id("3"), 'd')]);
        assert!(pending.is_empty());
    }
}
