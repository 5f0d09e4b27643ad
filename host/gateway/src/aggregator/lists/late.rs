//! Lists of slow upstreams. Clients are answered without them, and notified when they arrive.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tokio::task::{AbortHandle, JoinError};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info};

use super::{Lists, request_meta};
use crate::aggregator::audience::Audience;
use crate::aggregator::client::{Client, Origin};
use crate::aggregator::connections::{KNOWN_TIMEOUT, SLOW_FOR, UNKNOWN_TIMEOUT};
use crate::aggregator::fresh_lists::REFRESH_AFTER;
use crate::aggregator::list_kinds::ListKind;
use crate::aggregator::upstream_list::UpstreamList;
use crate::lock::lock;
use crate::upstream::Failure;

/// The pause before the gateway asks a slow upstream again after a failure. It doubles each time.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// The maximum pause before the gateway asks a slow upstream again.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(60);
/// The maximum number of list requests to a slow upstream that answers with errors.
const MAX_REFETCHES: usize = 3;
/// The maximum time for which the gateway repeats requests to a slow upstream for a stateless
/// client.
const STATELESS_LIFETIME: Duration = Duration::from_secs(300);
/// The maximum number of lists for which the gateway waits in the background at one time.
const MAX_REFETCHING: usize = 4_096;

/// A list for which the gateway waits after an answer without it: the client's session, if it has
/// one, its audience, and the method.
pub(super) type RefetchKey = (Option<String>, Audience, &'static str);
/// A list request that continues in the background. Dropping the handle aborts it.
pub(super) type Fetching = AbortOnDropHandle<Result<Arc<UpstreamList>, Failure>>;

impl Lists {
    /// Returns the list of the upstream at index `server`. Waits only briefly if the upstream is
    /// slow (see [`Self::is_slow`]), or if its last list is known and no change of it was
    /// announced. Then returns the last list, although it may have changed, or a failure if there
    /// is none. Does the same if the gateway has no process for the upstream now.
    pub(super) async fn fetch_one(
        self: &Arc<Self>,
        origin: &Origin<'_>,
        server: usize,
        kind: &'static ListKind,
        meta: Option<&RawValue>,
    ) -> Result<Arc<UpstreamList>, Failure> {
        let client = origin.client;
        let was_announced = self.pop_announced(client, server, kind);
        if let Some(list) = self.fresh_list(origin, server, kind, meta).await {
            return Ok(list);
        }
        let known = self.known_list(client, server, kind).await;
        let key = refetch_key(client, server, kind);
        let wait = match &known {
            Some(_) if !was_announced => KNOWN_TIMEOUT,
            None if self.is_slow(&key) => KNOWN_TIMEOUT,
            _ => UNKNOWN_TIMEOUT,
        };
        let mut fetching = self.start_fetch(client.clone(), server, kind, meta);
        match tokio::time::timeout(wait, &mut fetching).await {
            Ok(fetched) => {
                lock(&self.slow).pop(&key);
                lock(&self.slow_servers).remove(&server);
                match fetched.unwrap_or_else(|error| Err(ended(&error))) {
                    // The upstream is not at fault, so its last list still holds.
                    Err(failure) if failure.is_of_capacity() => {
                        let known = self.connections.known.last_list(client, server, kind);
                        let again = self.start_fetch(client.clone(), server, kind, meta);
                        self.announce_later(client, server, kind, known.clone(), again);
                        known.ok_or(failure)
                    }
                    fetched => fetched,
                }
            }
            Err(_) => {
                if wait == UNKNOWN_TIMEOUT {
                    lock(&self.slow).put(key, Instant::now());
                    lock(&self.slow_servers).insert(server, Instant::now());
                }
                let last = self.connections.known.last_list(client, server, kind);
                self.announce_later(client, server, kind, last.clone(), fetching);
                let seconds = UNKNOWN_TIMEOUT.as_secs();
                let reason = format!("no answer within {seconds} s");
                last.ok_or(Failure::Timeout(reason))
            }
        }
    }

    /// Returns the last list of an upstream for a client, unless a change of it was announced.
    async fn known_list(
        &self,
        client: &Client,
        server: usize,
        kind: &ListKind,
    ) -> Option<Arc<UpstreamList>> {
        let known = &self.connections.known;
        let is_common =
            self.connections.servers.get(server).is_some_and(|server| server.is_common());
        // The process of another session announced the change. That of this session has not
        // started, and begins with the list of a new process.
        if !is_common && self.connections.get_open(client, server).await.is_none() {
            return known.last_list(client, server, kind);
        }
        known.list(client, server, kind)
    }

    /// Returns true if a request for this list timed out within the last [`SLOW_FOR`]. A timeout of
    /// any other list of the upstream counts, too, unless the upstream has returned a list since.
    /// One client waits for it, not each.
    pub(super) fn is_slow(&self, key: &RefetchKey) -> bool {
        let is_recent = |since: &Instant| since.elapsed() < SLOW_FOR;
        lock(&self.slow).get(key).is_some_and(is_recent)
            || lock(&self.slow_servers).get(&key.1.server()).is_some_and(is_recent)
    }

    /// Asks an upstream in the background for a list of which the client just uses a cached one,
    /// at most once within [`REFRESH_AFTER`]. Changed definitions are found although the client
    /// never lists. Does nothing if the client would need a process of its own for it.
    pub(super) async fn refresh_later(
        self: &Arc<Self>,
        client: &Client,
        server: usize,
        kind: &'static ListKind,
        shown: &Arc<UpstreamList>,
    ) {
        let key = refetch_key(client, server, kind);
        {
            let mut refreshed = lock(&self.refreshed);
            if refreshed.get(&key).is_some_and(|last| last.elapsed() < REFRESH_AFTER) {
                return;
            }
            refreshed.put(key, Instant::now());
        }
        let is_common =
            self.connections.servers.get(server).is_some_and(|server| server.is_common());
        if !is_common && self.connections.get_open(client, server).await.is_none() {
            return;
        }
        self.refresh(&client.in_background(), server, kind, request_meta(client).as_deref(), shown);
    }

    /// Asks an upstream in the background for a list, and announces to the client if it differs
    /// from `shown`.
    pub(super) fn refresh(
        self: &Arc<Self>,
        client: &Client,
        server: usize,
        kind: &'static ListKind,
        meta: Option<&RawValue>,
        shown: &Arc<UpstreamList>,
    ) {
        let fetching = self.start_fetch(client.clone(), server, kind, meta);
        self.announce_later(client, server, kind, Some(Arc::clone(shown)), fetching);
    }

    /// Returns true, once, after the gateway has announced to a client that this list has changed.
    pub(super) fn pop_announced(&self, client: &Client, server: usize, kind: &ListKind) -> bool {
        lock(&self.announced).pop(&refetch_key(client, server, kind)).is_some()
    }

    /// Waits in the background for the list of a slow upstream. Notifies the client if the list
    /// differs from `shown`, the list that the client received instead. Aborts `fetching` if MCP
    /// defines no notification, another task waits for the list, or [`MAX_REFETCHING`] tasks wait
    /// and no owner has more of them than this one.
    pub(super) fn announce_later(
        self: &Arc<Self>,
        client: &Client,
        server: usize,
        kind: &'static ListKind,
        shown: Option<Arc<UpstreamList>>,
        fetching: Fetching,
    ) {
        let key = refetch_key(client, server, kind);
        if kind.changed.is_empty() {
            return;
        }
        let mut refetching = lock(&self.refetching);
        if refetching.contains_key(&key) || !make_room(&mut refetching, &key) {
            return;
        }
        let (lists, client, own_key) = (Arc::clone(self), client.in_background(), key.clone());
        let task = tokio::spawn(async move {
            let fetching = lists.fetch_until_answered(&client, server, kind, fetching);
            let fetched = match &client.session {
                Some(session) => session.ended.run_until_cancelled(fetching).await.flatten(),
                None => tokio::time::timeout(STATELESS_LIFETIME, fetching).await.ok().flatten(),
            };
            let shown = shown.unwrap_or_default();
            let is_new = fetched.is_some_and(|fetched| !fetched.has_entries_of(&shown));
            lock(&lists.refetching).remove(&own_key);
            if is_new {
                lock(&lists.announced).put(own_key, ());
                lists.announce(&client, server, kind);
            }
        });
        // The task removes the key at its end, for which it waits for this lock.
        refetching.insert(key, task.abort_handle());
    }

    /// Notifies a client that the list of an upstream has changed.
    pub(in crate::aggregator) fn announce(
        &self,
        client: &Client,
        server: usize,
        kind: &'static ListKind,
    ) {
        match &client.session {
            Some(session) => session.announce_change(kind.changed),
            None => {
                let change = (Audience::of_client(client, server), kind.changed);
                // Without subscribers there is no receiver.
                let _ = self.connections.known.changes.send(change);
            }
        }
    }

    /// Returns the list that `fetching` reads. After a failure, asks again as soon as the upstream
    /// is reachable. `None` if the upstream refuses the client or answers with errors.
    async fn fetch_until_answered(
        self: &Arc<Self>,
        client: &Client,
        server: usize,
        kind: &'static ListKind,
        fetching: Fetching,
    ) -> Option<Arc<UpstreamList>> {
        let (mut fetching, mut pause) = (fetching, RETRY_PAUSE);
        for _ in 0..MAX_REFETCHES {
            let failure = match fetching.await.unwrap_or_else(|error| Err(ended(&error))) {
                Ok(list) => return Some(list),
                Err(failure) => failure,
            };
            if failure.is_of_capacity() {
                info!("cannot list {} yet: {failure}", kind.member);
            } else {
                debug!("cannot list {} yet: {failure}", kind.member);
            }
            loop {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(MAX_RETRY_PAUSE);
                match self.connections.get(client, server).await {
                    Ok(_) => break,
                    Err(Failure::Refused(_) | Failure::NotTranslatable(_)) => return None,
                    Err(_) => {}
                }
            }
            let meta = request_meta(client);
            fetching = self.start_fetch(client.clone(), server, kind, meta.as_deref());
        }
        None
    }
}

/// Makes room for another task if there are [`MAX_REFETCHING`]. Aborts one of the upstream with the
/// most tasks and, of this upstream, of the owner with the most. Returns false if that is a task of
/// the same upstream and owner as `key`.
fn make_room(refetching: &mut HashMap<RefetchKey, AbortHandle>, key: &RefetchKey) -> bool {
    if refetching.len() < MAX_REFETCHING {
        return true;
    }
    let mut upstreams: HashMap<usize, usize> = HashMap::new();
    for (_, audience, _) in refetching.keys() {
        *upstreams.entry(audience.server()).or_default() += 1;
    }
    let largest = upstreams.into_iter().max_by_key(|(_, count)| *count);
    let Some((server, _)) = largest else { return true };
    let mut owners: HashMap<&Arc<str>, usize> = HashMap::new();
    for (_, audience, _) in refetching.keys().filter(|key| key.1.server() == server) {
        *owners.entry(audience.owner()).or_default() += 1;
    }
    let largest = owners.into_iter().max_by_key(|(_, count)| *count);
    let Some((owner, _)) = largest else { return true };
    if key.1.server() == server && key.1.owner() == owner {
        return false;
    }
    let is_victim = |key: &&RefetchKey| key.1.server() == server && key.1.owner() == owner;
    let victim = refetching.keys().find(is_victim).cloned();
    if let Some(task) = victim.and_then(|victim| refetching.remove(&victim)) {
        task.abort();
    }
    true
}

pub(super) fn refetch_key(client: &Client, server: usize, kind: &ListKind) -> RefetchKey {
    let session = client.session.as_ref().map(|session| session.id.clone());
    (session, Audience::of_client(client, server), kind.method)
}

/// Returns the failure of a list request whose task ended early.
pub(super) fn ended(error: &JoinError) -> Failure {
    Failure::Unavailable(format!("the list request ended: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregator::client::MAX_WAITING_BYTES;
    use crate::aggregator::list_kinds::TOOLS;
    use crate::aggregator::test_kit::{aggregator, client, upstream};
    use crate::byte_channel::byte_channel;
    use crate::config::Isolation;

    const FORWARD: &str = context_guard_test_stub::FORWARD;

    #[tokio::test]
    async fn owner_with_the_most_waiting_lists_makes_room() {
        let mut refetching = HashMap::new();
        let key = |principal: &str, session: usize, server: usize| {
            let audience = Audience::of_client(&client(principal), server);
            (Some(session.to_string()), audience, TOOLS.method)
        };
        let mut wait = |key: RefetchKey| {
            let has_room = make_room(&mut refetching, &key);
            if has_room {
                let task = tokio::spawn(std::future::pending::<()>());
                refetching.insert(key, task.abort_handle());
            }
            (has_room, refetching.len())
        };
        assert!(wait(key("carl", 0, 1)).0);
        for session in 1..MAX_REFETCHING {
            assert!(wait(key("bob", session, 0)).0);
        }
        assert_eq!(wait(key("bob", 0, 0)), (false, MAX_REFETCHING));
        assert_eq!(wait(key("ann", 0, 0)), (true, MAX_REFETCHING));
        assert!(refetching.contains_key(&key("ann", 0, 0)));
        assert!(refetching.contains_key(&key("carl", 0, 1)));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn changed_list_is_served_while_there_is_no_process() {
        let upstreams = ["a", "b"].map(|name| upstream(name, "tool", Isolation::Shared));
        let (aggregator, processes) = aggregator(upstreams.to_vec(), 0, FORWARD);
        let (lists, client) = (&aggregator.lists, client("ann"));
        let known = &aggregator.connections.known;
        known.learn_list(&client, 0, &TOOLS, &UpstreamList::named("old"));
        known.forget(0, TOOLS.changed, true);
        // The request does not wait for long.
        lock(&lists.slow_servers).insert(0, Instant::now());
        let (out, _) = byte_channel(MAX_WAITING_BYTES);
        let origin = Origin::new(&client, &out);
        let listed = lists.fetch_one(&origin, 0, &TOOLS, None).await;
        assert_eq!(listed.unwrap(), UpstreamList::named("old"));
        processes.end().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn change_in_another_session_does_not_delay_the_first_list() {
        let upstreams = ["a", "b"].map(|name| upstream(name, "tool", Isolation::Session));
        let (aggregator, processes) = aggregator(upstreams.to_vec(), 0, FORWARD);
        let (lists, client) = (&aggregator.lists, client("ann"));
        let known = &aggregator.connections.known;
        known.learn_list(&client, 0, &TOOLS, &UpstreamList::named("last"));
        known.forget(0, TOOLS.changed, false);
        let (out, _) = byte_channel(MAX_WAITING_BYTES);
        let listed = lists.fetch_one(&Origin::new(&client, &out), 0, &TOOLS, None).await;
        assert_eq!(listed.unwrap(), UpstreamList::named("last"));
        // It did not wait for as long as for an unknown list.
        assert!(lock(&lists.slow_servers).is_empty());
        processes.end().await;
    }
}
