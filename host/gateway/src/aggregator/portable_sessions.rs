//! Sessions of stateful clients that any replica of a fleet can continue.

use std::sync::Arc;

use super::Aggregator;
use crate::fleet::UpstreamSessionId;
use crate::protocol_mode::ClientInfo;
use crate::store::CursorStore;

impl Aggregator {
    /// Returns true if a session works only at the replica that began it. That is the case if an
    /// upstream is a process, or its session is a connection (HTTP+SSE).
    pub(crate) fn binds_sessions(&self) -> bool {
        let mut servers = self.servers().iter();
        servers.any(|server| server.http.is_none() || server.speaks_legacy_sse() == Some(true))
    }

    /// Returns the client of a session that is open here, and the ids of the session's upstream
    /// sessions. `None` if the session is not open here, or belongs to another principal.
    pub(crate) fn describe_session(
        &self,
        principal: &Arc<str>,
        id: &str,
    ) -> Option<(ClientInfo, Vec<UpstreamSessionId>)> {
        let session = self.sessions.find(principal, id)?;
        Some((session.info.as_ref().clone(), self.connections.session_ids(id)))
    }

    /// Opens a session that another replica began. Does nothing if the session is already open
    /// here.
    pub(crate) fn restore_session(
        &self,
        principal: &Arc<str>,
        owner: &Arc<str>,
        id: &str,
        client: &ClientInfo,
        upstreams: &[UpstreamSessionId],
    ) {
        if self.sessions.contains(id) {
            return;
        }
        self.connections.know_session_ids(id, upstreams);
        if let Some(evicted) = self.sessions.restore(principal, owner, id, client.clone()) {
            self.end_session(&evicted);
        }
    }

    /// Shares the owners of MCP tasks with the other replicas through the store of the fleet.
    pub(crate) fn join_fleet(&self, store: Option<&Arc<dyn CursorStore>>) {
        if let Some(store) = store {
            self.router.tasks.share(Arc::clone(store));
        }
    }

    /// Returns true if a session with this id is open here.
    pub(crate) fn has_session_id(&self, id: &str) -> bool {
        self.sessions.contains(id)
    }
}
