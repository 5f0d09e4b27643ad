//! The gateway as an OAuth protected resource: its metadata (RFC 9728) and the challenges of
//! refused requests (RFC 6750).

use context_guard_config::{Config, is_url};
use http::header::HeaderMap;
use http::uri::{Authority, Uri};
use serde_json::{Value, json};

use super::{API_KEY, Refusal};

/// The beginning of the path of the metadata. The path of the resource follows it.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The description of the gateway for OAuth clients.
pub(super) struct ProtectedResource {
    /// The public URL of the MCP endpoint. `None` if it depends on the request.
    url: Option<Uri>,
    /// The path of the MCP endpoint on this gateway.
    path: String,
    scheme: &'static str,
    authorization_servers: Vec<String>,
    scopes: Vec<String>,
}

impl ProtectedResource {
    /// Returns the description for a configuration. `None` if the gateway accepts no JWTs, or the
    /// authorization server is unknown.
    pub(super) fn new(config: &Config) -> Option<Self> {
        let jwt = config.access.jwt.as_ref()?;
        let authorization_servers = match jwt.authorization_servers.as_slice() {
            [] if is_url(&jwt.issuer) => vec![jwt.issuer.clone()],
            [] => return None,
            servers => servers.to_vec(),
        };
        // An audience that is a URL is the resource for which tokens are issued (RFC 8707).
        let url = jwt.resource.as_ref().or(Some(&jwt.audience)).filter(|url| is_url(url));
        Some(Self {
            url: url.and_then(|url| url.parse().ok()),
            path: config.path.clone(),
            scheme: if config.tls.is_some() { "https" } else { "http" },
            authorization_servers,
            scopes: jwt.scopes.clone(),
        })
    }

    /// Returns the metadata document if `path` is its path, otherwise `None`. `host` is the
    /// authority of the request, if it was checked against the configuration.
    pub(super) fn metadata(&self, path: &str, host: Option<&Authority>) -> Option<Value> {
        let suffix = path.strip_prefix(WELL_KNOWN)?;
        let resource = self.resource(host)?;
        // A reverse proxy may publish the endpoint under another path.
        if !["", "/", self.path.as_str(), resource.path()].contains(&suffix) {
            return None;
        }
        let mut document = json!({
            "resource": text(&resource),
            "authorization_servers": self.authorization_servers,
            "bearer_methods_supported": ["header"],
        });
        if let (false, Some(members)) = (self.scopes.is_empty(), document.as_object_mut()) {
            members.insert("scopes_supported".to_owned(), json!(self.scopes));
        }
        Some(document)
    }

    fn resource(&self, host: Option<&Authority>) -> Option<Uri> {
        if let Some(url) = &self.url {
            return Some(url.clone());
        }
        let uri = Uri::builder().scheme(self.scheme).authority(host?.clone());
        uri.path_and_query(self.path.as_str()).build().ok()
    }

    /// Returns the URL of the metadata document of the resource. `None` if the URL of the resource
    /// is unknown.
    fn metadata_url(&self, host: Option<&Authority>) -> Option<String> {
        let resource = self.resource(host)?;
        let path = resource.path().trim_end_matches('/');
        Some(format!("{}://{}{WELL_KNOWN}{path}", resource.scheme_str()?, resource.authority()?))
    }
}

/// Returns a URL as text, without the `/` that the URL library adds to a URL without a path.
fn text(url: &Uri) -> String {
    let text = url.to_string();
    match url.path() {
        "/" => text.trim_end_matches('/').to_owned(),
        _ => text,
    }
}

/// Returns the value of `WWW-Authenticate` for a refused request. `None` if authentication would
/// not help.
pub(super) fn challenge(
    refusal: &Refusal,
    headers: &HeaderMap,
    resource: Option<&ProtectedResource>,
    host: Option<&Authority>,
) -> Option<String> {
    let mut parameters = Vec::new();
    match refusal {
        // A request without credentials gets no error code (RFC 6750, 3.1).
        Refusal::Unauthorized(_) if !has_credentials(headers) => {}
        Refusal::Unauthorized(reason) => {
            parameters.push(("error", "invalid_token".to_owned()));
            parameters.push(("error_description", reason.clone()));
        }
        Refusal::InsufficientScope(reason) => {
            parameters.push(("error", "insufficient_scope".to_owned()));
            parameters.push(("error_description", reason.clone()));
        }
        Refusal::Malformed(_) | Refusal::Forbidden(..) | Refusal::TooMany(_) => return None,
    }
    if let Some(resource) = resource {
        if !resource.scopes.is_empty() {
            parameters.push(("scope", resource.scopes.join(" ")));
        }
        if let Some(url) = resource.metadata_url(host) {
            parameters.push(("resource_metadata", url));
        }
    }
    let parameters: Vec<String> = parameters
        .into_iter()
        .map(|(name, value)| format!("{name}=\"{}\"", value.replace(is_unquotable, "'")))
        .collect();
    Some(format!("Bearer {}", parameters.join(", ")).trim_end().to_owned())
}

fn has_credentials(headers: &HeaderMap) -> bool {
    headers.contains_key(http::header::AUTHORIZATION) || headers.contains_key(API_KEY)
}

/// Returns true for characters that must not occur in a parameter of a challenge (RFC 6750, 3).
fn is_unquotable(character: char) -> bool {
    !matches!(character, ' '..='~') || matches!(character, '"' | '\\')
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use context_guard_config::{References, parse};
    use http::HeaderValue;

    use super::*;

    fn resource(jwt: &str) -> Option<ProtectedResource> {
        let text = format!(
            "upstreams: [{{name: a, command: [cat]}}]\naccess: {{jwt: {{jwksFile: keys, {jwt}}}}}\n"
        );
        let config = parse(Path::new("gateway.yaml"), &text, [], References::Keep);
        ProtectedResource::new(&config.unwrap())
    }

    #[test]
    fn url_comes_from_the_configuration() {
        let evil: Authority = "evil.example".parse().unwrap();
        for (jwt, url, metadata) in [
            (
                "issuer: 'https://id.example', audience: guard, resource: 'https://a.example/t/mcp'",
                "https://a.example/t/mcp",
                "https://a.example/.well-known/oauth-protected-resource/t/mcp",
            ),
            (
                "issuer: 'https://id.example', audience: 'https://a.example'",
                "https://a.example",
                "https://a.example/.well-known/oauth-protected-resource",
            ),
        ] {
            let resource = resource(jwt).unwrap();
            let document = resource.metadata(WELL_KNOWN, Some(&evil)).unwrap();
            assert_eq!(document["resource"], url);
            assert_eq!(document["authorization_servers"], json!(["https://id.example"]));
            assert_eq!(resource.metadata_url(Some(&evil)).unwrap(), metadata);
            assert_eq!(resource.metadata(&format!("{WELL_KNOWN}/other"), None), None);
        }
    }

    #[test]
    fn checked_host_replaces_a_missing_url() {
        let resource = resource("issuer: 'https://id.example', audience: guard").unwrap();
        assert_eq!(resource.metadata(WELL_KNOWN, None), None);
        let host: Authority = "localhost:8808".parse().unwrap();
        let document = resource.metadata(&format!("{WELL_KNOWN}/mcp"), Some(&host)).unwrap();
        assert_eq!(document["resource"], "http://localhost:8808/mcp");
    }

    #[test]
    fn unknown_authorization_server_publishes_nothing() {
        assert!(resource("issuer: internal, audience: 'https://a.example'").is_none());
    }

    #[test]
    fn challenges_are_quoted() {
        let jwt = "issuer: 'https://id.example', audience: 'https://a.example/mcp', scopes: [a, b]";
        let resource = resource(jwt);
        let challenge = |refusal: &Refusal, headers: &HeaderMap| {
            super::challenge(refusal, headers, resource.as_ref(), None)
        };
        let refusal = Refusal::Unauthorized("a \"quoted\" \\ reason\r\nX: y".to_owned());
        let metadata =
            "resource_metadata=\"https://a.example/.well-known/oauth-protected-resource/mcp\"";
        assert_eq!(
            challenge(&refusal, &HeaderMap::new()).unwrap(),
            format!("Bearer scope=\"a b\", {metadata}")
        );
        let mut headers = HeaderMap::new();
        headers.insert(http::header::AUTHORIZATION, HeaderValue::from_static("Bearer x"));
        assert_eq!(
            challenge(&refusal, &headers).unwrap(),
            format!(
                "Bearer error=\"invalid_token\", error_description=\"a 'quoted' ' reason''X: y\", \
                 scope=\"a b\", {metadata}"
            )
        );
        assert!(challenge(&Refusal::Forbidden("host", String::new()), &headers).is_none());
    }
}
