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
        let holds = || lock(&self.catalogues.holds).get(&revision).copied();
        if holds() == Some(false) {
            return Arc::default();
        }
        let merged = self.lists.tools_of_one(origin, server).await;
        let key = (self.catalogues.version(&merged), revision);
        if let Some(known) = lock(&self.catalogues.withheld).get(&key).cloned() {
            return known;
        }
        let withheld = Arc::new(match self.guarded_list(origin, "0", &merged).await {
            Ok(Some((_, list))) if !list.holds => Withheld::default(),
            Ok(Some((_, list))) if !merged.lists.is_empty() => Withheld::Tools(list.held.clone()),
            Ok(None) | Err(GuardFailed) if holds() != Some(true) => Withheld::default(),
            _ => Withheld::Unknown,
        });
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
