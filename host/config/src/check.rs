//! Checks a gateway file and reports all its errors at once.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::alert_rules::alert_errors;
use super::catalogue_path::is_below;
use super::filter_store::filter_store_errors;
use super::fleet_rules::{bundle_errors, cache_errors, fleet_errors};
use super::gateway_file::Config;
use super::oauth_rules::{is_url, oauth_errors};
use super::otlp_rules::otlp_errors;
use super::process_rules::process_errors;
use super::schema;
use super::secret;
use super::tls_rules::tls_errors;
use super::upstream::{HttpTransport, ProtocolModeSetting, Upstream};
use crate::document::{Issue, Issues};

/// The minimum length of a signing key, in bytes.
pub const MIN_SIGNING_KEY_BYTES: usize = 16;

/// The treatment of references to environment variables and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum References {
    /// Replaces references with their values. A missing value is an error.
    Resolve,
    /// Keeps references as they are, to check a file on a machine without its variables.
    Keep,
}

/// Validates the document of a gateway file, first against the schema, then by further rules, and
/// parses it. Relative paths refer to `folder`.
///
/// # Errors
/// All issues of the document.
pub(super) fn check(
    document: Value,
    folder: &Path,
    references: References,
) -> Result<Config, Issues> {
    let mut issues = schema::check(&super::schema(), &document);
    if !issues.is_empty() {
        // The valid rest is checked too, so that one run reports all errors.
        if let Ok(config) = serde_json::from_value::<Config>(without(document, &issues)) {
            issues.extend(semantic_errors(&config));
        }
        return Err(Issues(issues));
    }
    let mut config: Config = serde_json::from_value(document)
        .map_err(|error| Issues(vec![Issue::new(&[], error.to_string())]))?;
    config.folder = folder.to_owned();
    let own = own_variables(&mut config);
    for upstream in &mut config.upstreams {
        upstream.withheld_env.clone_from(&own);
    }
    issues.extend(inherited_secrets(&config, &own));
    if references == References::Resolve {
        issues.extend(resolve(&mut config, folder));
    }
    issues.extend(semantic_errors(&config));
    let (enabled, disabled) = config.upstreams.into_iter().partition(|one| one.enabled);
    config.upstreams = enabled;
    config.disabled = Vec::from_iter(disabled.into_iter().map(|one: Upstream| one.name));
    if issues.is_empty() { Ok(config) } else { Err(Issues(issues)) }
}

/// Replaces the references in all enabled upstreams and other secrets. Returns an issue for each
/// reference without a value.
fn resolve(config: &mut Config, folder: &Path) -> Vec<Issue> {
    let mut issues = Vec::new();
    let enabled = config.upstreams.iter_mut().enumerate().filter(|(_, one)| one.enabled);
    for (at, upstream) in enabled {
        upstream.each_reference(&mut |path, text| match secret::resolve_text(text, folder) {
            Ok(resolved) => *text = resolved,
            Err(reason) => {
                let at = at.to_string();
                issues.push(Issue::new(&[&["upstreams", at.as_str()], path].concat(), reason));
            }
        });
    }
    config.each_secret(&mut |steps, secret| {
        if let Err(reason) = secret.resolve(folder) {
            issues.push(Issue { line: None, steps, reason });
        }
    });
    issues
}

/// Returns the names of the variables that contain secrets of the gateway itself: those of
/// `${env:NAME}` outside of upstreams.
fn own_variables(config: &mut Config) -> Vec<String> {
    let mut names = Vec::new();
    config.each_secret(&mut |steps, secret| {
        if steps.first().is_some_and(|first| first != "upstreams") {
            names.extend(secret.variables().map(str::to_owned));
        }
    });
    names
}

/// Returns an issue for each `inheritEnv` member that is the name of a secret of the gateway.
fn inherited_secrets(config: &Config, own: &[String]) -> Vec<Issue> {
    let mut issues = Vec::new();
    for (at, upstream) in config.upstreams.iter().enumerate() {
        for (member, name) in upstream.inherit_env.iter().enumerate() {
            if name.starts_with("CONTEXT_GUARD_") || own.contains(name) {
                issues.push(Issue::new(
                    &["upstreams", &at.to_string(), "inheritEnv", &member.to_string()],
                    format!("no upstream inherits {name}, which may hold a secret of the gateway"),
                ));
            }
        }
    }
    issues
}

/// Returns the document without the members that `issues` report as invalid, so that the rest can
/// be checked too.
fn without(mut document: Value, issues: &[Issue]) -> Value {
    for issue in issues {
        let Some((last, way)) = issue.steps.split_last() else { continue };
        let parent = way.iter().try_fold(&mut document, |at, step| match at {
            Value::Object(members) => members.get_mut(step),
            Value::Array(entries) => entries.get_mut(step.parse::<usize>().ok()?),
            _ => None,
        });
        if let Some(Value::Object(members)) = parent {
            members.remove(last);
        }
    }
    document
}

fn semantic_errors(config: &Config) -> Vec<Issue> {
    let mut issues = Vec::new();
    let mut names = BTreeSet::new();
    if config.upstreams.is_empty() && config.external.is_none() {
        issues.push(Issue::new(&["upstreams"], "at least one upstream is needed"));
    }
    for (at, key) in config.signing_keys.iter().enumerate() {
        // A reference that is kept has another length than its value.
        let key = key.expose();
        if key.len() < MIN_SIGNING_KEY_BYTES && !key.contains("${") {
            issues.push(Issue::new(
                &["signingKeys", &at.to_string()],
                format!("a signing key needs at least {MIN_SIGNING_KEY_BYTES} bytes"),
            ));
        }
    }
    for (at, upstream) in config.upstreams.iter().enumerate() {
        let at = at.to_string();
        if let Err(reason) = name(&upstream.name) {
            issues.push(Issue::new(&["upstreams", &at, "name"], reason));
        } else if !names.insert(&upstream.name) {
            issues.push(Issue::new(
                &["upstreams", &at, "name"],
                format!("there is another upstream `{}`", upstream.name),
            ));
        }
        if let Some(reason) = kind(upstream) {
            issues.push(Issue::new(&["upstreams", &at], reason));
        }
        for (index, endpoint) in upstream.rest.iter().flat_map(|api| &api.endpoints).enumerate() {
            let prefix = upstream.rest.as_ref().map_or("/", |api| api.prefix.as_str());
            if !may_match(&endpoint.path, prefix) {
                let index = index.to_string();
                issues.push(Issue::new(
                    &["upstreams", &at, "rest", "endpoints", &index, "path"],
                    format!("no request has this path: all begin with the prefix {prefix}"),
                ));
            }
        }
        if let Some(reason) = transport(upstream) {
            issues.push(Issue::new(&["upstreams", &at, "transport"], reason));
        }
        for (member, url) in
            [("url", upstream.url.as_ref()), ("rest", upstream.rest.as_ref().map(|rest| &rest.url))]
        {
            // A reference that is not resolved has its own error, or its upstream is disabled.
            if let Some(url) = url
                && !url.contains("${")
                && !is_url(url)
            {
                issues.push(Issue::new(
                    &["upstreams", &at, member],
                    "an http:// or https:// URL is needed",
                ));
            }
        }
    }
    if config.listen.parse::<std::net::SocketAddr>().is_err() {
        issues.push(Issue::new(
            &["listen"],
            "an address and a port are needed, such as 127.0.0.1:8808",
        ));
    }
    if let Some(admin) = &config.admin
        && admin.listen.parse::<std::net::SocketAddr>().is_err()
    {
        issues.push(Issue::new(
            &["admin", "listen"],
            "an address and a port are needed, such as 127.0.0.1:8809",
        ));
    }
    if let Some(admin) = &config.admin
        && admin.token.is_none()
        && admin
            .listen
            .parse::<std::net::SocketAddr>()
            .is_ok_and(|address| !address.ip().to_canonical().is_loopback())
    {
        issues.push(Issue::new(
            &["admin", "listen"],
            "an address beyond loopback needs admin.token, or anybody there could read requests",
        ));
    }
    if config.component.require == super::Requirement::Signature
        && config.component.public_keys.is_empty()
    {
        issues.push(Issue::new(
            &["component", "publicKeys"],
            "a signature is required, so a minisign public key is needed",
        ));
    }
    if config.limits.buffered_bytes / 2 < config.limits.request_bytes {
        issues.push(Issue::new(
            &["limits", "bufferedBytes"],
            "it must be at least twice limits.requestBytes, or the longest requests never fit",
        ));
    }
    if config.limits.streams_per_principal.is_some_and(|share| share > config.limits.streams) {
        issues.push(Issue::new(
            &["limits", "streamsPerPrincipal"],
            "it has no effect above limits.streams",
        ));
    }
    if config.access.proxy_protocol && config.access.trusted_proxies.is_empty() {
        issues.push(Issue::new(
            &["access", "proxyProtocol"],
            "access.trustedProxies must name the proxies, because any client can send such a header",
        ));
    }
    if config.limits.memory_bytes.is_some() && !cfg!(target_os = "linux") {
        issues.push(Issue::new(
            &["limits", "memoryBytes"],
            "the gateway can measure its memory on Linux only",
        ));
    }
    if !config.path.starts_with('/') {
        issues.push(Issue::new(&["path"], "a path begins with `/`"));
    }
    let mcp = config.upstreams.iter().filter(|one| one.enabled && one.rest.is_none()).count();
    if config.naming == super::Naming::Plain && mcp > 1 {
        issues.push(Issue::new(
            &["naming"],
            "plain names are for one upstream: with several, names could clash",
        ));
    }
    if let Some(jwt) = &config.access.jwt
        && jwt.jwks_url.is_some() == jwt.jwks_file.is_some()
    {
        issues
            .push(Issue::new(&["access", "jwt"], "either jwksUrl or jwksFile is needed, not both"));
    }
    issues.extend(alert_errors(config));
    issues.extend(otlp_errors(&config.telemetry.otlp));
    issues.extend(oauth_errors(config));
    issues.extend(tls_errors(config));
    issues.extend(process_errors(config));
    issues.extend(fleet_errors(config));
    issues.extend(filter_store_errors(config.filter_store.as_ref(), &config.store));
    issues.extend(bundle_errors(config));
    issues.extend(cache_errors(config));
    issues
}

/// Checks the name of an upstream, which precedes `__` in tool names, and occurs in headers and
/// metrics.
///
/// # Errors
/// The reason why the name is invalid.
fn name(name: &str) -> Result<(), &'static str> {
    let fits = (1..=32).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && !name.contains("__")
        && !name.ends_with('_');
    if fits {
        Ok(())
    } else {
        Err("a name has 1 to 32 letters, digits, `-`, `_` or `.`, no `__`, and no `_` at its end")
    }
}

fn kind(upstream: &Upstream) -> Option<&'static str> {
    let kinds = usize::from(!upstream.command.is_empty())
        + usize::from(upstream.url.is_some())
        + usize::from(upstream.rest.is_some());
    match kinds {
        0 => Some("one of `command`, `url` and `rest` is needed"),
        1 => upstream
            .command
            .first()
            .is_some_and(|program| program.trim().is_empty())
            .then_some("the program of `command` is empty"),
        _ => Some("only one of `command`, `url` and `rest` may be given"),
    }
}

/// Returns the reason why the transport setting of an upstream has no effect or cannot work. `None`
/// if it is valid.
fn transport(upstream: &Upstream) -> Option<&'static str> {
    match upstream.transport {
        HttpTransport::Auto => None,
        _ if upstream.url.is_none() => Some("only upstreams with `url` have an HTTP transport"),
        HttpTransport::Sse if upstream.era == ProtocolModeSetting::Stateless => {
            Some("`sse` is a transport of stateful servers, so `era` cannot be `modern`")
        }
        HttpTransport::Sse | HttpTransport::StreamableHttp => None,
    }
}

/// Returns true if a glob of paths may match a path below `prefix`.
fn may_match(pattern: &str, prefix: &str) -> bool {
    let start = pattern.split(['*', '?']).next().unwrap_or_default();
    let is_open = start.len() < pattern.len();
    (is_open && prefix.trim_end_matches('/').starts_with(start)) || is_below(start, prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_rules_lie_below_the_prefix() {
        for path in ["/api/v1", "/api/v1/x", "/api/v1/*", "*", "/*", "/api*", "*/export"] {
            assert!(may_match(path, "/api/v1") && may_match(path, "/api/v1/"), "{path}");
        }
        for path in ["/export", "/", "/api", "/api/v10", "/export*", "/api/v2/*"] {
            assert!(!may_match(path, "/api/v1"), "{path}");
        }
        assert!(may_match("/export", "/") && may_match("/", "/"));
    }
}
