//! Clients' subscriptions to changes of lists and resources, for both protocol modes of client and
//! upstream.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use super::audience::Audience;
use super::client::{Client, MAX_WAITING_BYTES};
use super::client_session::ClientSession;
use super::connections::Connections;
use super::list_changes::ChangeBurst;
use super::router::Router;
use super::subscription_filter::{ACKNOWLEDGED, SubscriptionFilter, without_subscription_id};
use crate::byte_channel::{ByteSender, byte_channel};
use crate::filter::Filter;
use crate::message::{Head, error_code};
use crate::protocol_mode::ProtocolMode;
use crate::stream_limits::OpenStream;
use crate::tasks::AbortOnDrop;
use crate::upstream::Failure;
use crate::upstream::connection::UpstreamConnection;
use crate::upstream::request_table::UpstreamReply;

/// The maximum time that a new subscription waits for confirmations of the upstreams.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause before the gateway subscribes again after an upstream's connection has ended.
const RESUBSCRIBE_PAUSE: Duration = Duration::from_secs(5);
/// The maximum pause before the gateway connects again to an upstream that is unreachable.
const MAX_RESUBSCRIBE_PAUSE: Duration = Duration::from_secs(320);

/// Subscribes to changes at upstreams on behalf of clients. Clones share the same state. The
/// subscription tasks hold clones.
#[derive(Clone)]
pub(super) struct Subscriptions {
    connections: Arc<Connections>,
    router: Arc<Router>,
    filter: Arc<Filter>,
}

/// The maximum number of confirmations in the queue. Each upstream confirms once for each
/// connection.
const MAX_CONFIRMATIONS: usize = 1_024;

/// The maximum number of list changes in the queue of a subscription.
const MAX_FOUND_LISTS: usize = 16;

/// The channels to which the tasks of a subscription send.
struct Sinks {
    /// Carries change notifications without a subscription id. Notifications are dropped if a
    /// client is slow.
    changes: ByteSender<Vec<u8>>,
    /// Carries one value for each confirmation of the subscription by an upstream.
    confirmed: mpsc::Sender<()>,
}

impl Sinks {
    /// Sends a change to the client. Returns false if the receiver was dropped.
    fn send(&self, change: Vec<u8>) -> bool {
        self.changes.try_send(change.len(), change);
        !self.changes.is_closed()
    }

    /// Sends changes to the client, in order. Returns false if the receiver was dropped.
    fn send_all(&self, changes: Vec<Vec<u8>>) -> bool {
        changes.into_iter().all(|change| self.send(change))
    }

    fn confirm(&self) {
        let _ = self.confirmed.try_send(());
    }
}

impl Subscriptions {
    pub(super) fn new(
        connections: &Arc<Connections>,
        router: &Arc<Router>,
        filter: &Arc<Filter>,
    ) -> Self {
        Self {
            connections: Arc::clone(connections),
            router: Arc::clone(router),
            filter: Arc::clone(filter),
        }
    }

    /// Subscribes a client to all upstreams. Returns when all have confirmed, or after
    /// [`CONFIRM_TIMEOUT`]. Dropping the returned tasks ends the subscription.
    pub(super) async fn subscribe(
        &self,
        client: &Client,
        filter: &SubscriptionFilter,
        changes: &ByteSender<Vec<u8>>,
    ) -> Vec<AbortOnDrop> {
        let (confirmed, mut confirmations) = mpsc::channel(MAX_CONFIRMATIONS);
        let (found, found_lists) = mpsc::channel(MAX_FOUND_LISTS);
        let late = self.follow_late_lists(client, filter, changes, found_lists);
        let tasks = (0..self.connections.servers.len()).map(|server| {
            let (subscriptions, client) = (self.clone(), client.in_background());
            let (filter, found) = (self.filter_for(&client, filter, server), found.clone());
            let sinks = Sinks { changes: changes.clone(), confirmed: confirmed.clone() };
            AbortOnDrop(tokio::spawn(async move {
                let mut was_missing = false;
                loop {
                    match subscriptions.connections.get(&client, server).await {
                        Ok(connection) => {
                            // Lists were answered without the upstream.
                            if std::mem::take(&mut was_missing) {
                                for changed in filter.list_changes() {
                                    let _ = found.send(changed).await;
                                }
                            }
                            subscriptions.follow(&client, &connection, &filter, &sinks).await;
                        }
                        Err(_) => was_missing = true,
                    }
                    // An upstream that is unreachable counts as confirmed and is tried again.
                    sinks.confirm();
                    if sinks.changes.is_closed() {
                        return;
                    }
                    tokio::time::sleep(RESUBSCRIBE_PAUSE).await;
                }
            }))
        });
        let mut tasks: Vec<AbortOnDrop> = tasks.collect();
        let all_confirmed = async {
            for _ in &tasks {
                confirmations.recv().await;
            }
        };
        let _ = tokio::time::timeout(CONFIRM_TIMEOUT, all_confirmed).await;
        tasks.push(late);
        tasks
    }

    /// Sends list changes that the gateway itself detected after it had answered without an
    /// upstream: those of slow ones, and those that `found` receives as messages. One message
    /// reports all changes of a short time. Dropping the returned task stops it.
    fn follow_late_lists(
        &self,
        client: &Client,
        filter: &SubscriptionFilter,
        changes: &ByteSender<Vec<u8>>,
        mut found: mpsc::Receiver<Vec<u8>>,
    ) -> AbortOnDrop {
        let audiences =
            (0..self.connections.servers.len()).map(|at| Audience::of_client(client, at));
        let audiences: Vec<Audience> = audiences.collect();
        let mut late = self.connections.known.changes.subscribe();
        let (filter, changes) = (filter.clone(), changes.clone());
        AbortOnDrop(tokio::spawn(async move {
            let mut unsent = BTreeSet::<Vec<u8>>::new();
            let mut burst = None::<ChangeBurst>;
            loop {
                let deadline = burst.as_ref().map(ChangeBurst::deadline);
                let quiet = async {
                    match deadline {
                        Some(deadline) => tokio::time::sleep_until(deadline).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    () = quiet => {
                        burst = None;
                        for changed in std::mem::take(&mut unsent) {
                            changes.try_send(changed.len(), changed);
                        }
                        if changes.is_closed() {
                            return;
                        }
                    }
                    received = late.recv() => match received {
                        Ok((audience, changed)) if audiences.contains(&audience) => {
                            unsent.extend(filter.list_change(changed));
                        }
                        Ok(_) => continue,
                        // The lost changes may be those of any list.
                        Err(RecvError::Lagged(_)) => unsent.extend(filter.list_changes()),
                        Err(RecvError::Closed) => return,
                    },
                    Some(changed) = found.recv() => {
                        unsent.insert(changed);
                    }
                }
                if !unsent.is_empty() {
                    let now = tokio::time::Instant::now();
                    burst.get_or_insert_with(|| ChangeBurst::begin(now)).extend(now);
                }
            }
        }))
    }

    /// Returns the filter for the upstream at index `server`. It selects the resources that may
    /// belong to that upstream.
    fn filter_for(
        &self,
        client: &Client,
        filter: &SubscriptionFilter,
        server: usize,
    ) -> SubscriptionFilter {
        filter.for_upstream(|uri| {
            let (owner, own_uri) = self.router.uri_owner(&client.principal, uri);
            owner.is_none_or(|owner| owner == server).then_some(own_uri)
        })
    }

    /// Sends the changes that an upstream connection reports to `sinks`, until the connection ends.
    async fn follow(
        &self,
        client: &Client,
        connection: &Arc<UpstreamConnection>,
        filter: &SubscriptionFilter,
        sinks: &Sinks,
    ) {
        match connection.mode {
            ProtocolMode::Stateful => {
                self.follow_stateful(client, connection, filter, sinks).await;
            }
            ProtocolMode::Stateless => {
                let _ = self.follow_stateless(client, connection, filter, sinks).await;
            }
        }
    }

    /// Sends the changes that a stateful upstream reports to `sinks`. The upstream reports changed
    /// lists without a subscription, and changed resources after `resources/subscribe`. Each such
    /// request waits for a permit of the client.
    async fn follow_stateful(
        &self,
        client: &Client,
        connection: &Arc<UpstreamConnection>,
        filter: &SubscriptionFilter,
        sinks: &Sinks,
    ) {
        let mut messages = connection.unrelated();
        // Dropped with this future, which ends the subscriptions at the upstream.
        let mut subscribed = Vec::new();
        for uri in filter.uris() {
            let Ok(_turn) = connection.server.turns.take(&client.caller, 1).await else { continue };
            subscribed.push(connection.subscribe(uri));
            let request = json!({"jsonrpc": "2.0", "id": 0, "method": "resources/subscribe", "params": {"uri": uri}});
            if let Ok(mut call) = connection.request_uncounted(request.to_string().as_bytes()).await
            {
                let _ = tokio::time::timeout(connection.server.timeout(), call.next()).await;
            }
        }
        sinks.confirm();
        loop {
            let received = tokio::select! {
                biased;
                received = messages.recv() => received,
                () = connection.ended() => return,
            };
            match received {
                Ok(message) => {
                    let is_wanted = Head::read(&message).is_some_and(|head| filter.matches(&head));
                    if is_wanted && !sinks.send_all(filter.for_client(message.to_vec())) {
                        return;
                    }
                }
                // The lost messages may report any change.
                Err(RecvError::Lagged(_)) => {
                    let lost: Vec<Vec<u8>> = filter
                        .all_changes()
                        .flat_map(|changed| filter.for_client(changed))
                        .collect();
                    if !sinks.send_all(lost) {
                        return;
                    }
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Sends the changes that a stateless upstream reports to `sinks`. Returns false if the
    /// upstream refuses the subscription.
    async fn follow_stateless(
        &self,
        client: &Client,
        connection: &Arc<UpstreamConnection>,
        filter: &SubscriptionFilter,
        sinks: &Sinks,
    ) -> bool {
        let request = format!(
            r#"{{"jsonrpc":"2.0","id":0,"method":"subscriptions/listen","params":{{"notifications":{},"_meta":{{{}}}}}}}"#,
            filter.json(),
            client.info.meta()
        );
        let Ok(mut call) = connection.request_uncounted(request.as_bytes()).await else {
            return true;
        };
        loop {
            let message = match call.next().await {
                UpstreamReply::Related(message) => message,
                UpstreamReply::Answer(answer) => return error_code(&answer).is_none(),
                UpstreamReply::Failed(_) => return true,
            };
            let Some(head) = Head::read(&message) else { continue };
            self.filter.on_notification(&connection.server.name, &head);
            let servers = &self.connections.servers;
            let own = servers.iter().position(|server| Arc::ptr_eq(server, &connection.server));
            if let Some(server) = own {
                let is_common = connection.server.is_common();
                self.connections.known.forget(server, head.method(), is_common);
            }
            if head.method() == ACKNOWLEDGED {
                sinks.confirm();
            } else if filter.matches(&head)
                && !sinks.send_all(filter.for_client(without_subscription_id(&message)))
            {
                return true;
            }
        }
    }

    /// Relays list changes of all stateless upstreams to a stateful client's session, because
    /// stateless upstreams report changes only to subscribers. An HTTP upstream that is unreachable
    /// now is tried again. Dropping the returned task ends the relay.
    pub(super) fn subscribe_to_lists(
        &self,
        session: &Arc<ClientSession>,
        client: Client,
    ) -> AbortOnDrop {
        let (subscriptions, session) = (self.clone(), Arc::downgrade(session));
        let client = client.in_background();
        AbortOnDrop(tokio::spawn(async move {
            let mut tasks = Vec::new();
            for (server, upstream) in subscriptions.connections.servers.iter().enumerate() {
                // A stateful process reports changes on its connection, once a request opens it.
                if upstream.http.is_none() && upstream.speaks(ProtocolMode::Stateful) == Some(true)
                {
                    continue;
                }
                let is_relayed = match subscriptions.connections.get(&client, server).await {
                    Ok(connection) => connection.mode == ProtocolMode::Stateless,
                    // The relay ends if the upstream turns out to be stateful.
                    Err(_) => upstream.http.is_some(),
                };
                if is_relayed {
                    let Some(session) = session.upgrade() else { return };
                    let filter = SubscriptionFilter::lists();
                    tasks.push(
                        subscriptions.relay_to_session(&session, &client, server, filter, None),
                    );
                }
            }
            drop(client);
            for task in &mut tasks {
                let _ = (&mut task.0).await;
            }
        }))
    }

    /// Relays the changes that a stateless upstream reports to the common stream of a session.
    /// Subscribes again after the connection was lost. Dropping the returned task ends the relay.
    /// `stream` counts as an open stream until then.
    pub(super) fn relay_to_session(
        &self,
        session: &Arc<ClientSession>,
        client: &Client,
        server: usize,
        filter: SubscriptionFilter,
        stream: Option<OpenStream>,
    ) -> AbortOnDrop {
        let (subscriptions, session) = (self.clone(), Arc::downgrade(session));
        let upstream = self.connections.servers.get(server).map(|server| server.name.clone());
        let upstream = upstream.unwrap_or_default();
        let relayed = filter.uris().first().cloned();
        // The task must not keep the session alive.
        let client = Client { session: None, ..client.in_background() };
        AbortOnDrop(tokio::spawn(async move {
            let _stream = stream;
            let (changes, mut received) = byte_channel::<Vec<u8>>(MAX_WAITING_BYTES);
            let (confirmed, _ignored) = mpsc::channel(1);
            let sinks = Sinks { changes, confirmed };
            let following = async {
                let mut pause = RESUBSCRIBE_PAUSE;
                loop {
                    let connection = {
                        let Some(session) = session.upgrade() else { return };
                        let client = Client { session: Some(session), ..client.clone() };
                        subscriptions.connections.get(&client, server).await
                    };
                    match connection {
                        Ok(connection) => {
                            pause = RESUBSCRIBE_PAUSE;
                            let is_stateless = connection.mode == ProtocolMode::Stateless;
                            let follow = subscriptions.follow_stateless(
                                &client,
                                &connection,
                                &filter,
                                &sinks,
                            );
                            if !is_stateless || !follow.await {
                                return;
                            }
                        }
                        // It refuses this client, such as one without a token.
                        Err(Failure::Refused(_)) => return,
                        // Many sessions may wait for one upstream.
                        Err(_) => pause = (pause * 2).min(MAX_RESUBSCRIBE_PAUSE),
                    }
                    tokio::time::sleep(pause).await;
                }
            };
            let relaying = async {
                while let Some(change) = received.recv().await {
                    let Some(session) = session.upgrade() else { return };
                    session.relay_change(&upstream, relayed.as_deref(), change);
                }
            };
            tokio::select! { () = following => {}, () = relaying => {} }
        }))
    }
}
