//! The secrets in a gateway file, with their paths.

use std::collections::BTreeSet;

use super::gateway_file::Config;
use super::secret::{Secret, environment_references};

impl Config {
    /// Returns the names of the variables that the file needs: those in `${env:NAME}` references
    /// without a default. Empty if references are resolved.
    #[must_use]
    pub fn required_variables(&self) -> BTreeSet<String> {
        let mut config = self.clone();
        let mut names = BTreeSet::new();
        let mut see = |text: &str| {
            let references = environment_references(text);
            names.extend(references.filter(|name| !name.contains(":-")).map(str::to_owned));
        };
        for upstream in config.upstreams.iter_mut().filter(|upstream| upstream.enabled) {
            upstream.each_reference(&mut |_, text| see(text));
        }
        config.each_secret(&mut |_, secret| see(secret.expose()));
        names
    }

    /// Calls `see` with every secret and its path in the file, except secrets of disabled
    /// upstreams.
    pub(super) fn each_secret(&mut self, see: &mut dyn FnMut(Vec<String>, &mut Secret)) {
        let way = |steps: &[&str]| steps.iter().map(|step| (*step).to_owned()).collect();
        let enabled = self.upstreams.iter_mut().enumerate().filter(|(_, one)| one.enabled);
        for (at, upstream) in enabled {
            let at = at.to_string();
            if let Some(secret) =
                upstream.oauth.as_mut().and_then(|oauth| oauth.client_secret.as_mut())
            {
                see(way(&["upstreams", &at, "oauth", "clientSecret"]), secret);
            }
            for (member, map) in [("headers", &mut upstream.headers), ("env", &mut upstream.env)] {
                for (name, secret) in map {
                    see(way(&["upstreams", &at, member, name]), secret);
                }
            }
        }
        if let Some(admin) = &mut self.admin
            && let Some(token) = &mut admin.token
        {
            see(way(&["admin", "token"]), token);
        }
        for (name, secret) in &mut self.telemetry.otlp.headers {
            see(way(&["telemetry", "otlp", "headers", name]), secret);
        }
        if let Some(webhook) = &mut self.alert_webhook {
            see(way(&["alertWebhook", "url"]), &mut webhook.url);
            see(way(&["alertWebhook", "secret"]), &mut webhook.secret);
        }
        see(way(&["store", "url"]), &mut self.store.url);
        let filters = self.filter_store.iter_mut().flat_map(|settings| &mut settings.secrets);
        for (at, secret) in filters.enumerate() {
            see(way(&["filterStore", "secrets", &at.to_string()]), secret);
        }
        if let Some(secret) = self.bundle.as_mut().and_then(|bundle| bundle.secret.as_mut()) {
            see(way(&["bundle", "secret"]), secret);
        }
        if let Some(key) = &mut self.tokens.key {
            see(way(&["tokens", "key"]), key);
        }
        for (at, key) in self.signing_keys.iter_mut().enumerate() {
            see(way(&["signingKeys", &at.to_string()]), key);
        }
    }
}
