//! The notifications that a subscription selects, and subscription ids in notifications.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::message::{Head, SUBSCRIPTION_KEY, member, with_member};

/// The notification that confirms a subscription.
pub(super) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// The notification that reports the change of a resource.
pub(super) const RESOURCE_UPDATED: &str = "notifications/resources/updated";
/// For each kind of list, the member of a subscription request that selects it, and the method of
/// its change notification.
const LIST_CHANGES: [(&str, &str); 3] = [
    ("toolsListChanged", "notifications/tools/list_changed"),
    ("promptsListChanged", "notifications/prompts/list_changed"),
    ("resourcesListChanged", "notifications/resources/list_changed"),
];

/// The notifications that a subscription selects: changes of lists and of resources.
#[derive(Clone, Debug, Default)]
pub(super) struct SubscriptionFilter {
    /// The methods of the selected list-change notifications.
    lists: Vec<&'static str>,
    uris: Vec<String>,
    /// For a filter of an upstream that has an alias, its own URIs beside those of the client.
    client_uris: Vec<(String, String)>,
}

/// The maximum number of resources that a subscription selects. The gateway sends a separate
/// request for each of them to a stateful upstream.
const MAX_URIS: usize = 64;
/// The maximum length of the URI of a resource that a client subscribes to, in bytes.
pub(super) const MAX_SUBSCRIBED_BYTES: usize = 8 << 10;

impl SubscriptionFilter {
    /// Reads the filter in a `subscriptions/listen` request.
    ///
    /// # Errors
    /// The reason why the request is refused.
    pub(super) fn parse(head: &Head<'_>) -> Result<Self, String> {
        let params = head.params.and_then(|params| serde_json::from_str(params.get()).ok());
        let params: Value = params.unwrap_or_default();
        let Some(wanted) = params.get("notifications").and_then(Value::as_object) else {
            return Err("Invalid params: `notifications` is needed, an object.".to_owned());
        };
        let lists = LIST_CHANGES
            .into_iter()
            .filter(|(name, _)| wanted.get(*name) == Some(&Value::Bool(true)))
            .map(|(_, method)| method)
            .collect();
        let uris = wanted.get("resourceSubscriptions").and_then(Value::as_array);
        let uris = uris.into_iter().flatten().filter_map(Value::as_str);
        let uris: BTreeSet<&str> = uris.collect();
        if uris.len() > MAX_URIS || uris.iter().any(|uri| uri.len() > MAX_SUBSCRIBED_BYTES) {
            return Err(format!(
                "Invalid params: a subscription may name {MAX_URIS} resources, whose URIs have at most {MAX_SUBSCRIBED_BYTES} bytes."
            ));
        }
        let uris = uris.into_iter().map(str::to_owned).collect();
        Ok(Self { lists, uris, ..Self::default() })
    }

    /// Returns a filter for changes of the resource with this URI.
    pub(super) fn resource(uri: &str) -> Self {
        Self { uris: vec![uri.to_owned()], ..Self::default() }
    }

    /// Returns a filter for changes of all lists, and of the resources with these URIs.
    pub(super) fn lists_and(uris: Vec<String>) -> Self {
        Self { uris, ..Self::lists() }
    }

    /// Returns a filter for changes of all lists.
    pub(super) fn lists() -> Self {
        let lists = LIST_CHANGES.into_iter().map(|(_, method)| method).collect();
        Self { lists, ..Self::default() }
    }

    /// Returns the messages of the selected notifications that lists have changed.
    pub(super) fn list_changes(&self) -> impl Iterator<Item = Vec<u8>> {
        self.lists.iter().filter_map(|method| self.list_change(method))
    }

    /// Returns the list-change notification with this method as a message. `None` if the filter
    /// does not select it.
    pub(super) fn list_change(&self, method: &str) -> Option<Vec<u8>> {
        let changed = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
        self.lists.contains(&method).then(|| changed.into_bytes())
    }

    /// Returns the messages of all selected notifications. They replace those that a slow receiver
    /// has lost, because nobody knows what changed.
    pub(super) fn all_changes(&self) -> impl Iterator<Item = Vec<u8>> {
        let updated = self.uris.iter().map(|uri| {
            let params = json!({"uri": uri});
            json!({"jsonrpc": "2.0", "method": RESOURCE_UPDATED, "params": params})
                .to_string()
                .into_bytes()
        });
        self.list_changes().chain(updated)
    }

    pub(super) fn uris(&self) -> &[String] {
        &self.uris
    }

    /// Returns the filter for an upstream. `own_uri` returns the upstream's own URI for one of the
    /// client, or `None` if the resource belongs to another upstream.
    pub(super) fn for_upstream<'u>(&'u self, own_uri: impl Fn(&'u str) -> Option<&'u str>) -> Self {
        let mut filter = Self { lists: self.lists.clone(), ..Self::default() };
        for uri in &self.uris {
            let Some(own) = own_uri(uri) else { continue };
            filter.client_uris.push((own.to_owned(), uri.clone()));
        }
        let own: BTreeSet<&String> = filter.client_uris.iter().map(|(own, _)| own).collect();
        filter.uris = own.into_iter().cloned().collect();
        if filter.client_uris.iter().all(|(own, client)| own == client) {
            filter.client_uris.clear();
        }
        filter
    }

    /// Returns an upstream's notification once for each URI that the client knows for its resource:
    /// the client may select a resource under the upstream's own URI and under its alias, and
    /// resources of which another one is a part.
    pub(super) fn for_client(&self, message: Vec<u8>) -> Vec<Vec<u8>> {
        if self.client_uris.is_empty() {
            return vec![message];
        }
        let uri = Head::read(&message)
            .filter(|head| head.method() == RESOURCE_UPDATED)
            .and_then(|head| head.parameters().uri.map(Cow::into_owned));
        let Some(uri) = uri else { return vec![message] };
        let known = self.client_uris.iter();
        let known = known.filter_map(|(own, client)| Some((part_of(&uri, own)?, client)));
        let known: BTreeSet<String> =
            known.map(|(part, client)| format!("{client}{part}")).collect();
        let known = known
            .iter()
            .map(|known| if *known == uri { message.clone() } else { with_uri(&message, known) });
        known.collect()
    }

    /// Returns true if the subscription selects this notification.
    pub(super) fn matches(&self, head: &Head<'_>) -> bool {
        if head.method() == RESOURCE_UPDATED {
            let uri = head.parameters().uri;
            return uri.is_some_and(|uri| self.uris.iter().any(|own| part_of(&uri, own).is_some()));
        }
        self.lists.contains(&head.method())
    }

    /// Returns the filter in the JSON form of `subscriptions/listen` and its confirmation.
    pub(super) fn json(&self) -> Value {
        let mut filter = serde_json::Map::new();
        for (name, method) in LIST_CHANGES {
            if self.lists.contains(&method) {
                filter.insert(name.to_owned(), true.into());
            }
        }
        if !self.uris.is_empty() {
            filter.insert("resourceSubscriptions".to_owned(), json!(self.uris));
        }
        filter.into()
    }
}

/// Returns the rest of `uri` after `resource` if it names that resource or a part of it. An update
/// may name a part (MCP 2025-11-25, resource updated notification).
pub(super) fn part_of<'u>(uri: &'u str, resource: &str) -> Option<&'u str> {
    uri.strip_prefix(resource).filter(|rest| {
        rest.is_empty() || resource.ends_with('/') || rest.starts_with(['/', '?', '#'])
    })
}

/// Returns a notification about the resource with this URI instead of its own.
pub(super) fn with_uri(message: &[u8], uri: &str) -> Vec<u8> {
    edit_param(message, "uri", |_| Value::from(uri).to_string())
}

/// Returns an upstream's notification without the id of the gateway's own subscription at the
/// upstream.
pub(super) fn without_subscription_id(message: &[u8]) -> Vec<u8> {
    edit_meta(message, |meta| with_member(meta, SUBSCRIPTION_KEY, None))
}

/// Returns the notification with `subscription`, the id of the client's subscription (raw JSON),
/// added.
pub(super) fn with_subscription_id(message: &[u8], subscription: &str) -> Vec<u8> {
    edit_meta(message, |meta| with_member(meta, SUBSCRIPTION_KEY, Some(subscription)))
}

fn edit_meta(message: &[u8], edit: impl Fn(&str) -> String) -> Vec<u8> {
    edit_param(message, "_meta", |meta| edit(meta.unwrap_or("{}")))
}

/// Returns a notification in which `edit` has replaced a member of its parameters (raw JSON).
fn edit_param(message: &[u8], name: &str, edit: impl Fn(Option<&str>) -> String) -> Vec<u8> {
    let text = String::from_utf8_lossy(message);
    let Some(head) = Head::read(message) else { return message.to_vec() };
    let params = head.params.map_or("{}", |params| params.get());
    let edited = edit(member(params, name).map(|value| value.get()));
    let params = with_member(params, name, Some(&edited));
    with_member(&text, "params", Some(&params)).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscription_id_is_replaced() {
        let plain = br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        let own = with_subscription_id(plain, "7");
        assert_eq!(
            String::from_utf8(own.clone()).unwrap(),
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}"#
        );
        assert!(
            !String::from_utf8(without_subscription_id(&own)).unwrap().contains("subscriptionId")
        );
    }

    #[test]
    fn updates_may_name_a_part_of_a_resource() {
        for uri in ["file:///a", "file:///a/b", "file:///a#b"] {
            assert!(part_of(uri, "file:///a").is_some(), "{uri}");
        }
        assert_eq!(part_of("file:///a/b", "file:///a/"), Some("b"));
        assert_eq!(part_of("file:///ab", "file:///a"), None);
        assert_eq!(part_of("file:///", "file:///a"), None);
    }

    #[test]
    fn aliases_are_translated() {
        let client = SubscriptionFilter::lists_and(
            ["alias/x://1", "x://1/part", "x://2", "x://3", "x://4", "alias/x://4"]
                .map(str::to_owned)
                .to_vec(),
        );
        let own = client.for_upstream(|uri| match uri {
            "x://3" => None,
            _ => Some(uri.trim_start_matches("alias/")),
        });
        assert_eq!(own.uris(), ["x://1", "x://1/part", "x://2", "x://4"]);
        let updated = |uri: &str| {
            let change = json!({"method": RESOURCE_UPDATED, "params": {"uri": uri}});
            let message = change.to_string().into_bytes();
            assert!(own.matches(&Head::read(&message).unwrap()), "{uri}");
            let messages = own.for_client(message);
            let uri = |message: &Vec<u8>| {
                Head::read(message).unwrap().parameters().uri.unwrap().into_owned()
            };
            messages.iter().map(uri).collect::<Vec<_>>()
        };
        assert_eq!(updated("x://1"), ["alias/x://1"]);
        assert_eq!(updated("x://2"), ["x://2"]);
        assert_eq!(updated("x://1/other"), ["alias/x://1/other"]);
        // A part that the client selects under its own URI, and a resource with both.
        assert_eq!(updated("x://1/part"), ["alias/x://1/part", "x://1/part"]);
        assert_eq!(updated("x://4"), ["alias/x://4", "x://4"]);
    }

    #[test]
    fn number_and_length_of_uris_are_limited() {
        let parse = |uris: &[String]| {
            let notifications = json!({"resourceSubscriptions": uris});
            let params = json!({"notifications": notifications});
            let request = json!({"id": 1, "method": "subscriptions/listen", "params": params});
            SubscriptionFilter::parse(&Head::read(request.to_string().as_bytes()).unwrap())
        };
        let mut uris: Vec<String> = (0..MAX_URIS).map(|at| format!("x://{at}")).collect();
        uris.push("x://1".to_owned());
        assert_eq!(parse(&uris).unwrap().uris().len(), MAX_URIS);
        uris.push("x://more".to_owned());
        assert!(parse(&uris).unwrap_err().contains("64 resources"));
        assert!(parse(&["x".repeat(MAX_SUBSCRIBED_BYTES + 1)]).is_err());
    }

    #[test]
    fn all_changes_are_selected() {
        let filter = SubscriptionFilter::lists_and(vec!["x://1".to_owned(), "x://2".to_owned()]);
        let changes: Vec<Vec<u8>> = filter.all_changes().collect();
        assert_eq!(changes.len(), 5);
        assert!(changes.iter().all(|message| filter.matches(&Head::read(message).unwrap())));
        let other = SubscriptionFilter::resource("x://1");
        let changes: Vec<Vec<u8>> = other.all_changes().collect();
        assert_eq!(changes.len(), 1);
        assert!(other.matches(&Head::read(&changes[0]).unwrap()));
    }

    #[test]
    fn filter_matches_requested_changes() {
        let request = br#"{"id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["x://1"]}}}"#;
        let filter = SubscriptionFilter::parse(&Head::read(request).unwrap()).unwrap();
        let matches = |message: &str| filter.matches(&Head::read(message.as_bytes()).unwrap());
        assert!(matches(r#"{"method":"notifications/tools/list_changed"}"#));
        assert!(!matches(r#"{"method":"notifications/prompts/list_changed"}"#));
        assert!(matches(
            r#"{"method":"notifications/resources/updated","params":{"uri":"x://1"}}"#
        ));
        assert!(!matches(
            r#"{"method":"notifications/resources/updated","params":{"uri":"x://2"}}"#
        ));
        assert_eq!(
            filter.json(),
            json!({"toolsListChanged": true, "resourceSubscriptions": ["x://1"]})
        );
    }
}
