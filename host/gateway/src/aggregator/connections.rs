//! The connections to upstreams: opened when they are needed, shared as far as the configuration says, closed when they are idle.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::header::{AUTHORIZATION, HeaderMap};
use sha2::{Digest, Sha256};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::{Aggregator, Client};
use crate::config::Isolation;
use crate::filter::Filter;
use crate::gateway::upstream::Failure;
use crate::gateway::upstream::connection::{ClientInfo, ProtocolMode, UpstreamConnection};
use crate::message::Head;

/// Whose a connection is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Owner {
    Session(String),
    /// With what makes two clients of a principal different to an upstream.
    Principal(Arc<str>, u64),
    Everybody,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    server: usize,
    owner: Owner,
    mode: ProtocolMode,
    /// The digest of the Authorization header: another token is another connection.
    authorization: Option<[u8; 32]>,
}

struct Slot {
    connection: tokio::sync::Mutex<Option<Arc<UpstreamConnection>>>,
    used: Mutex<Instant>,
}

/// All connections.
#[derive(Default)]
pub(super) struct Connections(Mutex<HashMap<Key, Arc<Slot>>>);

impl Connections {
    fn slots(&self) -> MutexGuard<'_, HashMap<Key, Arc<Slot>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, key: Key) -> Arc<Slot> {
        let mut slots = self.slots();
        let slot = slots.entry(key).or_insert_with(|| {
            Arc::new(Slot {
                connection: tokio::sync::Mutex::default(),
                used: Mutex::new(Instant::now()),
            })
        });
        *slot.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        Arc::clone(slot)
    }

    /// A connection is somebody else's than was thought, unless that one has another already.
    fn rename(&self, from: &Key, to: Key) {
        let mut slots = self.slots();
        if let Some(slot) = slots.remove(from) {
            slots.entry(to).or_insert(slot);
        }
    }

    /// Closes what only this session used.
    pub(super) fn end_session(&self, id: &str) {
        self.slots().retain(|key, _| key.owner != Owner::Session(id.to_owned()));
    }

    /// Closes what nobody used for this long, and what belongs to sessions that have ended meanwhile.
    pub(super) fn end_idle(&self, idle: Duration, is_session: impl Fn(&str) -> bool) {
        self.slots().retain(|key, slot| {
            let used = *slot.used.lock().unwrap_or_else(PoisonError::into_inner);
            let in_use = match slot.connection.try_lock() {
                // The slot itself holds one.
                Ok(connection) => {
                    connection.as_ref().is_some_and(|connection| Arc::strong_count(connection) > 1)
                }
                Err(_) => true,
            };
            match &key.owner {
                Owner::Session(id) => is_session(id),
                _ => in_use || used.elapsed() < idle,
            }
        });
    }
}

/// Tells the filter what an upstream says of its own accord, until the connection ends.
async fn listen(filter: Arc<Filter>, upstream: String, mut said: Receiver<Arc<Vec<u8>>>) {
    loop {
        match said.recv().await {
            Ok(message) => {
                if let Some(head) = Head::read(&message) {
                    filter.on_notification(&upstream, &head);
                }
            }
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Aggregator {
    /// The connection of a client to an upstream. Opening goes on when nobody waits for it any more: a server that starts slowly is there the next time.
    pub(super) async fn connection(
        self: &Arc<Self>,
        client: &Client,
        server: usize,
    ) -> Result<Arc<UpstreamConnection>, Failure> {
        let Some(upstream) = self.servers.get(server).cloned() else {
            return Err(Failure::Unavailable("There is no such upstream.".to_owned()));
        };
        let shared = upstream.isolation == Isolation::Shared;
        let owner = match (upstream.isolation, &client.session) {
            (Isolation::Session, Some(session)) => Owner::Session(session.id.clone()),
            (Isolation::Shared, _) => Owner::Everybody,
            // Stateless requests say themselves what their client can: one connection is enough for all of a principal's.
            _ if client.mode == ProtocolMode::Stateless && upstream.may_be_stateless() => {
                Owner::Principal(Arc::clone(&client.principal), 0)
            }
            _ => Owner::Principal(Arc::clone(&client.principal), hash(&client.info)),
        };
        let authorization = client.headers.get(AUTHORIZATION);
        let authorization = authorization.map(|value| Sha256::digest(value.as_bytes()).into());
        let info = if shared { ClientInfo::gateway() } else { client.info.clone() };
        let headers: HeaderMap = client.headers.clone();
        let key = Key { server, owner, mode: client.mode, authorization };
        let (slot, mode, filter) =
            (self.connections.slot(key.clone()), client.mode, Arc::clone(&self.filter));
        let opening = tokio::spawn(async move {
            let mut connection = slot.connection.lock().await;
            if let Some(open) = connection.as_ref().filter(|open| !open.has_ended()) {
                return Ok(Arc::clone(open));
            }
            let opened = upstream.open(mode, &info, &headers).await?;
            if filter.cache().is_some() {
                tokio::spawn(listen(filter, upstream.name.clone(), opened.unrelated()));
            }
            *connection = Some(Arc::clone(&opened));
            Ok(opened)
        });
        let connection =
            opening.await.unwrap_or_else(|error| Err(Failure::Unavailable(error.to_string())))?;
        // It turned out to be stateful: it is for clients like the one that it was opened for, and for no others.
        if connection.mode == ProtocolMode::Stateful
            && let Owner::Principal(principal, 0) = &key.owner
        {
            let owner = Owner::Principal(Arc::clone(principal), hash(&client.info));
            self.connections.rename(&key, Key { owner, ..key.clone() });
        }
        if let Some(session) = &client.session {
            session.relay(&connection, connection.server.isolation != Isolation::Session);
        }
        Ok(connection)
    }
}
