//! The device flow (RFC 8628): the user logs in on another device.

use oauth2::{
    DeviceAuthorizationUrl, RequestTokenError, Scope, StandardDeviceAuthorizationResponse, TokenUrl,
};

use crate::discovery::Discovered;
use crate::exchange::{NewToken, error, library_client};
use crate::fetch::Fetcher;
use crate::login_options::{LoginOptions, Progress};
use crate::registration;
use crate::stored_token::ClientCredentials;
use crate::{Error, Result};

/// The name of the grant type in requests.
const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// Logs in with a code that the user enters on another device. Returns the client's credentials and
/// the new token.
pub(crate) async fn run(
    fetcher: &Fetcher,
    found: &Discovered,
    options: &LoginOptions<'_>,
    scopes: &[String],
) -> Result<(ClientCredentials, NewToken)> {
    let server = &found.server;
    let Some(endpoint) = server.device_authorization_endpoint.clone() else {
        return Err(Error::Setup(format!(
            "{} offers no device flow: log in without --device",
            server.issuer
        )));
    };
    let credentials = registration::client(fetcher, server, options, GRANT, None).await?;
    let invalid = |error: oauth2::url::ParseError| Error::Discovery(error.to_string());
    let client = library_client(&credentials)
        .set_device_authorization_url(DeviceAuthorizationUrl::new(endpoint).map_err(invalid)?)
        .set_token_uri(TokenUrl::new(server.token_endpoint.clone()).map_err(invalid)?);
    let details: StandardDeviceAuthorizationResponse = client
        .exchange_device_code()
        .add_scopes(scopes.iter().cloned().map(Scope::new))
        .add_extra_param("resource", found.resource.clone())
        .request_async(fetcher)
        .await
        .map_err(|failure| error(&server.issuer, failure))?;
    (options.progress)(Progress::EnterCode {
        url: details.verification_uri().as_str(),
        code: details.user_code().secret(),
        link: details.verification_uri_complete().map(|url| url.secret().as_str()),
    });
    let requested = client
        .exchange_device_access_token(&details)
        .add_extra_param("resource", found.resource.clone())
        .request_async(fetcher, tokio::time::sleep, None)
        .await;
    let response = requested.map_err(|failure| match failure {
        RequestTokenError::ServerResponse(response) => {
            Error::Refused(format!("{} refused: {response}", server.issuer))
        }
        RequestTokenError::Request(error) => error,
        RequestTokenError::Parse(parse, _) => Error::Unavailable(format!(
            "{} sent an invalid answer: {}",
            server.issuer,
            parse.inner()
        )),
        RequestTokenError::Other(reason) => Error::Refused(reason),
    })?;
    let token = NewToken::read(&server.issuer, &response)?;
    Ok((credentials, token))
}
