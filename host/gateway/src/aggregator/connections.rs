//! The connections to upstreams: opened on demand, shared between clients as the configuration
//! allows, closed when idle.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lru::LruCache;
use sha2::{Digest, Sha256};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::audience::Audience;
use super::client::Client;
use super::connection_slots::{ConnectionKey, ConnectionOwner, ConnectionSlots, OpeningSlot};
use super::known_lists::KnownLists;
use super::subscription_filter::SubscriptionFilter;
use crate::config::{Isolation, Limits};
use crate::filter::Filter;
use crate::fleet::UpstreamSessionId;
use crate::lock::lock;
use crate::message::Head;
use crate::protocol_mode::{ClientInfo, ProtocolMode};
use crate::upstream::Failure;
use crate::upstream::connection::{ServerInfo, UpstreamConnection};
use crate::upstream::server::UpstreamServer;

/// The maximum time that a request waits for a slow upstream that it needs.
pub(super) const SLOW_UPSTREAM_TIMEOUT: Duration = Duration::from_secs(8);
/// The maximum time that a merged answer waits for an upstream without a cached answer. Some
/// clients time out after 5 s.
pub(super) const UNKNOWN_TIMEOUT: Duration = Duration::from_secs(4);
/// The maximum time that a merged answer waits for an upstream with a cached answer.
pub(super) const KNOWN_TIMEOUT: Duration = Duration::from_millis(150);
/// The time for which an upstream that did not start or return a list in time counts as slow. The
/// gateway then answers without waiting for it.
pub(super) const SLOW_FOR: Duration = Duration::from_secs(60);

/// The index of an upstream, with the connection to it or the reason why it failed.
pub(super) type OpenedConnection = (usize, Result<Arc<UpstreamConnection>, Failure>);
/// The index of an upstream, with its description or the reason why it failed.
pub(super) type Described = (usize, Result<ServerInfo, Failure>);

/// All open connections to upstreams, by upstream and owner.
pub(super) struct Connections {
    pub(super) servers: Vec<Arc<UpstreamServer>>,
    filter: Arc<Filter>,
    slots: Arc<Mutex<ConnectionSlots>>,
    pub(super) known: Arc<KnownLists>,
    /// The sessions with upstreams that other replicas began, by the id of the client's session.
    /// Each is continued once. A further connection begins its own session.
    resumable: Mutex<LruCache<String, Vec<UpstreamSessionId>>>,
    /// The time at which an upstream, by index, last did not start in time for any client.
    slow: Mutex<HashMap<usize, Instant>>,
}

impl Connections {
    /// Creates an empty table.
    pub(super) fn new(
        servers: Vec<Arc<UpstreamServer>>,
        filter: Arc<Filter>,
        limits: &Limits,
    ) -> Self {
        let known = Arc::new(KnownLists::new());
        let max_sessions = NonZeroUsize::new(limits.sessions).unwrap_or(NonZeroUsize::MIN);
        let resumable = Mutex::new(LruCache::new(max_sessions));
        let slots = Arc::new(Mutex::new(ConnectionSlots::new(limits, servers.len())));
        Self { servers, filter, slots, known, resumable, slow: Mutex::default() }
    }

    fn slots(&self) -> MutexGuard<'_, ConnectionSlots> {
        lock(&self.slots)
    }

    /// Returns the client's connection to the upstream with index `server`. Opens a connection if
    /// there is none.
    pub(super) async fn get(
        &self,
        client: &Client,
        server: usize,
    ) -> Result<Arc<UpstreamConnection>, Failure> {
        let Some(upstream) = self.servers.get(server).cloned() else {
            return Err(Failure::Unavailable("There is no such upstream.".to_owned()));
        };
        let key = connection_key(client, server, &upstream);
        let is_shared = upstream.isolation == Isolation::Shared;
        let info =
            if is_shared { Arc::new(ClientInfo::gateway()) } else { Arc::clone(&client.info) };
        let slot = self.slots().get_or_add(&key, &client.owner);
        let (mode, caller) = (key.mode, client.caller_headers());
        let is_call = !client.is_background;
        // Before the connection opens, so that no later one is missed.
        let current = slot.current.subscribe();
        let (filter, known) = (Arc::clone(&self.filter), Arc::clone(&self.known));
        let audience = Audience::of_client(client, server);
        let resumed = self.resumable_session(&key, &upstream.name);
        let described = resumed.as_ref().and_then(|_| self.known.info(client, server));
        // Opening continues when the caller gives up, so that a server that starts slowly is ready
        // for the next request.
        let opening = OpeningSlot { slots: Arc::clone(&self.slots), key: key.clone(), slot };
        let opening = tokio::spawn(async move {
            let slot = &opening.slot;
            let mut connection = slot.connection.lock().await;
            if let Some(open) = connection.as_ref().filter(|open| !open.has_ended()) {
                return Ok(Arc::clone(open));
            }
            let opened = match described {
                Some(_) => None,
                None => Some(upstream.open(mode, &info, &caller, is_call).await?),
            };
            let described =
                opened.as_ref().map(|opened| opened.server_info().clone()).or(described);
            let resumed = resumed.zip(described).and_then(|(session, described)| {
                upstream.resume(&caller, (&session.id, &session.version), described)
            });
            // The session that only described the upstream ends.
            let Some(opened) = resumed.or(opened) else {
                return Err(Failure::Unavailable("There is no session to continue.".to_owned()));
            };
            known.learn_info(audience, opened.server_info());
            let unrelated = opened.unrelated();
            tokio::spawn(pass_notifications(filter, known, upstream, server, unrelated));
            *connection = Some(Arc::clone(&opened));
            slot.current.send_replace(Arc::downgrade(&opened));
            Ok(opened)
        });
        let connection =
            opening.await.unwrap_or_else(|error| Err(Failure::Unavailable(error.to_string())))?;
        self.restrict_to_introduction(&key, &connection, client);
        if let Some(session) = &client.session {
            let is_shared = connection.server.isolation != Isolation::Session;
            session.relay(&connection, &current, &client.caller, is_shared);
        }
        Ok(connection)
    }

    /// Returns the cached description of an upstream that starts with the first request that needs
    /// it. `None` if the upstream must be asked, because its description is unknown, its connection
    /// is open or being opened, or its circuit is open.
    pub(super) fn described(&self, client: &Client, server: usize) -> Option<ServerInfo> {
        let upstream = self.servers.get(server)?;
        let starts_on_demand = upstream.http.is_none()
            && upstream.isolation != Isolation::Shared
            && !upstream.circuit.is_open();
        if !starts_on_demand {
            return None;
        }
        let key = connection_key(client, server, upstream);
        let slot = self.slots().get(&key);
        let is_closed = slot.is_none_or(|slot| {
            let connection = slot.connection.try_lock();
            connection.is_ok_and(|open| open.as_ref().is_none_or(|open| open.has_ended()))
        });
        if is_closed { self.known.info(client, server) } else { None }
    }

    /// Returns the client's connection to the upstream with index `server`. `None` if it is not
    /// open.
    pub(super) async fn get_open(
        &self,
        client: &Client,
        server: usize,
    ) -> Option<Arc<UpstreamConnection>> {
        let key = connection_key(client, server, self.servers.get(server)?);
        let slot = self.slots().get(&key)?;
        let is_open = slot.connection.try_lock().is_ok_and(|connection| {
            connection.as_ref().is_some_and(|connection| !connection.has_ended())
        });
        // Not the connection of the slot itself: the session must receive its notifications, too.
        if is_open { self.get(client, server).await.ok() } else { None }
    }

    /// Returns the descriptions of all upstreams, and opens the client's connections to those that
    /// do not start on demand. A slow upstream continues to start in the background.
    pub(super) async fn describe_all(&self, client: &Client) -> Vec<Described> {
        let describing = self.servers.iter().enumerate().map(|(server, upstream)| async move {
            if let Some(described) = self.described(client, server) {
                return (server, Ok(described));
            }
            let known = self.known.info(client, server);
            // One client waits for a slow upstream, not each.
            let is_slow =
                lock(&self.slow).get(&server).is_some_and(|since| since.elapsed() < SLOW_FOR);
            let wait = if known.is_some() || is_slow { KNOWN_TIMEOUT } else { UNKNOWN_TIMEOUT };
            let described = match tokio::time::timeout(wait, self.get(client, server)).await {
                Ok(opened) => {
                    lock(&self.slow).remove(&server);
                    opened.map(|connection| connection.server_info().clone())
                }
                Err(_) => {
                    if wait == UNKNOWN_TIMEOUT {
                        lock(&self.slow).insert(server, Instant::now());
                    }
                    known.ok_or_else(|| still_starting(upstream))
                }
            };
            (server, described)
        });
        join_all(describing).await
    }

    /// Opens the client's connections to all upstreams concurrently. A connection that does not
    /// open within [`SLOW_UPSTREAM_TIMEOUT`] is returned as failed.
    pub(super) async fn open_all(&self, client: &Client) -> Vec<OpenedConnection> {
        let opening = self.servers.iter().enumerate().map(|(server, upstream)| async move {
            let opened =
                tokio::time::timeout(SLOW_UPSTREAM_TIMEOUT, self.get(client, server)).await;
            (server, opened.unwrap_or_else(|_| Err(still_starting(upstream))))
        });
        join_all(opening).await
    }

    /// Restricts the sharing of a connection that was opened for all stateless clients of a
    /// principal, but is stateful. Its handshake described this client. Only clients with equal
    /// protocol version and capabilities may therefore share it.
    fn restrict_to_introduction(
        &self,
        key: &ConnectionKey,
        connection: &UpstreamConnection,
        client: &Client,
    ) {
        let ConnectionOwner::Principal(principal, 0) = &key.owner else { return };
        if connection.mode != ProtocolMode::Stateful {
            return;
        }
        let owner = ConnectionOwner::Principal(Arc::clone(principal), introduction(&client.info));
        self.slots().rename(key, ConnectionKey { owner, ..key.clone() }, &client.owner);
    }

    /// Closes the gateway's own connection to the upstream at index `server`, unless clients share
    /// it.
    pub(super) fn end_own(&self, server: usize) {
        let own = Client::gateway().principal;
        self.slots().retain(|key, _| {
            key.server != server
                || !matches!(&key.owner, ConnectionOwner::Principal(owner, _) if *owner == own)
        });
    }

    /// Removes and returns the upstream session that another replica began, if the connection
    /// belongs to its client session. `None` if there is none.
    fn resumable_session(&self, key: &ConnectionKey, upstream: &str) -> Option<UpstreamSessionId> {
        let ConnectionOwner::Session(id) = &key.owner else { return None };
        let mut resumable = self.resumable.lock().unwrap_or_else(PoisonError::into_inner);
        let sessions = resumable.get_mut(id)?;
        let at = sessions.iter().position(|session| session.upstream == upstream)?;
        Some(sessions.swap_remove(at))
    }

    /// Stores the upstream sessions that another replica began for the client session with this id.
    pub(super) fn know_session_ids(&self, id: &str, sessions: &[UpstreamSessionId]) {
        if !sessions.is_empty() {
            let mut resumable = self.resumable.lock().unwrap_or_else(PoisonError::into_inner);
            resumable.put(id.to_owned(), sessions.to_vec());
        }
    }

    /// Returns the ids of the upstream sessions of the client session with this id, so that other
    /// replicas can continue them. The upstream sessions then outlive their connections to this
    /// replica.
    pub(super) fn session_ids(&self, id: &str) -> Vec<UpstreamSessionId> {
        let mut ids = Vec::new();
        for (upstream, connection) in self.of_session(id) {
            if let Some((id, version)) = connection.session_id() {
                connection.set_portable(true);
                ids.push(UpstreamSessionId { upstream, id, version });
            }
        }
        ids
    }

    /// Makes the upstream sessions of the client session with this id end with their connections.
    pub(super) fn release_session(&self, id: &str) {
        for (_, connection) in self.of_session(id) {
            connection.set_portable(false);
        }
    }

    /// Returns the open connections of the client session with this id, with the names of their
    /// upstreams.
    fn of_session(&self, id: &str) -> Vec<(String, Arc<UpstreamConnection>)> {
        let owner = ConnectionOwner::Session(id.to_owned());
        let slots: Vec<_> = {
            let slots = self.slots();
            let own = slots.iter().filter(|(key, _)| key.owner == owner);
            own.map(|(key, slot)| (key.server, Arc::clone(slot))).collect()
        };
        let mut found = Vec::new();
        for (server, slot) in slots {
            // One that is being opened is not known to other replicas, which open their own.
            let Ok(connection) = slot.connection.try_lock() else { continue };
            let name = self.servers.get(server).map(|server| server.name.clone());
            found.extend(name.zip(connection.as_ref().map(Arc::clone)));
        }
        found
    }

    /// Closes the connections that belong to the client session with this id.
    pub(super) fn end_session(&self, id: &str) {
        self.slots().retain(|key, _| key.owner != ConnectionOwner::Session(id.to_owned()));
    }

    /// Closes shared connections that were idle for `max_idle`, and connections of sessions that
    /// have ended. `is_session` returns true for the id of an existing session.
    pub(super) fn end_idle(&self, max_idle: Duration, is_session: impl Fn(&str) -> bool) {
        self.slots().retain(|key, slot| {
            let is_in_use = match slot.connection.try_lock() {
                // One reference is the slot's own.
                Ok(connection) => {
                    connection.as_ref().is_some_and(|open| Arc::strong_count(open) > 1)
                }
                // It is being opened.
                Err(_) => true,
            };
            match &key.owner {
                ConnectionOwner::Session(id) => is_session(id),
                _ => is_in_use || slot.idle() < max_idle,
            }
        });
    }
}

fn still_starting(upstream: &UpstreamServer) -> Failure {
    Failure::Timeout(format!("The upstream `{}` is still starting.", upstream.name))
}

fn connection_key(client: &Client, server: usize, upstream: &UpstreamServer) -> ConnectionKey {
    let owner = match (upstream.isolation, &client.session) {
        (Isolation::Session, Some(session)) => ConnectionOwner::Session(session.id.clone()),
        (Isolation::Shared, _) => ConnectionOwner::Everybody,
        // Stateless requests contain the introduction of their client, so that all clients of a
        // principal can share one connection.
        _ if client.mode == ProtocolMode::Stateless
            && upstream.speaks(ProtocolMode::Stateless) != Some(false) =>
        {
            ConnectionOwner::Principal(Arc::clone(&client.principal), 0)
        }
        _ => ConnectionOwner::Principal(Arc::clone(&client.principal), introduction(&client.info)),
    };
    let credentials =
        upstream.http.as_ref().map(|http| http.forwarded_credentials(&client.headers));
    let credentials = credentials.filter(|given| !given.is_empty());
    let credentials = credentials.map(|given| Sha256::digest(given.join(&b'\n')).into());
    ConnectionKey { server, owner, mode: connection_mode(client, upstream), credentials }
}

/// Returns the preferred protocol mode of a client's connection. Clients of both modes share the
/// process of a shared stdio upstream, because a second process might need the same port or file.
fn connection_mode(client: &Client, upstream: &UpstreamServer) -> ProtocolMode {
    match upstream.isolation {
        Isolation::Shared if upstream.http.is_none() => ProtocolMode::Stateful,
        _ => client.mode,
    }
}

/// Returns the hash of those parts of a client's description on which an upstream's behavior may
/// depend: protocol version and capabilities.
fn introduction(info: &ClientInfo) -> u64 {
    hash((&info.version, &info.capabilities))
}

/// Passes the upstream's notifications to the filter and the known lists until the connection ends.
/// The notifications remove cached answers and lists that they make invalid.
async fn pass_notifications(
    filter: Arc<Filter>,
    known: Arc<KnownLists>,
    upstream: Arc<UpstreamServer>,
    server: usize,
    mut unrelated: Receiver<Arc<Vec<u8>>>,
) {
    let pass = |message: &[u8]| {
        if let Some(head) = Head::read(message) {
            known.forget(server, head.method(), upstream.is_common());
            filter.on_notification(&upstream.name, &head);
        }
    };
    loop {
        match unrelated.recv().await {
            Ok(message) => pass(&message),
            // The lost notifications may report any change. A changed list also removes the cached
            // answers with resources.
            Err(RecvError::Lagged(_)) => {
                SubscriptionFilter::lists().list_changes().for_each(|changed| pass(&changed));
            }
            Err(RecvError::Closed) => return,
        }
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use crate::aggregator::test_kit::{aggregator, client, upstream};
    use crate::config::{Isolation, Upstream};

    #[tokio::test]
    async fn only_open_connections_have_slots() {
        let command = vec!["false".to_owned()];
        let broken = Upstream { command, ..upstream("broken", "a", Isolation::Principal) };
        let working = upstream("working", "b", Isolation::Principal);
        let upstreams = vec![broken, working];
        let (aggregator, _processes) = aggregator(upstreams, 8, context_guard_test_stub::FORWARD);
        let (client, connections) = (client("ann"), &aggregator.connections);
        assert!(connections.get(&client, 0).await.is_err());
        assert!(connections.get(&client, 1).await.is_ok());
        let slots = connections.slots();
        assert_eq!(Vec::from_iter(slots.iter().map(|(key, _)| key.server)), [1]);
    }
}
