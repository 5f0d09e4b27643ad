//! The rules for the settings of a fleet and of its bundle.

use std::net::SocketAddr;

use crate::document::Issue;
use crate::gateway_file::Config;
use crate::oauth_rules::is_url;

/// Returns the errors in the settings of a fleet.
pub(crate) fn fleet_errors(config: &Config) -> Vec<Issue> {
    let Some(fleet) = &config.fleet else { return Vec::new() };
    let mut issues = Vec::new();
    match fleet.listen.parse::<SocketAddr>() {
        Err(_) => issues.push(Issue::new(
            &["fleet", "listen"],
            "an address and a port are needed, such as 0.0.0.0:8810",
        )),
        Ok(listen) if listen.ip().is_unspecified() && fleet.address.is_none() => {
            issues.push(Issue::new(
                &["fleet", "address"],
                "the other replicas need the address of this one, such as 10.0.0.7:8810",
            ));
        }
        Ok(_) => {}
    }
    if fleet.address.as_ref().is_some_and(|address| !is_address(address)) {
        issues.push(Issue::new(
            &["fleet", "address"],
            "a host and a port are needed, such as 10.0.0.7:8810",
        ));
    }
    issues
}

/// Returns the errors in the settings of a bundle.
pub(crate) fn bundle_errors(config: &Config) -> Vec<Issue> {
    let Some(bundle) = &config.bundle else { return Vec::new() };
    let mut issues = Vec::new();
    let source = bundle.source.as_str();
    let is_web = source.starts_with("http://") || source.starts_with("https://");
    let reason = if source.is_empty() {
        "a URL, `store:` with a key, a file or the folder of an OCI layout is needed"
    } else if !is_web && source.contains("://") {
        "only https:// and http:// URLs are read; a key in Redis is `store:KEY`, in the server of store.url"
    } else if is_web && !is_url(source) {
        "the URL is invalid"
    } else if source.starts_with("store:") && !config.store.url.expose().contains("://") {
        "`store:` needs a store.url of Redis or Valkey"
    } else {
        ""
    };
    if !reason.is_empty() {
        issues.push(Issue::new(&["bundle", "source"], reason));
    }
    if bundle.public_keys.is_empty() {
        issues.push(Issue::new(
            &["bundle", "publicKeys"],
            "at least one key is needed; `context-guard bundle key` makes one",
        ));
    }
    issues
}

/// Returns the errors in the settings of a shared cache.
pub(crate) fn cache_errors(config: &Config) -> Vec<Issue> {
    let is_shared = config.cache.as_ref().is_some_and(|cache| cache.shared);
    if is_shared && !config.store.url.expose().contains("://") {
        let reason = "answers are shared in Redis or Valkey: set store.url";
        return vec![Issue::new(&["cache", "shared"], reason)];
    }
    Vec::new()
}

/// Returns true if a text is a host and a port. An IPv6 address must be in brackets.
fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_bare = !host.contains(':') || host.starts_with('[') && host.ends_with(']');
    is_bare && !host.is_empty() && host.len() <= 253 && port.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fleet;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for address in ["10.0.0.7:8810", "guard-0.guard:8810", "[::1]:8810"] {
            assert!(is_address(address), "{address}");
        }
        for address in ["", "10.0.0.7", ":8810", "::1:8810", "host:port", "host:99999"] {
            assert!(!is_address(address), "{address}");
        }
    }

    #[test]
    fn places_of_bundles_are_checked() {
        let errors = |source: &str, store: &str| {
            let bundle = crate::Bundle {
                source: source.to_owned(),
                public_keys: vec!["key".to_owned()],
                secret: None,
                poll_seconds: 5,
                state: None,
            };
            let mut config = Config { bundle: Some(bundle), ..Config::default() };
            config.store.url = crate::Secret::new(store);
            bundle_errors(&config).len()
        };
        for source in ["https://a.example/b", "http://127.0.0.1:1/b", "folder/b", "/a/b"] {
            assert_eq!(errors(source, "memory:"), 0, "{source}");
        }
        assert_eq!(errors("store:guard", "redis://127.0.0.1:1/0"), 0);
        for source in ["", "store:guard", "redis://a/0", "https://"] {
            assert_eq!(errors(source, "memory:"), 1, "{source}");
        }
    }

    #[test]
    fn unspecified_listen_address_needs_an_address() {
        let errors = |listen: &str, address: Option<&str>| {
            let address = address.map(str::to_owned);
            let fleet = Fleet { listen: listen.to_owned(), address, replicas: 3 };
            fleet_errors(&Config { fleet: Some(fleet), ..Config::default() }).len()
        };
        assert_eq!(errors("0.0.0.0:8810", None), 1);
        assert_eq!(errors("0.0.0.0:8810", Some("10.0.0.7:8810")), 0);
        assert_eq!(errors("10.0.0.7:8810", None), 0);
        assert_eq!(errors("8810", Some("10.0.0.7")), 2);
    }
}
