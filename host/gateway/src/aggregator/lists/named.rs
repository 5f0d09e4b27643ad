//! The owners of tools and prompts, by client-visible name.

use std::borrow::Cow;

use futures_util::future::join_all;

use super::{Lists, request_meta};
use crate::aggregator::client::Origin;
use crate::aggregator::connections::SLOW_UPSTREAM_TIMEOUT;
use crate::aggregator::list_kinds::ListKind;

impl Lists {
    /// Returns the upstream's index and its own name for a tool or prompt, given the client-visible
    /// name. Reads the lists of upstreams first if the name is a replaced one from before a restart
    /// of the gateway. `None` if the name is unknown.
    pub(in crate::aggregator) async fn find_named<'n>(
        &self,
        origin: &Origin<'_>,
        kind: &'static ListKind,
        name: &'n str,
    ) -> Option<(usize, Cow<'n, str>)> {
        let names = &self.router.client_names;
        if let Some(found) = names.find(name) {
            return Some(found);
        }
        let meta = request_meta(origin.client);
        let meta = meta.as_deref();
        let reading = names.possible_owners(name).into_iter().map(|server| async move {
            let fetch = self.fetch(origin, server, kind, meta);
            let list = tokio::time::timeout(SLOW_UPSTREAM_TIMEOUT, fetch).await.ok()?.ok()?;
            Some((server, list))
        });
        for (server, list) in join_all(reading).await.into_iter().flatten() {
            for entry in &list.entries {
                names.to_client_name(server, &entry.key);
            }
        }
        names.find(name)
    }
}
