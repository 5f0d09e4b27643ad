//! The upstreams that are behind a guard of their own.

use std::collections::btree_map::Entry;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::Lists;
use crate::aggregator::client::Origin;
use crate::catalogue_tools::READ_TOOLS;
use crate::lock::lock;

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
    /// Learns from the names of the tools on a page whether an upstream is behind a guard of its
    /// own. The guard adds its tool to the first page.
    pub(super) fn learn_guard(&self, server: usize, tools: &[String], is_first_page: bool) {
        let count = READ_TOOLS.iter().filter(|tool| tools.iter().any(|name| name == *tool)).count();
        // With both names, one tool is the upstream's own: it is `context-guard wrap`, say.
        // Without any, the guard has not seen this list.
        let guard = match count {
            0 => return,
            count if count == READ_TOOLS.len() => InnerGuard::Present,
            _ if is_first_page => InnerGuard::Absent,
            _ => return,
        };
        lock(&self.guards).insert(server, guard);
    }

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
