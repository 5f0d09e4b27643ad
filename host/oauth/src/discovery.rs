//! Finds the authorization server of an upstream, from the upstream's challenge and its metadata as
//! a protected resource (RFC 9728).

use bytes::Bytes;
use context_guard_config::OAuth;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Request, StatusCode};
use oauth2::url::Url;
use serde::Deserialize;

use crate::authorization_server::{ISSUER, ServerMetadata};
use crate::challenge::Challenge;
use crate::fetch::{Fetcher, secure_url};
use crate::reach::Reach;
use crate::{Error, Result};

/// The first request of an MCP client. An upstream that needs a token answers it with 401 and a
/// challenge.
const FIRST_REQUEST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"context-guard","version":"1"}}}"#;

/// The members of a protected resource's metadata that logins use.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ResourceMetadata {
    resource: String,
    authorization_servers: Vec<String>,
    scopes_supported: Vec<String>,
}

/// An upstream, and its authorization server.
pub(crate) struct Discovered {
    pub(crate) server: ServerMetadata,
    /// The resource for which tokens are requested (RFC 8707).
    pub(crate) resource: String,
    /// The scopes that the upstream's metadata or challenge propose.
    pub(crate) scopes: Vec<String>,
}

/// Finds the authorization server of the upstream at `url`.
pub(crate) async fn discover(fetcher: &Fetcher, url: &str, settings: &OAuth) -> Result<Discovered> {
    let target = secure_url(url, "the upstream")?;
    let reach = Reach::from_url(&target);
    let challenge = challenge(fetcher, url).await?;
    let metadata = resource_metadata(fetcher, &target, challenge.as_ref()).await?;
    let own_origin = target.origin().ascii_serialization();
    let (issuer, resource, proposed) = match metadata {
        Some(found) => {
            check_resource(&found.resource, &target)?;
            let issuer = settings.authorization_server.clone().or_else(|| {
                let mut servers = found.authorization_servers.iter();
                servers.find(|server| reach.url(server, "").is_ok()).cloned()
            });
            (issuer.unwrap_or(own_origin), found.resource, found.scopes_supported)
        }
        // Servers of MCP 2025-03-26 are their own authorization servers.
        None => {
            let issuer = settings.authorization_server.clone().unwrap_or(own_origin);
            (issuer, canonical(&target), Vec::new())
        }
    };
    // The operator may have named a private server for an upstream elsewhere.
    let reach = match &settings.authorization_server {
        Some(server) if reach == Reach::Public => Reach::from_url(&secure_url(server, ISSUER)?),
        _ => reach,
    };
    let server = ServerMetadata::fetch(fetcher, &issuer, reach).await?;
    let demanded = challenge.map(|challenge| challenge.scopes).unwrap_or_default();
    let scopes = if demanded.is_empty() { proposed } else { demanded };
    Ok(Discovered { server, resource, scopes })
}

/// Sends a request without a token, and returns the challenge in the response. `None` if there is
/// none.
async fn challenge(fetcher: &Fetcher, url: &str) -> Result<Option<Challenge>> {
    let request = Request::post(url)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, text/event-stream")
        .body(Bytes::from_static(FIRST_REQUEST.as_bytes()))
        .map_err(|error| Error::Discovery(format!("{url}: {error}")))?;
    let answer = fetcher.send(request).await?;
    match answer.status() {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Ok(Challenge::parse(answer.headers())),
        _ => Ok(None),
    }
}

/// Returns the metadata of the resource at `target`: those at the URL in the challenge, otherwise
/// those at the well-known URLs. `None` if there are none.
async fn resource_metadata(
    fetcher: &Fetcher,
    target: &Url,
    challenge: Option<&Challenge>,
) -> Result<Option<ResourceMetadata>> {
    if let Some(place) = challenge.and_then(|challenge| challenge.resource_metadata.as_deref()) {
        Reach::from_url(target).url(place, "the metadata of the upstream")?;
        return fetcher.document(place).await;
    }
    let root =
        format!("{}/.well-known/oauth-protected-resource", target.origin().ascii_serialization());
    let path = target.path().trim_end_matches('/');
    if !path.is_empty()
        && let Some(found) = fetcher.document(&format!("{root}{path}")).await?
    {
        return Ok(Some(found));
    }
    fetcher.document(&root).await
}

/// Checks that the upstream belongs to the resource. A server could otherwise obtain tokens for
/// another resource.
fn check_resource(resource: &str, target: &Url) -> Result<()> {
    let refused = || {
        Error::Refused(format!("the metadata of {target} describe another resource: {resource}"))
    };
    let parsed = Url::parse(resource).map_err(|_| refused())?;
    let (prefix, path) = (parsed.path().trim_end_matches('/'), target.path());
    let is_below =
        path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if parsed.origin() == target.origin() && is_below { Ok(()) } else { Err(refused()) }
}

/// Returns the canonical URI of an MCP server (MCP, authorization).
fn canonical(target: &Url) -> String {
    let mut target = target.clone();
    target.set_fragment(None);
    target.as_str().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn metadata_at_private_addresses_are_refused() {
        let fetcher = Fetcher::new(context_guard_access::http_client());
        let target = Url::parse("https://a.example/mcp").unwrap();
        for place in ["http://127.0.0.1:1/metadata", "https://10.0.0.1/metadata"] {
            let resource_metadata = Some(place.to_owned());
            let challenge = Challenge { resource_metadata, ..Challenge::default() };
            let found = super::resource_metadata(&fetcher, &target, Some(&challenge)).await;
            assert!(matches!(found, Err(Error::Refused(_))), "{place}: {found:?}");
        }
    }

    #[test]
    fn resource_must_contain_the_upstream() {
        let target = Url::parse("https://a.example/team/mcp").unwrap();
        for (resource, fits) in [
            ("https://a.example/team/mcp", true),
            ("https://a.example/team/mcp/", true),
            ("https://a.example/team", true),
            ("https://a.example", true),
            ("https://a.example:443/", true),
            ("https://a.example/te", false),
            ("https://a.example/team/mcp/deep", false),
            ("http://a.example/team/mcp", false),
            ("https://b.example/team/mcp", false),
            ("https://a.example:8443/team/mcp", false),
            ("", false),
        ] {
            assert_eq!(check_resource(resource, &target).is_ok(), fits, "{resource}");
        }
    }
}
