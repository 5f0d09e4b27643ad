//! The base path of the HTTP API of the tool catalogue, which a policy sets.

use serde_json::Value;

use super::gateway_file::Config;
use crate::document::Issue;

/// The base path for a policy that sets none.
const DEFAULT_PREFIX: &str = "/api/v1/tools";
/// The name of the setting of the base path.
const SETTING: &str = "catalogue.httpPrefix";

/// Returns the base path of the HTTP API of the catalogue under a policy, without a slash at its
/// end. `None` if the policy disables the API.
///
/// ```
/// use context_guard_config::catalogue_prefix;
/// use serde_json::json;
///
/// assert_eq!(catalogue_prefix(&json!({})), Some("/api/v1/tools"));
/// assert_eq!(catalogue_prefix(&json!({"catalogue": {"httpPrefix": "/t"}})), Some("/t"));
/// assert_eq!(catalogue_prefix(&json!({"catalogue": {"httpPrefix": null}})), None);
/// ```
#[must_use]
pub fn catalogue_prefix(policy: &Value) -> Option<&str> {
    match policy.pointer("/catalogue/httpPrefix") {
        None => Some(DEFAULT_PREFIX),
        Some(prefix) => prefix.as_str().filter(|prefix| !prefix.is_empty()),
    }
}

/// The paths of a gateway that the HTTP API of the catalogue must not share.
#[derive(Clone, Debug)]
pub struct OwnPaths {
    /// True if the gateway has MCP upstreams, and therefore a catalogue.
    has_catalogue: bool,
    /// The path of the MCP endpoint.
    endpoint: String,
    /// The name and prefix of each JSON API.
    apis: Vec<(String, String)>,
}

impl From<&Config> for OwnPaths {
    fn from(config: &Config) -> Self {
        let apis = config.upstreams.iter().filter_map(|upstream| {
            Some((upstream.name.clone(), upstream.rest.as_ref()?.prefix.clone()))
        });
        Self {
            has_catalogue: config.upstreams.iter().any(|upstream| upstream.rest.is_none()),
            endpoint: config.path.clone(),
            apis: apis.collect(),
        }
    }
}

impl OwnPaths {
    /// Returns the issue of a policy whose catalogue API shares paths with a JSON API or the MCP
    /// endpoint. Requests to one of them would otherwise reach the other. `None` if no paths are
    /// shared. O(JSON APIs).
    #[must_use]
    pub fn issue(&self, policy: &Value) -> Option<Issue> {
        let prefix = catalogue_prefix(policy).filter(|_| self.has_catalogue)?;
        let advice = "set another path, or null for no HTTP API of the catalogue";
        let shares = |api: &str| is_below(prefix, api) || is_below(api, prefix);
        let api = self.apis.iter().find(|(_, api)| shares(api));
        let reason = match api {
            Some((name, api)) if is_below(prefix, api) => {
                format!("the JSON API `{name}` with the prefix {api} covers {prefix}: {advice}")
            }
            Some((name, api)) => {
                format!("{prefix} covers the JSON API `{name}` with the prefix {api}: {advice}")
            }
            None if is_below(&self.endpoint, prefix) => {
                format!("{prefix} covers the MCP endpoint {}: {advice}", self.endpoint)
            }
            None => return None,
        };
        Some(Issue::at_path(SETTING, &reason))
    }
}

/// Returns true if a path is `prefix`, or lies below it. A slash at the end of `prefix` does not
/// matter.
///
/// ```
/// use context_guard_config::is_below;
///
/// assert!(is_below("/api/v1", "/api/") && is_below("/api", "/api"));
/// assert!(!is_below("/apis", "/api"));
/// ```
#[must_use]
pub fn is_below(path: &str, prefix: &str) -> bool {
    let rest = path.strip_prefix(prefix.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn issue(apis: &[&str], has_catalogue: bool, prefix: Option<&str>) -> Option<String> {
        let apis = apis.iter().map(|api| ("shop".to_owned(), (*api).to_owned())).collect();
        let paths = OwnPaths { has_catalogue, endpoint: "/mcp".to_owned(), apis };
        let policy = match prefix {
            Some("null") => json!({"catalogue": {"httpPrefix": null}}),
            Some(prefix) => json!({"catalogue": {"httpPrefix": prefix}}),
            None => json!({}),
        };
        paths.issue(&policy).map(|issue| format!("{}: {}", issue.path(), issue.reason))
    }

    #[test]
    fn apis_and_endpoint_are_not_covered() {
        for (apis, prefix) in [
            (&["/"][..], None),
            (&["/other", "/api/v1/"], None),
            (&["/api/v1/tools"], None),
            (&["/t"], Some("/t/catalogue")),
        ] {
            let found = issue(apis, true, prefix).unwrap();
            assert!(found.starts_with("catalogue.httpPrefix: the JSON API `shop`"), "{found}");
            assert_eq!(issue(apis, false, prefix), None, "{apis:?}");
            assert_eq!(issue(apis, true, Some("null")), None, "{apis:?}");
        }
        for (api, prefix) in [("/api/v1/tools/x", None), ("/api/v1/listings", Some("/api"))] {
            let found = issue(&[api], true, prefix).unwrap();
            assert!(found.contains("covers the JSON API `shop` with the prefix /api"), "{found}");
            assert_eq!(issue(&[api], false, prefix), None, "{api}");
        }
        assert!(
            issue(&[], true, Some("/mcp")).is_some_and(|found| found.contains("endpoint /mcp"))
        );
        for (apis, prefix) in [(&["/api/v1/tool", "/api/v2"][..], None), (&["/api"], Some("/apis"))]
        {
            assert_eq!(issue(apis, true, prefix), None, "{apis:?}");
        }
    }
}
