//! The authorization code flow with PKCE, in the browser of the user.

use std::time::Duration;

use oauth2::{
    AuthUrl, AuthorizationCode, CsrfToken, PkceCodeChallenge, RedirectUrl, Scope, TokenUrl,
};

use crate::browser;
use crate::discovery::Discovered;
use crate::exchange::{NewToken, error, library_client};
use crate::fetch::Fetcher;
use crate::login_options::{LoginOptions, Progress};
use crate::redirect::{Expected, RedirectPage};
use crate::registration;
use crate::stored_token::ClientCredentials;
use crate::{Error, Result};

/// The maximum time in which the user must log in.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(600);
/// The scope that requests a refresh token (OpenID Connect Core, 11).
pub(crate) const OFFLINE_ACCESS: &str = "offline_access";

/// Logs in with the browser. Returns the client's credentials and the new token.
///
/// # Errors
/// The server or the user refuses, the response is invalid, or the user does not log in in time.
pub(crate) async fn run(
    fetcher: &Fetcher,
    found: &Discovered,
    options: &LoginOptions<'_>,
    scopes: &[String],
) -> Result<(ClientCredentials, NewToken)> {
    let server = &found.server;
    let Some(endpoint) = server.authorization_endpoint.clone() else {
        return Err(Error::Discovery(format!("{} has no login for browsers", server.issuer)));
    };
    // Without PKCE, another program on this machine could redeem the code (MCP, authorization).
    if !server.code_challenge_methods_supported.iter().any(|method| method == "S256") {
        return Err(Error::Discovery(format!(
            "{} does not declare PKCE with S256 (code_challenge_methods_supported)",
            server.issuer
        )));
    }
    let page = RedirectPage::open(options.port.unwrap_or(options.settings.redirect_port)).await?;
    let credentials =
        registration::client(fetcher, server, options, "authorization_code", Some(page.url()))
            .await?;
    let invalid = |error: oauth2::url::ParseError| Error::Discovery(error.to_string());
    let client = library_client(&credentials)
        .set_auth_uri(AuthUrl::new(endpoint).map_err(invalid)?)
        .set_token_uri(TokenUrl::new(server.token_endpoint.clone()).map_err(invalid)?)
        .set_redirect_uri(RedirectUrl::new(page.url().to_owned()).map_err(invalid)?);
    let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
    let mut request = client
        .authorize_url(CsrfToken::new_random)
        .set_pkce_challenge(challenge)
        .add_scopes(scopes.iter().cloned().map(Scope::new))
        .add_extra_param("resource", found.resource.as_str());
    if scopes.iter().any(|scope| scope == OFFLINE_ACCESS) {
        // Without it, servers ignore the scope (OpenID Connect Core, 11).
        request = request.add_extra_param("prompt", "consent");
    }
    let (url, state) = request.url();
    let opened = options.browser && browser::open(url.as_str());
    (options.progress)(Progress::OpenPage { url: url.as_str(), opened });
    let expected = Expected {
        state: state.secret(),
        issuer: &server.issuer,
        names_issuer: server.authorization_response_iss_parameter_supported,
    };
    let code =
        tokio::time::timeout(LOGIN_TIMEOUT, page.code(&expected)).await.map_err(|_| {
            let minutes = LOGIN_TIMEOUT.as_secs() / 60;
            Error::Refused(format!(
                "login timed out after {minutes} minutes: run context-guard login again"
            ))
        })??;
    let response = client
        .exchange_code(AuthorizationCode::new(code))
        .set_pkce_verifier(verifier)
        .add_extra_param("resource", found.resource.clone())
        .request_async(fetcher)
        .await
        .map_err(|failure| error(&server.issuer, failure))?;
    let token = NewToken::read(&server.issuer, &response)?;
    Ok((credentials, token))
}
