//! Subscriptions of stateful clients to resources.

use super::Aggregator;
use super::client::Origin;
use super::client_session::{MAX_SUBSCRIPTIONS, SubscriptionGuard};
use super::dispatch::{RESOURCE_NOT_FOUND, error_code, with_param};
use super::subscription_filter::MAX_SUBSCRIBED_BYTES;
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
                let relay = subscriptions.subscribe_to_resource(session, client, owner, own_uri);
                SubscriptionGuard::Stateless { _relay: Box::new((relay, stream)) }
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

    use super::*;
    use crate::aggregator::client_session::ClientSession;
    use crate::fleet::OwnerTag;
    use crate::protocol_mode::ClientInfo;

    #[test]
    fn subscriptions_of_a_session_are_limited() {
        let tag = OwnerTag::default();
        let session = ClientSession::new("s".to_owned(), "p".into(), ClientInfo::gateway(), &tag);
        let live = Arc::new(());
        let add = |uri: &str| {
            let guard = || SubscriptionGuard::Stateless { _relay: Box::new(Arc::clone(&live)) };
            session.add_subscription("a", uri, guard)
        };
        for at in 0..MAX_SUBSCRIPTIONS {
            assert_eq!(add(&format!("x://{at}")), Some(true));
        }
        assert_eq!((add("x://more"), add("x://1")), (None, Some(false)));
        assert!(session.remove_subscription("a", "x://1"));
        assert!(!session.remove_subscription("a", "x://1"));
        assert_eq!(Arc::strong_count(&live), MAX_SUBSCRIPTIONS);
        assert_eq!(add("x://more"), Some(true));
        drop(session);
        assert_eq!(Arc::strong_count(&live), 1);
    }
}
