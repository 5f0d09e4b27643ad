//! Changes that clients want to hear of: subscriptions of both modes, whatever the upstream's.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Aggregator, Ask, Client};
use crate::gateway::upstream::connection::{AbortOnDrop, ProtocolMode, UpstreamConnection};
use crate::gateway::upstream::request_table::UpstreamReply;
use crate::message::{Head, SUBSCRIPTION_KEY, with_member};

/// The changes of lists, as a filter and as a notification name them.
const LISTS: [(&str, &str); 3] = [
    ("toolsListChanged", "notifications/tools/list_changed"),
    ("promptsListChanged", "notifications/prompts/list_changed"),
    ("resourcesListChanged", "notifications/resources/list_changed"),
];
/// Says that a subscription is heard of.
pub(super) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// How long a subscription waits for the upstreams to take it up.
const TIMEOUT: Duration = Duration::from_secs(5);
const UPDATED: &str = "notifications/resources/updated";

/// What a subscription asks for.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    lists: Vec<&'static str>,
    uris: Vec<String>,
}

impl Filter {
    /// The filter of a `subscriptions/listen` request; none where it has none.
    pub(super) fn of(head: &Head<'_>) -> Option<Self> {
        let params: Value = serde_json::from_str(head.params?.get()).ok()?;
        let wanted = params.get("notifications")?.as_object()?;
        let lists = LISTS
            .into_iter()
            .filter(|(name, _)| wanted.get(*name) == Some(&Value::Bool(true)))
            .map(|(_, method)| method)
            .collect();
        let uris = wanted.get("resourceSubscriptions").and_then(Value::as_array);
        let uris = uris.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        Some(Self { lists, uris: uris.collect() })
    }

    /// One resource.
    pub(super) fn resource(uri: &str) -> Self {
        Self { lists: Vec::new(), uris: vec![uri.to_owned()] }
    }

    /// All lists.
    pub(super) fn lists() -> Self {
        Self { lists: LISTS.into_iter().map(|(_, method)| method).collect(), uris: Vec::new() }
    }

    fn fits(&self, head: &Head<'_>) -> bool {
        if head.method() == UPDATED {
            return head
                .parameters()
                .uri
                .is_some_and(|uri| self.uris.iter().any(|own| *own == uri));
        }
        self.lists.contains(&head.method())
    }

    /// As it stands in a request, and in its acknowledgement.
    pub(super) fn json(&self) -> Value {
        let mut filter = serde_json::Map::new();
        for (name, method) in LISTS {
            if self.lists.contains(&method) {
                filter.insert(name.to_owned(), true.into());
            }
        }
        if !self.uris.is_empty() {
            filter.insert("resourceSubscriptions".to_owned(), json!(self.uris));
        }
        filter.into()
    }

    /// What of it concerns one upstream.
    fn only(&self, aggregator: &Aggregator, server: usize) -> Self {
        let mine = |uri: &&String| {
            let (owner, _) = aggregator.router.uri_owner(uri);
            owner.is_none_or(|owner| owner == server)
        };
        Self { lists: self.lists.clone(), uris: self.uris.iter().filter(mine).cloned().collect() }
    }
}

impl Aggregator {
    /// Watches all upstreams for a client, when they have been asked to. What changes is sent without the subscription's name.
    pub(super) async fn watch(
        self: &Arc<Self>,
        client: &Client,
        filter: &Filter,
        to: &mpsc::UnboundedSender<Vec<u8>>,
    ) -> Vec<AbortOnDrop> {
        let (ready, mut watched) = mpsc::unbounded_channel();
        let watching = (0..self.servers.len()).map(|server| {
            let (aggregator, client, to) = (Arc::clone(self), client.clone(), to.clone());
            let (filter, ready) = (filter.only(&aggregator, server), ready.clone());
            AbortOnDrop(tokio::spawn(async move {
                loop {
                    if let Ok(connection) = aggregator.connection(&client, server).await {
                        aggregator
                            .watch_connection(&client, &connection, &filter, &to, &ready)
                            .await;
                    }
                    let _ = ready.send(());
                    if to.is_closed() {
                        return;
                    }
                    tokio::time::sleep(super::SWEEP / 4).await;
                }
            }))
        });
        let watching: Vec<AbortOnDrop> = watching.collect();
        let all = async {
            for _ in &watching {
                watched.recv().await;
            }
        };
        // One that cannot be asked in time is asked again and again; the others are not kept waiting.
        let _ = tokio::time::timeout(TIMEOUT, all).await;
        watching
    }

    /// Watches one connection until it ends.
    pub(super) async fn watch_connection(
        self: &Arc<Self>,
        client: &Client,
        connection: &Arc<UpstreamConnection>,
        filter: &Filter,
        to: &mpsc::UnboundedSender<Vec<u8>>,
        ready: &mpsc::UnboundedSender<()>,
    ) {
        match connection.mode {
            ProtocolMode::Stateful => self.watch_stateful(connection, filter, to, ready).await,
            ProtocolMode::Stateless => {
                self.watch_stateless(client, connection, filter, to, ready).await
            }
        }
    }

    async fn watch_stateful(
        &self,
        connection: &Arc<UpstreamConnection>,
        filter: &Filter,
        to: &mpsc::UnboundedSender<Vec<u8>>,
        ready: &mpsc::UnboundedSender<()>,
    ) {
        let mut messages = connection.unrelated();
        for uri in &filter.uris {
            let (_, uri) = self.router.uri_owner(uri);
            let request = json!({"jsonrpc": "2.0", "id": 0, "method": "resources/subscribe", "params": {"uri": uri}});
            if let Ok(mut call) = connection.request(request.to_string().as_bytes()).await {
                let _ = call.next().await;
            }
        }
        let _ = ready.send(());
        loop {
            match messages.recv().await {
                Ok(message) => {
                    if Head::read(&message).is_some_and(|head| filter.fits(&head))
                        && to.send(message.to_vec()).is_err()
                    {
                        return;
                    }
                }
                Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
            }
            if connection.has_ended() {
                return;
            }
        }
    }

    async fn watch_stateless(
        &self,
        client: &Client,
        connection: &Arc<UpstreamConnection>,
        filter: &Filter,
        to: &mpsc::UnboundedSender<Vec<u8>>,
        ready: &mpsc::UnboundedSender<()>,
    ) {
        let request = format!(
            r#"{{"jsonrpc":"2.0","id":0,"method":"subscriptions/listen","params":{{"notifications":{},"_meta":{{{}}}}}}}"#,
            filter.json(),
            client.info.meta()
        );
        let Ok(mut call) = connection.request(request.as_bytes()).await else { return };
        loop {
            match call.next().await {
                UpstreamReply::Related(message) => {
                    let Some(head) = Head::read(&message) else { continue };
                    self.filter.on_notification(&connection.server.name, &head);
                    if head.method() == ACKNOWLEDGED {
                        let _ = ready.send(());
                    } else if filter.fits(&head) && to.send(unnamed(&message)).is_err() {
                        return;
                    }
                }
                UpstreamReply::Answer(_) | UpstreamReply::Failed(_) => return,
            }
        }
    }

    /// `resources/subscribe` of a stateful client at a stateless upstream: watched until it unsubscribes.
    pub(super) fn watch_resource(
        self: &Arc<Self>,
        ask: &Ask<'_>,
        connection: &Arc<UpstreamConnection>,
        uri: &str,
    ) {
        let Some(session) = ask.client.session.clone() else { return };
        let (aggregator, client, connection) =
            (Arc::clone(self), ask.client.clone(), Arc::clone(connection));
        let filter = Filter::resource(uri);
        let weak = Arc::downgrade(&session);
        let task = tokio::spawn(async move {
            let (to, mut changes) = mpsc::unbounded_channel::<Vec<u8>>();
            let (ready, _heard) = mpsc::unbounded_channel();
            let watching = aggregator.watch_connection(&client, &connection, &filter, &to, &ready);
            let passing = async {
                while let Some(change) = changes.recv().await {
                    let Some(session) = weak.upgrade() else { return };
                    session.streams().send(super::event_streams::COMMON, change);
                }
            };
            tokio::select! { () = watching => {}, () = passing => {} }
        });
        let mut watched = session.watched.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        watched.insert(uri.to_owned(), AbortOnDrop(task));
    }
}

/// A notification without the name of the gateway's own subscription.
fn unnamed(message: &[u8]) -> Vec<u8> {
    edit_meta(message, |meta| with_member(meta, SUBSCRIPTION_KEY, None))
}

/// A notification under the name of a subscription, as its id is spelt.
pub(super) fn named(message: &[u8], subscription: &str) -> Vec<u8> {
    edit_meta(message, |meta| with_member(meta, SUBSCRIPTION_KEY, Some(subscription)))
}

fn edit_meta(message: &[u8], edit: impl Fn(&str) -> String) -> Vec<u8> {
    let text = String::from_utf8_lossy(message);
    let Some(head) = Head::read(message) else { return message.to_vec() };
    let params = head.params.map_or("{}", |params| params.get());
    let meta = head.parameters().meta.map_or("{}", |meta| meta.get());
    let params = with_member(params, "_meta", Some(&edit(meta)));
    with_member(&text, "params", Some(&params)).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_change_their_subscription_and_nothing_else() {
        let plain = br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        let own = named(plain, "7");
        assert_eq!(
            String::from_utf8(own.clone()).unwrap(),
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}"#
        );
        assert!(!String::from_utf8(unnamed(&own)).unwrap().contains("subscriptionId"));
    }

    #[test]
    fn only_what_was_asked_for_is_heard() {
        let request = br#"{"id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["x://1"]}}}"#;
        let filter = Filter::of(&Head::read(request).unwrap()).unwrap();
        let fits = |message: &str| filter.fits(&Head::read(message.as_bytes()).unwrap());
        assert!(fits(r#"{"method":"notifications/tools/list_changed"}"#));
        assert!(!fits(r#"{"method":"notifications/prompts/list_changed"}"#));
        assert!(fits(r#"{"method":"notifications/resources/updated","params":{"uri":"x://1"}}"#));
        assert!(!fits(r#"{"method":"notifications/resources/updated","params":{"uri":"x://2"}}"#));
        assert_eq!(
            filter.json(),
            json!({"toolsListChanged": true, "resourceSubscriptions": ["x://1"]})
        );
    }
}
