//! Token requests and their responses.

use context_guard_config::Secret;
use oauth2::basic::{BasicClient, BasicErrorResponse, BasicErrorResponseType, BasicTokenResponse};
use oauth2::{
    AuthType, ClientId, ClientSecret, RefreshToken, RequestTokenError, TokenResponse, TokenUrl,
};

use crate::fetch::{Fetcher, root_cause};
use crate::stored_token::{ClientCredentials, StoredToken, unix_seconds};
use crate::{Error, Result};

/// The reason why a token request failed.
type Failure = RequestTokenError<Error, BasicErrorResponse>;

/// Returns the client of the OAuth library for these credentials.
pub(crate) fn library_client(credentials: &ClientCredentials) -> BasicClient {
    let client = BasicClient::new(ClientId::new(credentials.id.clone()));
    let client = match credentials.secret_in_body {
        true => client.set_auth_type(AuthType::RequestBody),
        false => client,
    };
    match &credentials.secret {
        Some(secret) => client.set_client_secret(ClientSecret::new(secret.expose().to_owned())),
        None => client,
    }
}

/// Returns true if the server reports that the refresh token or code is no longer valid.
fn is_invalid_grant(failure: &Failure) -> bool {
    matches!(
        failure,
        RequestTokenError::ServerResponse(response)
            if *response.error() == BasicErrorResponseType::InvalidGrant
    )
}

/// Returns the error of a failed token request. It contains no part of a response that may contain
/// tokens.
pub(crate) fn error(server: &str, failure: Failure) -> Error {
    match failure {
        RequestTokenError::ServerResponse(response) => {
            Error::Refused(format!("{server} refused: {response}"))
        }
        RequestTokenError::Request(error) => error,
        RequestTokenError::Parse(error, _) => {
            Error::Unavailable(format!("{server} sent an invalid answer: {}", error.inner()))
        }
        RequestTokenError::Other(reason) => Error::Unavailable(format!("{server}: {reason}")),
    }
}

/// The parts of a token that a refresh replaces.
pub(crate) struct NewToken {
    access_token: Secret,
    refresh_token: Option<Secret>,
    expires_at: Option<u64>,
    scopes: Option<Vec<String>>,
}

impl NewToken {
    /// Reads the response to a token request. `server` is the issuer, for errors.
    pub(crate) fn read(server: &str, response: &BasicTokenResponse) -> Result<Self> {
        // Tokens of other types need a proof with each request.
        let kind = response.token_type().as_ref();
        if !kind.eq_ignore_ascii_case("bearer") {
            let reason = format!("{server} issued a token of the type {kind}, not Bearer");
            return Err(Error::Refused(reason));
        }
        let expiry =
            response.expires_in().map(|time| unix_seconds().saturating_add(time.as_secs()));
        let scopes = response.scopes();
        Ok(Self {
            access_token: Secret::new(response.access_token().secret()),
            refresh_token: response.refresh_token().map(|token| Secret::new(token.secret())),
            expires_at: expiry,
            scopes: scopes.map(|all| all.iter().map(|scope| scope.to_string()).collect()),
        })
    }

    /// Replaces the parts of `token` that the server sent. Other parts remain.
    pub(crate) fn apply(self, token: &mut StoredToken) {
        token.access_token = self.access_token;
        token.expires_at = self.expires_at;
        token.refresh_token = self.refresh_token.or(token.refresh_token.take());
        if let Some(scopes) = self.scopes {
            token.scopes = scopes;
        }
    }
}

/// The outcome of a refresh.
pub(crate) enum Refreshed {
    Token(Box<StoredToken>),
    /// The server no longer accepts the refresh token.
    Revoked,
}

/// Requests a new access token with the refresh token of `token`.
pub(crate) async fn refresh(
    fetcher: &Fetcher,
    token: &StoredToken,
    refresh_token: &Secret,
) -> Result<Refreshed> {
    let url = &token.token_endpoint;
    let endpoint = TokenUrl::new(url.clone()).map_err(|error| {
        Error::Discovery(format!(
            "invalid token endpoint \"{url}\" in the stored token: {}; log in again with context-guard login",
            root_cause(&error)
        ))
    })?;
    let client = library_client(&token.client).set_token_uri(endpoint);
    let refresh_token = RefreshToken::new(refresh_token.expose().to_owned());
    let requested = client
        .exchange_refresh_token(&refresh_token)
        .add_extra_param("resource", token.resource.clone())
        .request_async(fetcher)
        .await;
    match requested {
        Ok(response) => {
            let mut token = token.clone();
            NewToken::read(&token.issuer, &response)?.apply(&mut token);
            Ok(Refreshed::Token(Box::new(token)))
        }
        Err(failure) if is_invalid_grant(&failure) => Ok(Refreshed::Revoked),
        Err(failure) => Err(error(&token.issuer, failure)),
    }
}
