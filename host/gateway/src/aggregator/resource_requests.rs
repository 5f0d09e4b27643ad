//! Subscriptions of stateful clients to resources.

use super::Aggregator;
use super::client::Origin;
use super::client_session::{MAX_SUBSCRIPTIONS, SubscriptionGuard};
use super::dispatch::{RESOURCE_NOT_FOUND, error_code, with_param};
use super::subscription_filter::{MAX_SUBSCRIBED_BYTES, SubscriptionFilter};
use crate::config::Isolation;
use crate::message::Head;
use crate::protocol_mode::ProtocolMode;
use crate::reply;

impl Aggregator {
    /// Answers `resources/subscribe` and `resources/unsubscribe` of a stateful client.
    pub(super) async fn change_subscription(
        &self,
        origin: &Origin<'_>,
        head: &Head<'_>,
        request: &[u8],
    ) -> Vec<u8> {
        let parameters = head.parameters();
        let uri = parameters.uri.as_deref().unwrap_or_default();
        let (owner, own_uri) = self.router.uri_owner(uri);
        let owner = owner.and_then(|owner| Some((owner, self.servers().get(owner)?)));
        let (Some((owner, server)), Some(session)) = (owner, &origin.client.session) else {
            let text = "Resource not found: list the resources first, so that it is known which server has it.";
            return reply::error(head.raw_id(), RESOURCE_NOT_FOUND, text);
        };
        if head.method() == "resources/unsubscribe" {
            let was_subscribed = session.remove_subscription(&server.name, own_uri);
            // Another replica may have subscribed, in the upstream's session of this client alone.
            let may_be_elsewhere = server.http.is_some()
                && server.isolation == Isolation::Session
                && server.speaks(ProtocolMode::Stateful) != Some(false);
            if was_subscribed || !may_be_elsewhere {
                // Other clients of the connection may subscribe to the resource.
                return reply::result(head.raw_id(), "{}");
            }
            let connection = self.connections.get(origin.client, owner).await;
            return match connection {
                Ok(connection) if connection.mode == ProtocolMode::Stateful => {
                    let request = with_param(request, "uri", own_uri);
                    self.forwarder.forward(origin, owner, request).await
                }
                _ => reply::result(head.raw_id(), "{}"),
            };
        }
        if own_uri.len() > MAX_SUBSCRIBED_BYTES {
            let text =
                format!("Invalid params: the URI has more than {MAX_SUBSCRIBED_BYTES} bytes.");
            return reply::error(head.raw_id(), reply::INVALID_PARAMS, &text);
        }
        let connection = match self.connections.get(origin.client, owner).await {
            Ok(connection) => connection,
            Err(failure) => {
                return reply::error(head.raw_id(), failure.code(), &failure.to_string());
            }
        };
        let is_stateful = connection.mode == ProtocolMode::Stateful;
        if !is_stateful && session.is_relayed(&server.name, own_uri) {
            return reply::result(head.raw_id(), "{}");
        }
        // Each resource of a stateless upstream needs a stream of its own.
        let stream = (!is_stateful).then(|| origin.client.streams.open(&origin.client.owner));
        let stream = match stream.transpose() {
            Ok(stream) => stream,
            Err(full) => {
                let text = full.to_string();
                self.recorder.refused(&origin.client.principal, "streams", &text);
                return reply::error(head.raw_id(), reply::REFUSED, &text);
            }
        };
        let added = session.add_subscription(&server.name, own_uri, || {
            if is_stateful {
                SubscriptionGuard::Stateful(connection.subscribe(own_uri))
            } else {
                let subscriptions = &self.subscriptions;
                let client = origin.client;
                let filter = SubscriptionFilter::resource(own_uri);
                let relay = subscriptions.relay_to_session(session, client, owner, filter, stream);
                SubscriptionGuard::Stateless(relay)
            }
        });
        let Some(is_new) = added else {
            let text = format!("A session may subscribe to {MAX_SUBSCRIPTIONS} resources.");
            return reply::error(head.raw_id(), reply::REFUSED, &text);
        };
        if !is_stateful {
            return reply::result(head.raw_id(), "{}");
        }
        let request = with_param(request, "uri", own_uri);
        let answer = self.forwarder.forward(origin, owner, request).await;
        if is_new && error_code(&answer).is_some() {
            session.remove_subscription(&server.name, own_uri);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;
    use crate::aggregator::client_session::ClientSession;
    use crate::fleet::OwnerTag;
    use crate::protocol_mode::ClientInfo;
    use crate::tasks::AbortOnDrop;

    #[tokio::test]
    async fn subscriptions_of_a_session_are_limited() {
        let tag = OwnerTag::default();
        let session = ClientSession::new("s".to_owned(), "p".into(), ClientInfo::gateway(), &tag);
        // Each relay has one place until it ends.
        let places = Arc::new(Semaphore::new(MAX_SUBSCRIPTIONS));
        let add = |uri: &str| {
            let place = Arc::clone(&places).try_acquire_owned();
            let relay = async move {
                let _place = place;
                std::future::pending::<()>().await;
            };
            let guard = || SubscriptionGuard::Stateless(AbortOnDrop(tokio::spawn(relay)));
            session.add_subscription("a", uri, guard)
        };
        for at in 0..MAX_SUBSCRIPTIONS {
            assert_eq!(add(&format!("x://{at}")), Some(true));
        }
        assert_eq!(places.available_permits(), 0);
        assert_eq!((add("x://more"), add("x://1")), (None, Some(false)));
        // The relay that was replaced gives back its place.
        drop(places.acquire().await.unwrap());
        assert!(session.is_relayed("a", "x://1"));
        assert!(session.remove_subscription("a", "x://1"));
        assert!(!session.remove_subscription("a", "x://1"));
        assert!(!session.is_relayed("a", "x://1"));
        assert_eq!(add("x://more"), Some(true));
        drop(session);
        let all = u32::try_from(MAX_SUBSCRIPTIONS).unwrap();
        drop(places.acquire_many(all).await.unwrap());
    }

    #[tokio::test]
    async fn subscription_without_relay_begins_again() {
        let tag = OwnerTag::default();
        let session = ClientSession::new("s".to_owned(), "p".into(), ClientInfo::gateway(), &tag);
        let (ended, has_ended) = tokio::sync::oneshot::channel::<()>();
        let relay = tokio::spawn(async move { drop(ended) });
        assert!(has_ended.await.is_err());
        while !relay.is_finished() {
            tokio::task::yield_now().await;
        }
        let guard = || SubscriptionGuard::Stateless(AbortOnDrop(relay));
        assert_eq!(session.add_subscription("a", "x://1", guard), Some(true));
        assert!(!session.is_relayed("a", "x://1"));
    }
}
