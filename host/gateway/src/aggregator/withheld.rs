//! Tools whose definitions policy withholds from a client (`catalogue.hold`).

use std::collections::HashSet;
use std::sync::Arc;

use super::Aggregator;
use super::client::Origin;
use super::client_list::GuardFailed;
use crate::lock::lock;
use crate::reply;

/// The tools of an upstream whose definitions policy withholds from a client.
pub(super) enum Withheld {
    /// The tools with these client-visible names.
    Tools(HashSet<String>),
    /// Not known, because the upstream has not listed its tools, or the guard cannot read the list.
    Unknown,
}

impl Default for Withheld {
    fn default() -> Self {
        Self::Tools(HashSet::new())
    }
}

impl Withheld {
    /// Returns true if a client must not see or call the tool with this name.
    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Self::Tools(names) => names.contains(name),
            Self::Unknown => true,
        }
    }
}

impl Aggregator {
    /// Returns the tools of the upstream at index `server` whose current definitions policy
    /// withholds from the client.
    ///
    /// Each call is decided by itself: the client may not have listed the tools since the start,
    /// since a change of the policy, or since an approval.
    pub(super) async fn withheld(&self, origin: &Origin<'_>, server: usize) -> Arc<Withheld> {
        let revision = self.revision_of(origin);
        if !revision.holds_definitions() {
            return Arc::default();
        }
        let merged = self.lists.tools_of_one(origin, server).await;
        let key = (self.catalogues.version(&merged), revision.number);
        if let Some(known) = lock(&self.catalogues.withheld).get(&key).cloned() {
            return known;
        }
        let withheld = match self.guarded_list(origin, "0", &merged).await {
            Ok(Some((_, list))) if !merged.lists.is_empty() => Withheld::Tools(list.held.clone()),
            Ok(_) => Withheld::Unknown,
            // This is not cached: the guard may read the list at the next call.
            Err(GuardFailed) => return Arc::new(Withheld::Unknown),
        };
        let withheld = Arc::new(withheld);
        lock(&self.catalogues.withheld).put(key, Arc::clone(&withheld));
        withheld
    }

    /// Returns the error response to a call of a tool that policy withholds from the client, or may
    /// withhold. `None` if the client may call it. `name` is client-visible.
    pub(super) async fn refuse_withheld(
        &self,
        origin: &Origin<'_>,
        server: usize,
        name: &str,
        request: &[u8],
    ) -> Option<Vec<u8>> {
        let withheld = self.withheld(origin, server).await;
        match &*withheld {
            Withheld::Unknown => {
                let text = "The definition of this tool is not known yet, and policy withholds definitions (catalogue.hold): repeat the call later.";
                Some(reply::failure(request, reply::UPSTREAM_UNAVAILABLE, text))
            }
            withheld => withheld.has(name).then(|| reply::unknown_tool(request, name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregator::client::MAX_WAITING_BYTES;
    use crate::aggregator::test_kit::{aggregator_with, client, upstream};
    use crate::byte_channel::byte_channel;
    use crate::config::Isolation;

    #[tokio::test(flavor = "multi_thread")]
    async fn fault_of_the_guard_withholds_what_policy_may_withhold() {
        let client = client("ann");
        let (out, _) = byte_channel(MAX_WAITING_BYTES);
        let origin = Origin::new(&client, &out);
        for (policy, expected) in [("", false), (r#"{"catalogue": {"hold": ["changed"]}}"#, true)] {
            // The guard fails on each message.
            let upstreams = vec![upstream("a", "tool", Isolation::Shared)];
            let (aggregator, processes) = aggregator_with(upstreams, 4, "unreachable", policy);
            let withheld = aggregator.withheld(&origin, 0).await;
            assert_eq!(withheld.has("tool"), expected, "{policy}");
            assert!(lock(&aggregator.catalogues.withheld).is_empty());
            processes.end().await;
        }
    }
}
