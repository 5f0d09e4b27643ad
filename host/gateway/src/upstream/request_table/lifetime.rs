//! The end of a connection, and the time for which it is idle.

use std::time::{Duration, Instant};

use super::{RequestTable, TableState};
use crate::upstream::Failure;
use crate::upstream::request_table::UpstreamReply;

impl RequestTable {
    /// Marks the connection as evicted if no request was in flight for `min_idle`. Returns true if
    /// it did. A later request then fails with [`Failure::Evicted`] before it is sent, so that it
    /// can be repeated on another connection.
    pub(in crate::upstream) fn evict(&self, min_idle: Duration) -> bool {
        let mut state = self.state();
        let is_idle = state.idle_since().is_some_and(|since| since.elapsed() >= min_idle);
        if !is_idle || state.ended.is_some() {
            return false;
        }
        state.ended = Some(Failure::evicted(&self.upstream));
        drop(state);
        self.ended.cancel();
        true
    }

    /// Returns the failure of later requests if the connection was evicted, otherwise `None`.
    pub(in crate::upstream) fn eviction(&self) -> Option<Failure> {
        self.state().ended.clone().filter(|ended| matches!(ended, Failure::Evicted(_)))
    }

    /// Returns the time since which no request is in flight. `None` while a request is in flight,
    /// and before the first.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        self.state().idle_since()
    }

    /// Marks the connection as ended for later requests. Requests in flight may still be answered.
    pub(crate) fn close(&self, failure: &Failure) {
        self.state().ended.get_or_insert_with(|| failure.clone());
        self.ended.cancel();
    }

    /// Marks the connection as ended. Requests in flight fail, as do later ones. The reason of an
    /// eviction remains, because later requests can be repeated.
    pub(crate) fn end(&self, failure: &Failure) {
        let mut state = self.state();
        if !matches!(state.ended, Some(Failure::Evicted(_))) {
            state.ended = Some(failure.clone());
        }
        for (_, pending) in std::mem::take(&mut state.pending) {
            pending.replies.send_needed(UpstreamReply::Failed(failure.clone()));
        }
        self.ended.cancel();
    }

    /// Returns true if the connection has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.state().ended.is_some()
    }

    /// Waits until the connection has ended.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

impl TableState {
    fn idle_since(&self) -> Option<Instant> {
        self.used.filter(|_| self.pending.is_empty())
    }
}
