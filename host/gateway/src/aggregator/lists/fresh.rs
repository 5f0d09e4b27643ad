//! Answers requests for lists of tools from the cache, without asking the upstream.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::Lists;
use crate::aggregator::audience::Audience;
use crate::aggregator::client::{Client, Origin};
use crate::aggregator::fresh_lists::ListSource;
use crate::aggregator::list_kinds::{ListKind, TOOLS};
use crate::aggregator::upstream_list::UpstreamList;
use crate::upstream::connection::UpstreamConnection;

impl Lists {
    /// Returns the list of tools that the client's open connection returned recently. If the list
    /// is older than some seconds, also asks the upstream in the background, and announces a change
    /// to the client. `None` if no recent list is cached, and for other kinds of lists.
    pub(super) async fn fresh_list(
        self: &Arc<Self>,
        origin: &Origin<'_>,
        server: usize,
        kind: &'static ListKind,
        meta: Option<&RawValue>,
    ) -> Option<Arc<UpstreamList>> {
        // Servers change their lists of resources often, and those are short.
        if kind.method != TOOLS.method {
            return None;
        }
        let client = origin.client;
        let connection = self.connections.get_open(client, server).await?;
        // The tools of an upstream that fails are missing from the list.
        if !connection.server.circuit.availability.is_up() {
            return None;
        }
        let revision = self.revision(origin, server);
        let source = list_source(client, &connection, server, revision);
        let found = self.connections.known.fresh.find(&source)?;
        if found.needs_refresh {
            self.refresh(client, server, kind, meta, &found.list);
        }
        Some(found.list)
    }

    /// Caches a list of tools for the next requests, and compares its definitions with the accepted
    /// ones. It is cached only if the upstream has not announced more than `changes` changes.
    pub(super) fn learn_tools(
        &self,
        server: usize,
        source: &ListSource<'_, UpstreamConnection>,
        list: &Arc<UpstreamList>,
        changes: u64,
    ) {
        let common = Audience::of_client(&Client::gateway(), server);
        let name = &source.connection.server.name;
        self.definitions.observe(&source.audience, &common, name, source.revision, list);
        self.connections.known.fresh.learn(source, list, changes);
    }

    /// Returns the number of the guard's revision that processes a list request to an upstream.
    pub(super) fn revision(&self, origin: &Origin<'_>, server: usize) -> u64 {
        let exchange = self.forwarder.begin(origin, Some(server), &[]);
        self.forwarder.filter.revisions().choose(&exchange.context).number
    }
}

/// Returns the source (the key in the cache) of a list that a connection returns for a client.
pub(super) fn list_source<'a>(
    client: &Client,
    connection: &'a Arc<UpstreamConnection>,
    server: usize,
    revision: u64,
) -> ListSource<'a, UpstreamConnection> {
    ListSource {
        audience: Audience::of_client(client, server),
        connection,
        revision,
        announces_changes: connection.server_info().has_capability("tools/listChanged"),
    }
}
