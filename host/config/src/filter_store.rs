//! The settings of the endpoint for filters in other proxies: `filterStore`.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::document::Issue;
use crate::guard::Store;
use crate::secret::Secret;

/// The minimum length of a secret, in bytes.
const MIN_SECRET_BYTES: usize = 16;

/// An endpoint through which filters in other proxies share the store of this gateway. The Envoy
/// filter uses it with `store: {gateway: …}`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FilterStore {
    /// The listen address for the filters. With `tls`, the connections are encrypted.
    #[schemars(example = "10.0.0.7:8812")]
    pub listen: String,
    /// The secrets of the filters, at least 16 characters each. A filter has one of them.
    pub secrets: Vec<Secret>,
    /// The maximum size of a request, in bytes: of all entries that one answer stores.
    #[schemars(range(min = 1))]
    pub max_bytes: usize,
}

impl Default for FilterStore {
    fn default() -> Self {
        Self { listen: "127.0.0.1:8812".to_owned(), secrets: Vec::new(), max_bytes: 16 << 20 }
    }
}

/// Returns the errors in the settings of the endpoint for filters. `store` is the store that it
/// shares.
pub(crate) fn filter_store_errors(settings: Option<&FilterStore>, store: &Store) -> Vec<Issue> {
    let Some(settings) = settings else { return Vec::new() };
    let mut issues = Vec::new();
    if settings.listen.parse::<SocketAddr>().is_err() {
        let reason = "an address and a port are needed, such as 10.0.0.7:8812";
        issues.push(Issue::new(&["filterStore", "listen"], reason));
    }
    if settings.secrets.is_empty() {
        let reason = "at least one secret is needed, or anybody could read and write entries";
        issues.push(Issue::new(&["filterStore", "secrets"], reason));
    }
    for (at, secret) in settings.secrets.iter().enumerate() {
        // A reference is not resolved where its variable is not set.
        let text = secret.expose();
        if text.len() < MIN_SECRET_BYTES && !text.contains("${") {
            let at = at.to_string();
            let reason = "a secret has at least 16 characters";
            issues.push(Issue::new(&["filterStore", "secrets", &at], reason));
        }
    }
    if store.url.expose().starts_with("none:") {
        let reason = "filters need a store, and store.url is none:";
        issues.push(Issue::new(&["filterStore"], reason));
    }
    issues
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_address_and_store_are_checked() {
        let errors = |listen: &str, secrets: &[&str], store: &str| {
            let secrets = secrets.iter().map(|secret| Secret::new(secret)).collect();
            let listen = listen.to_owned();
            let settings = FilterStore { listen, secrets, ..FilterStore::default() };
            let store = Store { url: Secret::new(store), ..Store::default() };
            filter_store_errors(Some(&settings), &store).len()
        };
        let secret = "a secret of filters";
        assert_eq!(errors("0.0.0.0:8812", &[secret, "${env:SECRET}"], "memory:"), 0);
        assert_eq!(errors("0.0.0.0:8812", &[], "memory:"), 1);
        assert_eq!(errors("0.0.0.0:8812", &["short", secret], "memory:"), 1);
        assert_eq!(errors("8812", &["short"], "none:"), 3);
    }
}
