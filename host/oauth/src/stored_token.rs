//! A token with all data that its refresh needs, in the form that the store encrypts.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use context_guard_config::Secret;
use serde::{Deserialize, Serialize, Serializer};

/// The time before a token's expiry at which the token is refreshed.
const EXPIRY_MARGIN: Duration = Duration::from_secs(5);

/// A client that is registered at an authorization server.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientCredentials {
    pub(crate) id: String,
    #[serde(serialize_with = "expose_optional", default)]
    pub(crate) secret: Option<Secret>,
    /// True if the secret is sent in the body of requests, false if in a header.
    pub(crate) secret_in_body: bool,
}

/// The token of one principal for one upstream.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredToken {
    /// The URL of the upstream. Only this upstream may receive the token.
    pub(crate) url: String,
    /// The resource for which tokens are requested (RFC 8707).
    pub(crate) resource: String,
    pub(crate) issuer: String,
    pub(crate) token_endpoint: String,
    pub(crate) client: ClientCredentials,
    #[serde(serialize_with = "expose")]
    pub(crate) access_token: Secret,
    #[serde(serialize_with = "expose_optional", default)]
    pub(crate) refresh_token: Option<Secret>,
    /// The expiry, in seconds since 1970. `None` if the server did not report it.
    pub(crate) expires_at: Option<u64>,
    pub(crate) scopes: Vec<String>,
}

impl StoredToken {
    /// Returns true if the token can be used without a refresh, because its expiry is not near.
    pub(crate) fn is_fresh(&self) -> bool {
        self.expires_at.is_none_or(|expiry| unix_seconds() + EXPIRY_MARGIN.as_secs() < expiry)
    }

    /// Returns true if the token has expired.
    pub(crate) fn has_expired(&self) -> bool {
        self.expires_at.is_some_and(|expiry| unix_seconds() >= expiry)
    }
}

/// Returns the current time in seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn expose<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose())
}

#[allow(clippy::ref_option, reason = "the signature that serde calls")]
fn expose_optional<S: Serializer>(
    secret: &Option<Secret>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    secret.as_ref().map(Secret::expose).serialize(serializer)
}
