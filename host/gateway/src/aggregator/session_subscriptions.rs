//! The resources to which a stateful client subscribes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::subscription_filter::part_of;
use crate::tasks::AbortOnDrop;
use crate::upstream::connection::UpstreamConnection;
use crate::upstream::resource_subscriptions::ResourceSubscription;

/// The maximum number of resources that a session subscribes to.
pub(super) const MAX_SUBSCRIPTIONS: usize = 256;

/// A subscription to a resource, which ends when it is dropped.
pub(super) enum SubscriptionGuard {
    /// A subscription at a stateful upstream, whose messages the session relays.
    Stateful(ResourceSubscription),
    /// A subscription at a stateless upstream: the task that relays the changes.
    Stateless(AbortOnDrop),
}

/// A resource of an upstream, under the upstream's own URI and those that the client knows.
#[derive(Clone, Copy)]
pub(super) struct SubscribedResource<'u> {
    /// The name of the upstream.
    pub(super) upstream: &'u str,
    pub(super) own_uri: &'u str,
    /// The URI with which the client subscribes: the upstream's own, or an alias.
    pub(super) client_uri: &'u str,
}

impl SubscribedResource<'_> {
    fn key(&self) -> (String, String) {
        (self.upstream.to_owned(), self.own_uri.to_owned())
    }
}

/// A subscription, and the URIs with which the client has subscribed. There are at most two: the
/// upstream's own URI and its alias.
struct Subscription {
    guard: SubscriptionGuard,
    client_uris: Vec<String>,
}

impl Subscription {
    /// Adds a URI of the client. Returns true if it is new.
    fn add_client_uri(&mut self, uri: &str) -> bool {
        let is_new = !self.client_uris.iter().any(|known| known == uri);
        if is_new {
            self.client_uris.push(uri.to_owned());
        }
        is_new
    }

    /// Returns true if a task relays the changes of the resource. The task ends if the upstream
    /// refuses the subscription.
    fn has_relay(&self) -> bool {
        matches!(&self.guard, SubscriptionGuard::Stateless(relay) if !relay.0.is_finished())
    }
}

/// The subscriptions of a session to resources, by the name of the upstream and the upstream's own
/// URI.
#[derive(Default)]
pub(super) struct SessionSubscriptions(Mutex<HashMap<(String, String), Subscription>>);

impl SessionSubscriptions {
    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), Subscription>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the subscription to a resource that `subscribe` creates. It replaces an earlier one.
    /// Returns true if the client had not subscribed with this URI, or `None` if the session has
    /// the maximum number.
    pub(super) fn add(
        &self,
        resource: SubscribedResource<'_>,
        subscribe: impl FnOnce() -> SubscriptionGuard,
    ) -> Option<bool> {
        let mut subscriptions = self.lock();
        let key = resource.key();
        if subscriptions.len() >= MAX_SUBSCRIPTIONS && !subscriptions.contains_key(&key) {
            return None;
        }
        let guard = subscribe();
        let is_new = match subscriptions.get_mut(&key) {
            Some(held) => {
                held.guard = guard;
                held.add_client_uri(resource.client_uri)
            }
            None => {
                let client_uris = vec![resource.client_uri.to_owned()];
                subscriptions.insert(key, Subscription { guard, client_uris });
                true
            }
        };
        Some(is_new)
    }

    /// Adds the client's URI to the subscription of a resource at a stateless upstream. Returns
    /// false if no task relays its changes.
    pub(super) fn join(&self, resource: SubscribedResource<'_>) -> bool {
        let mut subscriptions = self.lock();
        let held = subscriptions.get_mut(&resource.key());
        if let Some(held) = held.filter(|held| held.has_relay()) {
            held.add_client_uri(resource.client_uri);
            return true;
        }
        false
    }

    /// Removes the client's URI from the subscription of a resource. Ends it if that was the last
    /// one. Returns false if the client has not subscribed with this URI.
    pub(super) fn remove(&self, resource: SubscribedResource<'_>) -> bool {
        let mut subscriptions = self.lock();
        let key = resource.key();
        let Some(held) = subscriptions.get_mut(&key) else { return false };
        let before = held.client_uris.len();
        held.client_uris.retain(|known| known != resource.client_uri);
        let was_subscribed = held.client_uris.len() < before;
        if held.client_uris.is_empty() {
            subscriptions.remove(&key);
        }
        was_subscribed
    }

    /// Returns true if the client has subscribed to the resource, with any URI.
    pub(super) fn holds(&self, resource: SubscribedResource<'_>) -> bool {
        self.lock().contains_key(&resource.key())
    }

    /// Returns the upstream's name and own URI of the resource to which the client has subscribed
    /// with this URI.
    pub(super) fn find(&self, client_uri: &str) -> Option<(String, String)> {
        let subscriptions = self.lock();
        let found = subscriptions
            .iter()
            .find(|(_, held)| held.client_uris.iter().any(|known| known == client_uri));
        found.map(|(key, _)| key.clone())
    }

    /// Returns the URIs that the client knows for a changed resource of an upstream, in order. The
    /// resource is one to which the client subscribes, or a part of it.
    ///
    /// `relayed` is the own URI of the subscription that reports the change, if each one has a
    /// relay of its own. The result then has no URIs of the other relays, which report the change
    /// too.
    pub(super) fn client_uris(
        &self,
        upstream: &str,
        changed: &str,
        relayed: Option<&str>,
    ) -> Vec<String> {
        let subscriptions = self.lock();
        // The longest own URI of each: that of the most specific subscription.
        let mut known = BTreeMap::<String, &str>::new();
        for ((name, own), held) in &*subscriptions {
            let Some(part) = part_of(changed, own).filter(|_| name == upstream) else { continue };
            if relayed.is_some_and(|relayed| relayed != own) && !held.has_relay() {
                continue;
            }
            for uri in &held.client_uris {
                let relay = known.entry(format!("{uri}{part}")).or_default();
                if own.len() > relay.len() {
                    *relay = own;
                }
            }
        }
        known.retain(|_, own| relayed.is_none_or(|relayed| relayed == *own));
        known.into_keys().collect()
    }

    /// Returns the client's URIs of all resources of an upstream to which it subscribes.
    pub(super) fn all_client_uris(&self, upstream: &str) -> Vec<String> {
        let subscriptions = self.lock();
        let own = subscriptions.iter().filter(|((name, _), _)| name == upstream);
        own.flat_map(|(_, held)| held.client_uris.iter().cloned()).collect()
    }

    /// Moves the subscriptions at an upstream whose connection has ended to a new connection.
    /// Returns the upstream's URIs for which it needs a request. Another session of a shared
    /// connection may have sent the request already.
    pub(super) fn renew(&self, connection: &Arc<UpstreamConnection>) -> Vec<String> {
        let mut renewed = Vec::new();
        for ((upstream, uri), subscription) in self.lock().iter_mut() {
            if *upstream == connection.server.name
                && let SubscriptionGuard::Stateful(held) = &mut subscription.guard
                && held.has_ended()
            {
                *held = connection.subscribe(uri);
                if held.is_first() {
                    renewed.push(uri.clone());
                }
            }
        }
        renewed
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    fn resource<'u>(own_uri: &'u str, client_uri: &'u str) -> SubscribedResource<'u> {
        SubscribedResource { upstream: "a", own_uri, client_uri }
    }

    fn pending() -> SubscriptionGuard {
        SubscriptionGuard::Stateless(AbortOnDrop(tokio::spawn(std::future::pending())))
    }

    #[tokio::test]
    async fn subscriptions_of_a_session_are_limited() {
        let subscriptions = SessionSubscriptions::default();
        // Each relay has one place until it ends.
        let places = Arc::new(Semaphore::new(MAX_SUBSCRIPTIONS));
        let add = |uri: &str| {
            let place = Arc::clone(&places).try_acquire_owned();
            let relay = async move {
                let _place = place;
                std::future::pending::<()>().await;
            };
            let guard = || SubscriptionGuard::Stateless(AbortOnDrop(tokio::spawn(relay)));
            subscriptions.add(resource(uri, uri), guard)
        };
        for at in 0..MAX_SUBSCRIPTIONS {
            assert_eq!(add(&format!("x://{at}")), Some(true));
        }
        assert_eq!(places.available_permits(), 0);
        assert_eq!((add("x://more"), add("x://1")), (None, Some(false)));
        // The relay that was replaced gives back its place.
        drop(places.acquire().await.unwrap());
        let one = resource("x://1", "x://1");
        assert!(subscriptions.join(one));
        assert!(subscriptions.remove(one) && !subscriptions.remove(one));
        assert!(!subscriptions.join(one));
        assert_eq!(add("x://more"), Some(true));
        drop(subscriptions);
        let all = u32::try_from(MAX_SUBSCRIPTIONS).unwrap();
        drop(places.acquire_many(all).await.unwrap());
    }

    #[tokio::test]
    async fn relay_that_has_ended_is_not_joined() {
        let subscriptions = SessionSubscriptions::default();
        let (ended, has_ended) = tokio::sync::oneshot::channel::<()>();
        let relay = tokio::spawn(async move { drop(ended) });
        assert!(has_ended.await.is_err());
        while !relay.is_finished() {
            tokio::task::yield_now().await;
        }
        let guard = || SubscriptionGuard::Stateless(AbortOnDrop(relay));
        assert_eq!(subscriptions.add(resource("x://1", "x://1"), guard), Some(true));
        assert!(!subscriptions.join(resource("x://1", "x://1")));
    }

    #[tokio::test]
    async fn each_change_is_relayed_once() {
        let subscriptions = SessionSubscriptions::default();
        subscriptions.add(resource("x://1", "x://1"), pending).unwrap();
        subscriptions.add(resource("x://1/part", "x://1/part"), pending).unwrap();
        assert!(subscriptions.join(resource("x://1", "alias/x://1")));
        // The upstream reports the part to both relays.
        let relayed = |relay| subscriptions.client_uris("a", "x://1/part", Some(relay));
        assert_eq!(relayed("x://1"), ["alias/x://1/part"]);
        assert_eq!(relayed("x://1/part"), ["x://1/part"]);
        // A relay that has ended reports nothing.
        assert!(subscriptions.remove(resource("x://1/part", "x://1/part")));
        assert_eq!(relayed("x://1"), ["alias/x://1/part", "x://1/part"]);
        assert!(relayed("x://1/part").is_empty());
    }

    #[tokio::test]
    async fn second_uri_of_a_resource_is_known_as_new() {
        let subscriptions = SessionSubscriptions::default();
        let (own, alias) = (resource("x://1", "x://1"), resource("x://1", "alias/x://1"));
        assert_eq!(subscriptions.add(own, pending), Some(true));
        assert_eq!(subscriptions.add(alias, pending), Some(true));
        assert_eq!(subscriptions.add(alias, pending), Some(false));
        assert!(subscriptions.remove(own) && !subscriptions.remove(own));
        // The alias keeps the subscription.
        assert!(subscriptions.holds(own));
        assert!(subscriptions.remove(alias) && !subscriptions.holds(own));
    }

    #[tokio::test]
    async fn changes_have_the_uris_of_the_client() {
        let subscriptions = SessionSubscriptions::default();
        subscriptions.add(resource("x://1", "alias/x://1"), pending).unwrap();
        let changed = |uri: &str| subscriptions.client_uris("a", uri, None);
        assert_eq!(changed("x://1"), ["alias/x://1"]);
        assert_eq!(changed("x://1/part"), ["alias/x://1/part"]);
        assert!(
            changed("x://10").is_empty()
                && subscriptions.client_uris("b", "x://1", None).is_empty()
        );
        // The same resource under its own URI.
        assert!(subscriptions.join(resource("x://1", "x://1")));
        assert_eq!(changed("x://1"), ["alias/x://1", "x://1"]);
        assert_eq!(subscriptions.all_client_uris("a").len(), 2);
        assert_eq!(subscriptions.find("x://1"), Some(("a".to_owned(), "x://1".to_owned())));
        assert!(subscriptions.remove(resource("x://1", "alias/x://1")));
        assert_eq!(changed("x://1"), ["x://1"]);
        assert!(subscriptions.remove(resource("x://1", "x://1")));
        assert!(changed("x://1").is_empty() && subscriptions.find("x://1").is_none());
    }
}
