//! The upstreams that are behind a guard of their own.

use std::collections::btree_map::Entry;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::{Lists, lock};
use crate::aggregator::client::Origin;

/// The pause before an upstream is asked again for the tools of a guard of its own, or after it
/// failed to list its tools.
pub(super) const GUARD_PAUSE: Duration = Duration::from_secs(60);

/// The knowledge about the guard of an upstream.
#[derive(Clone, Copy)]
pub(super) enum InnerGuard {
    Present,
    Absent,
    /// The upstream did not list its tools when it was asked, at this time.
    Unknown(Instant),
}

impl Lists {
    /// Returns the indexes of the upstreams that are behind a guard of their own. Upstreams that
    /// have not listed their tools yet, for example because they still start, are asked for them,
    /// each at most once a minute.
    pub(in crate::aggregator) async fn guarded(&self, origin: &Origin<'_>) -> Vec<usize> {
        let now = Instant::now();
        let is_due = |server: &usize| {
            let mut guards = lock(&self.guards);
            let known = guards.entry(*server);
            let is_due = match &known {
                Entry::Vacant(_) => true,
                Entry::Occupied(known) => match known.get() {
                    InnerGuard::Unknown(since) => since.elapsed() >= GUARD_PAUSE,
                    InnerGuard::Present | InnerGuard::Absent => false,
                },
            };
            if is_due {
                known.insert_entry(InnerGuard::Unknown(now));
            }
            is_due
        };
        let due: Vec<usize> = (0..self.connections.servers.len()).filter(is_due).collect();
        // A failure of this request is no failure of a call.
        let client = origin.client.in_background();
        let origin = Origin { client: &client, ..*origin };
        join_all(due.into_iter().map(|server| self.see_tools(&origin, server))).await;
        let present: Vec<usize> = lock(&self.guards)
            .iter()
            .filter(|(_, guard)| matches!(guard, InnerGuard::Present))
            .map(|(server, _)| *server)
            .collect();
        // The guard passes calls of such a tool only to an upstream whose list it has seen for this
        // caller.
        let seeing = present.iter().map(|server| self.ensure_tools_seen(&origin, *server));
        join_all(seeing).await;
        present
    }
}
