//! Counts the subscribers of the resources of a connection.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of subscribers of each resource of a connection, by the upstream's own URI.
#[derive(Default)]
pub(super) struct ResourceSubscribers(Mutex<HashMap<String, usize>>);

impl ResourceSubscribers {
    fn counts(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a subscriber. Returns true if it is the first one of the resource.
    pub(super) fn add(&self, uri: &str) -> bool {
        let mut counts = self.counts();
        let count = counts.entry(uri.to_owned()).or_default();
        *count += 1;
        *count == 1
    }

    /// Removes a subscriber. Returns true if it was the last one of the resource.
    pub(super) fn remove(&self, uri: &str) -> bool {
        let mut counts = self.counts();
        let Some(count) = counts.get_mut(uri) else { return false };
        *count = count.saturating_sub(1);
        let is_last = *count == 0;
        if is_last {
            counts.remove(uri);
        }
        is_last
    }

    /// Returns true if the resource has a subscriber.
    pub(super) fn contains(&self, uri: &str) -> bool {
        self.counts().contains_key(uri)
    }
}
