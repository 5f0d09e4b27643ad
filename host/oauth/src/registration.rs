//! Registers the gateway as a client of an authorization server (RFC 7591), unless the operator has
//! registered one.

use context_guard_config::Secret;
use serde::Deserialize;
use serde_json::json;

use crate::authorization_server::ServerMetadata;
use crate::fetch::Fetcher;
use crate::login_options::{LoginOptions, Progress};
use crate::stored_token::ClientCredentials;
use crate::{Error, Result};

/// The response to a registration.
#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<Secret>,
    token_endpoint_auth_method: Option<String>,
}

/// The error code and description in the response to a refused registration.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Refused {
    error: String,
    error_description: String,
}

/// Returns the client in the settings. Otherwise registers a client for `grant` and, if given,
/// `redirect`, and reports that step of the login.
pub(crate) async fn client(
    fetcher: &Fetcher,
    server: &ServerMetadata,
    options: &LoginOptions<'_>,
    grant: &str,
    redirect: Option<&str>,
) -> Result<ClientCredentials> {
    let settings = options.settings;
    if let Some(id) = &settings.client_id {
        let secret = settings.client_secret.clone();
        let secret_in_body = prefers_body(server);
        return Ok(ClientCredentials { id: id.clone(), secret, secret_in_body });
    }
    let Some(endpoint) = &server.registration_endpoint else {
        return Err(Error::Setup(format!(
            "the authorization server {} registers no clients by itself: register one there, and \
             set its id as oauth.clientId of the upstream",
            server.issuer
        )));
    };
    // A public client has no secret that could leak. PKCE protects its codes.
    let method =
        if server.token_endpoint_auth_methods_supported.is_empty() || server.accepts("none") {
            "none"
        } else if prefers_body(server) {
            "client_secret_post"
        } else {
            "client_secret_basic"
        };
    let document = json!({
        "client_name": "context-guard",
        "application_type": "native",
        "grant_types": [grant, "refresh_token"],
        "response_types": redirect.map_or(vec![], |_| vec!["code"]),
        "redirect_uris": Vec::from_iter(redirect),
        "token_endpoint_auth_method": method,
    });
    let answer = fetcher.post(endpoint, &document).await?;
    if !answer.status().is_success() {
        let refused: Refused = serde_json::from_slice(answer.body()).unwrap_or_default();
        return Err(Error::Refused(format!(
            "{endpoint} refused to register a client: {} {} {}",
            answer.status(),
            refused.error,
            refused.error_description
        )));
    }
    let registered: Registered = serde_json::from_slice(answer.body())
        .map_err(|error| Error::Discovery(format!("{endpoint}: invalid answer: {error}")))?;
    let method = registered.token_endpoint_auth_method.as_deref().unwrap_or(method);
    let client = ClientCredentials {
        id: registered.client_id,
        secret: registered.client_secret.filter(|_| method != "none"),
        secret_in_body: method == "client_secret_post",
    };
    (options.progress)(Progress::Registered(&client.id));
    Ok(client)
}

/// Returns true if the server expects the client's secret in the body of requests.
fn prefers_body(server: &ServerMetadata) -> bool {
    !server.accepts("client_secret_basic") && server.accepts("client_secret_post")
}
