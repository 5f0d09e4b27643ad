//! The metadata of authorization servers (RFC 8414, OpenID Connect Discovery).

use oauth2::url::Url;
use serde::Deserialize;

use crate::fetch::{Fetcher, secure_url};
use crate::{Error, Result};

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
    /// Fetches the metadata of the server with this issuer.
    ///
    /// # Errors
    /// The metadata cannot be fetched, or are those of another issuer.
    pub(crate) async fn fetch(fetcher: &Fetcher, issuer: &str) -> Result<Self> {
        let places = metadata_urls(&secure_url(issuer, "the authorization server")?);
        for place in &places {
            let Some(metadata) = fetcher.document::<Self>(place).await? else { continue };
            metadata.check(issuer, place)?;
            return Ok(metadata);
        }
        Err(Error::Discovery(format!(
            "the authorization server {issuer} publishes no metadata at {}",
            places.join(" or ")
        )))
    }

    fn check(&self, issuer: &str, place: &str) -> Result<()> {
        // Otherwise one server could pose as another (RFC 8414, 3.3).
        if self.issuer.trim_end_matches('/') != issuer.trim_end_matches('/') {
            return Err(Error::Refused(format!(
                "{place} has the metadata of another issuer: {} instead of {issuer}",
                self.issuer
            )));
        }
        secure_url(&self.token_endpoint, "the token endpoint")?;
        for (endpoint, what) in [
            (&self.authorization_endpoint, "the authorization endpoint"),
            (&self.registration_endpoint, "the registration endpoint"),
            (&self.device_authorization_endpoint, "the endpoint of the device flow"),
        ] {
            endpoint.as_ref().map(|endpoint| secure_url(endpoint, what)).transpose()?;
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
        assert!(metadata.check("https://id.example/", "x").is_ok());
        assert!(metadata.check("https://other.example", "x").is_err());
        let plain = "http://id.example/token".to_owned();
        let insecure = ServerMetadata { token_endpoint: plain, ..metadata };
        assert!(insecure.check("https://id.example", "x").is_err());
    }
}
