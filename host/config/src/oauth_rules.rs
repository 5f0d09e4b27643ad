//! The rules for OAuth settings and for the URLs in them.

use std::net::IpAddr;

use crate::document::Issue;
use crate::gateway_file::{Config, Jwt};
use crate::upstream::{Authorization, Isolation, OAuth, Upstream};

/// The reason why a scope is invalid.
const NOT_A_SCOPE: &str = "a scope has printable ASCII characters, but no space, `\"` or `\\`";
/// The reason why a URL is invalid.
const NOT_A_URL: &str = "an http:// or https:// URL is needed";

/// Returns true if a text is an http:// or https:// URL with a host.
#[must_use]
pub fn is_url(url: &str) -> bool {
    url.parse::<http::Uri>()
        .is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some())
}

/// Returns true if tokens may be sent to a URL: with TLS, or on this machine.
///
/// # Examples
/// ```
/// use context_guard_config::is_secure_url;
///
/// assert!(is_secure_url("https://id.example/token"));
/// assert!(is_secure_url("http://127.0.0.1:8080/token"));
/// assert!(!is_secure_url("http://id.example/token"));
/// ```
#[must_use]
pub fn is_secure_url(url: &str) -> bool {
    let Ok(uri) = url.parse::<http::Uri>() else { return false };
    let Some(host) = uri.host() else { return false };
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_loopback = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
    match uri.scheme_str() {
        Some("https") => true,
        Some("http") => is_loopback,
        _ => false,
    }
}

/// Returns the errors in all OAuth settings of a gateway file.
pub(crate) fn oauth_errors(config: &Config) -> Vec<Issue> {
    let mut issues = Vec::new();
    for (at, upstream) in config.upstreams.iter().enumerate() {
        if let Some(oauth) = &upstream.oauth {
            let at = at.to_string();
            for (path, reason) in upstream_errors(upstream, oauth) {
                let path = path.iter().map(String::as_str);
                let steps: Vec<&str> = ["upstreams", &at].into_iter().chain(path).collect();
                issues.push(Issue::new(&steps, reason));
            }
        }
    }
    issues.extend(config.access.jwt.iter().flat_map(jwt_errors));
    issues
}

/// Returns the errors in the OAuth settings of an upstream, each as its path and reason.
fn upstream_errors(upstream: &Upstream, oauth: &OAuth) -> Vec<(Vec<String>, &'static str)> {
    let mut faults = Vec::new();
    let mut add = |path: &[&str], reason| {
        faults.push((path.iter().map(|step| (*step).to_owned()).collect(), reason));
    };
    let url = upstream.url.as_ref().or(upstream.rest.as_ref().map(|rest| &rest.url));
    match url {
        None => add(&["oauth"], "a command gets its credentials by `env`; OAuth needs `url`"),
        Some(url) if !url.contains("${") && is_url(url) && !is_secure_url(url) => {
            let reason = "tokens need https://, or http:// on this machine";
            add(&[if upstream.url.is_some() { "url" } else { "rest" }], reason);
        }
        Some(_) => {}
    }
    if upstream.authorization == Authorization::Forward {
        let reason = "an upstream with `oauth` never receives the client's credentials";
        add(&["authorization"], reason);
    }
    if upstream.isolation == Isolation::Shared {
        add(&["isolation"], "callers with tokens of their own cannot share a session");
    }
    if upstream.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
        add(&["headers"], "`oauth` sets Authorization: remove it here");
    }
    if oauth.authorization_server.as_ref().is_some_and(|server| !is_secure_url(server)) {
        let reason = "an https:// URL is needed, or http:// on this machine";
        add(&["oauth", "authorizationServer"], reason);
    }
    if oauth.client_secret.is_some() && oauth.client_id.is_none() {
        add(&["oauth", "clientSecret"], "a secret belongs to a clientId");
    }
    for (at, scope) in oauth.scopes.iter().enumerate() {
        if !is_scope(scope) {
            add(&["oauth", "scopes", &at.to_string()], NOT_A_SCOPE);
        }
    }
    faults
}

/// Returns the errors in the settings for OAuth clients of the gateway.
fn jwt_errors(jwt: &Jwt) -> Vec<Issue> {
    let mut issues = Vec::new();
    if let Some(resource) = &jwt.resource
        && (!is_url(resource) || resource.contains(['?', '#']))
    {
        let reason = "an http:// or https:// URL without a query and a fragment is needed";
        issues.push(Issue::new(&["access", "jwt", "resource"], reason));
    }
    let lists = [("authorizationServers", &jwt.authorization_servers), ("scopes", &jwt.scopes)];
    for (member, entries) in lists {
        for (at, entry) in entries.iter().enumerate() {
            let (is_valid, reason) = match member {
                "scopes" => (is_scope(entry), NOT_A_SCOPE),
                _ => (is_url(entry), NOT_A_URL),
            };
            if !is_valid {
                issues.push(Issue::new(&["access", "jwt", member, &at.to_string()], reason));
            }
        }
    }
    issues
}

/// Returns true if a text is a scope (RFC 6749, 3.3).
#[must_use]
pub fn is_scope(scope: &str) -> bool {
    let is_allowed = |byte| matches!(byte, 0x21 | 0x23..=0x5B | 0x5D..=0x7E);
    !scope.is_empty() && scope.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{References, parse};

    #[test]
    fn tokens_need_tls_beyond_this_machine() {
        for (url, expected) in [
            ("https://id.example/token", true),
            ("http://127.0.0.1:1/token", true),
            ("http://localhost/token", true),
            ("http://[::1]:1/token", true),
            ("http://id.example/token", false),
            ("http://127.0.0.1.id.example/", false),
            ("http://localhost@id.example/", false),
            ("ftp://localhost/", false),
            ("file:///etc/passwd", false),
            ("/token", false),
        ] {
            assert_eq!(is_secure_url(url), expected, "{url}");
        }
    }

    #[test]
    fn unsafe_settings_are_refused() {
        for (upstream, path) in [
            ("command: [cat]", "upstreams[0].oauth"),
            ("url: 'http://mcp.example/mcp'", "upstreams[0].url"),
            ("url: 'https://a.example', authorization: forward", "upstreams[0].authorization"),
            ("url: 'https://a.example', isolation: shared", "upstreams[0].isolation"),
            ("url: 'https://a.example', headers: {AUTHORIZATION: x}", "upstreams[0].headers"),
        ] {
            let text = format!("upstreams: [{{name: a, oauth: {{}}, {upstream}}}]");
            let error = parse(Path::new("gateway.yaml"), &text, [], References::Keep).unwrap_err();
            assert!(error.to_string().contains(path), "{upstream}: {error}");
        }
        for (oauth, path) in [
            ("authorizationServer: 'http://id.example'", "oauth.authorizationServer"),
            ("clientSecret: x", "oauth.clientSecret"),
            ("scopes: ['a b']", "oauth.scopes[0]"),
        ] {
            let text =
                format!("upstreams: [{{name: a, url: 'https://a.example', oauth: {{{oauth}}}}}]");
            let error = parse(Path::new("gateway.yaml"), &text, [], References::Keep).unwrap_err();
            assert!(error.to_string().contains(path), "{oauth}: {error}");
        }
    }
}
