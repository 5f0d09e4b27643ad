//! The metadata of authorization servers (RFC 8414, OpenID Connect Discovery).

use oauth2::url::Url;
use serde::Deserialize;

use crate::fetch::Fetcher;
use crate::reach::Reach;
use crate::{Error, Result};

/// The name of an issuer in errors.
pub(crate) const ISSUER: &str = "the authorization server";

/// The members of an authorization server's metadata that logins use.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ServerMetadata {
    pub(crate) issuer: String,
    pub(crate) authorization_endpoint: Option<String>,
    pub(crate) token_endpoint: String,
    pub(crate) registration_endpoint: Option<String>,
    pub(crate) device_authorization_endpoint: Option<String>,
    pub(crate) scopes_supported: Vec<String>,
    pub(crate) code_challenge_methods_supported: Vec<String>,
    pub(crate) token_endpoint_auth_methods_supported: Vec<String>,
    pub(crate) authorization_response_iss_parameter_supported: bool,
}

impl ServerMetadata {
    /// Fetches the metadata of the server with this issuer. `reach` has the hosts to which they may
    /// direct requests.
    ///
    /// # Errors
    /// The metadata cannot be fetched, are those of another issuer, or exceed the reach.
    pub(crate) async fn fetch(fetcher: &Fetcher, issuer: &str, reach: Reach) -> Result<Self> {
        let places = metadata_urls(&reach.url(issuer, ISSUER)?);
        for place in &places {
            let Some(metadata) = fetcher.document::<Self>(place).await? else { continue };
            metadata.check(issuer, place, reach)?;
            return Ok(metadata);
        }
        Err(Error::Discovery(format!(
            "the authorization server {issuer} publishes no metadata at {}",
            places.join(" or ")
        )))
    }

    fn check(&self, issuer: &str, place: &str, reach: Reach) -> Result<()> {
        // Otherwise one server could pose as another (RFC 8414, 3.3).
        if self.issuer.trim_end_matches('/') != issuer.trim_end_matches('/') {
            return Err(Error::Refused(format!(
                "{place} has the metadata of another issuer: {} instead of {issuer}",
                self.issuer
            )));
        }
        reach.url(&self.token_endpoint, "the token endpoint")?;
        for (endpoint, what) in [
            (&self.authorization_endpoint, "the authorization endpoint"),
            (&self.registration_endpoint, "the registration endpoint"),
            (&self.device_authorization_endpoint, "the endpoint of the device flow"),
        ] {
            endpoint.as_ref().map(|endpoint| reach.url(endpoint, what)).transpose()?;
        }
        Ok(())
    }

    /// Returns true if the server supports the method `method` of client authentication at its
    /// token endpoint.
    pub(crate) fn accepts(&self, method: &str) -> bool {
        self.token_endpoint_auth_methods_supported.iter().any(|known| known == method)
    }
}

/// Returns the possible URLs of an issuer's metadata, in order of preference.
fn metadata_urls(issuer: &Url) -> Vec<String> {
    let origin = issuer.origin().ascii_serialization();
    let path = issuer.path().trim_end_matches('/');
    let mut urls = vec![
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{origin}/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        urls.push(format!("{origin}{path}/.well-known/openid-configuration"));
    }
    urls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_depend_on_the_path_of_the_issuer() {
        let urls = |issuer: &str| metadata_urls(&Url::parse(issuer).unwrap());
        assert_eq!(
            urls("https://id.example/tenant/"),
            [
                "https://id.example/.well-known/oauth-authorization-server/tenant",
                "https://id.example/.well-known/openid-configuration/tenant",
                "https://id.example/tenant/.well-known/openid-configuration",
            ]
        );
        assert_eq!(urls("https://id.example").len(), 2);
    }

    #[test]
    fn foreign_metadata_is_refused() {
        let metadata = ServerMetadata {
            issuer: "https://id.example".to_owned(),
            token_endpoint: "https://id.example/token".to_owned(),
            ..ServerMetadata::default()
        };
        let check = |metadata: &ServerMetadata, issuer| metadata.check(issuer, "x", Reach::Public);
        assert!(check(&metadata, "https://id.example/").is_ok());
        assert!(check(&metadata, "https://other.example").is_err());
        let plain = "http://id.example/token".to_owned();
        let insecure = ServerMetadata { token_endpoint: plain, ..metadata.clone() };
        assert!(check(&insecure, "https://id.example").is_err());
        let private = Some("http://127.0.0.1:6379/register".to_owned());
        let private = ServerMetadata { registration_endpoint: private, ..metadata };
        assert!(check(&private, "https://id.example").is_err());
        assert!(private.check("https://id.example", "x", Reach::Private).is_ok());
    }
}
