//! Subscriptions of stateful clients to resources.

use super::Aggregator;
use super::client::Origin;
use super::dispatch::{RESOURCE_NOT_FOUND, with_param};
use super::session_subscriptions::{MAX_SUBSCRIPTIONS, SubscribedResource, SubscriptionGuard};
use super::subscription_filter::{MAX_SUBSCRIBED_BYTES, SubscriptionFilter};
use crate::config::Isolation;
use crate::message::{Head, error_code};
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
        let is_end = head.method() == "resources/unsubscribe";
        let session = origin.client.session.as_ref().filter(|_| is_end);
        let known = session.and_then(|session| session.subscriptions.find(uri));
        // Another upstream may have listed the same URI since the client has subscribed.
        let (owner, own_uri) = match &known {
            Some((upstream, own_uri)) => {
                (self.servers().iter().position(|server| server.name == *upstream), &**own_uri)
            }
            None => self.router.uri_owner(&origin.client.principal, uri),
        };
        let owner = owner.and_then(|owner| Some((owner, self.servers().get(owner)?)));
        let (Some((owner, server)), Some(session)) = (owner, &origin.client.session) else {
            let text = "Resource not found: list the resources first, so that it is known which server has it.";
            return reply::error(head.raw_id(), RESOURCE_NOT_FOUND, text);
        };
        let resource = SubscribedResource { upstream: &server.name, own_uri, client_uri: uri };
        if is_end {
            let was_subscribed = session.subscriptions.remove(resource);
            // Another replica may have subscribed, in the upstream's session of this client alone.
            // While this one holds a subscription under another URI, it must not end.
            let may_be_elsewhere = !session.subscriptions.holds(resource)
                && server.http.is_some()
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
        if !is_stateful && session.subscriptions.join(resource) {
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
        let added = session.subscriptions.add(resource, || {
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
            session.subscriptions.remove(resource);
        }
        answer
    }
}
