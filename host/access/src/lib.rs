//! Authenticates requests and limits their rate, by address, Host and Origin, API key, JWT and
//! client certificate.

#![forbid(unsafe_code)]

mod admin;
mod browser_sessions;
mod certificate;
mod error;
mod hosts;
mod http_client;
#[cfg_attr(not(feature = "jwt"), path = "no_jwt.rs")]
mod jwt;
pub mod keys;
mod protected_resource;
mod proxies;
mod rate;
mod shared_rate;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use context_guard_config::{self as config, Config, Secret};
use http::header::{AUTHORIZATION, HOST, HeaderMap};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderName, HeaderValue};
use ipnet::IpNet;

pub use admin::AdminAccess;
pub use certificate::ClientName;
pub use error::{Error, Result};
pub use http_client::{ClientIdentity, HttpClient, http_client, tls_client};
pub use proxies::{append_forwarded_for, client_network};
pub use shared_rate::{GrantFuture, RateGrant, RateRequest, SharedRates};

/// The name of the HTTP header that carries an API key.
pub const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The principal of all callers that nothing authenticates.
pub const ANONYMOUS: &str = "anonymous";

/// The reason why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Status 400: the headers contradict each other. Contains the message for the caller.
    Malformed(String),
    /// Status 403: the address, Host, Origin or client certificate is not allowed. Contains the
    /// reason as a metric label and the message for the caller.
    Forbidden(&'static str, String),
    /// Status 401: the caller is not authenticated. Contains the message for the caller.
    Unauthorized(String),
    /// Status 403: the caller's token lacks a scope. Contains the message for the caller.
    InsufficientScope(String),
    /// Status 429: the rate limit is exceeded. Contains the time until the next request is
    /// admitted.
    TooMany(Duration),
}

/// The access rules of a gateway.
pub struct Access {
    ips: Vec<IpNet>,
    trusted_proxies: Vec<IpNet>,
    hosts: hosts::Hosts,
    keys: Option<keys::Keys>,
    jwt: Option<jwt::Jwt>,
    /// True if clients need a certificate. The TLS handshake verifies it.
    needs_certificate: bool,
    rate: Option<rate::Rate>,
    resource: Option<protected_resource::ProtectedResource>,
}

impl Access {
    /// Creates the access rules from a configuration. `client` fetches signing keys. `loopback` is
    /// true if the gateway listens on loopback only.
    ///
    /// # Errors
    /// A file of keys cannot be read, or a setting is invalid.
    pub fn new(gateway: &Config, loopback: bool, client: HttpClient) -> Result<Self> {
        let (config, folder) = (&gateway.access, &gateway.folder);
        Ok(Self {
            resource: protected_resource::ProtectedResource::new(gateway),
            ips: config.allow_ips.clone(),
            trusted_proxies: config.trusted_proxies.clone(),
            hosts: hosts::Hosts::new(
                config,
                loopback,
                // A browser sends a certificate for pages of any site, unlike a key or a token.
                config.keys.is_some() || config.jwt.is_some(),
            ),
            keys: config
                .keys
                .as_ref()
                .map(|path| keys::Keys::open(&folder.join(path)))
                .transpose()?,
            jwt: config.jwt.as_ref().map(|jwt| jwt::Jwt::new(jwt, folder, client)).transpose()?,
            needs_certificate: gateway.uses_client_certificates(),
            rate: rate::Rate::new(
                &config.rate_limit,
                gateway.fleet.as_ref().map_or(1, |fleet| fleet.replicas),
            ),
        })
    }

    /// Counts requests in `store`, so that the rate limits apply to all replicas together.
    pub fn share_rates(&self, config: &Config, store: Arc<dyn SharedRates>) {
        if let Some(rate) = &self.rate {
            let replicas = config.fleet.as_ref().map_or(1, |fleet| fleet.replicas);
            rate.share(&config.access.rate_limit, store, replicas);
        }
    }

    /// Returns true if callers must authenticate.
    pub fn requires_authentication(&self) -> bool {
        self.requires_credentials() || self.needs_certificate
    }

    /// Returns true if callers must send a key or a token.
    fn requires_credentials(&self) -> bool {
        self.keys.is_some() || self.jwt.is_some()
    }

    /// Returns the address of the caller. `peer` is the address of the connection, which may be
    /// that of a trusted proxy.
    #[must_use]
    pub fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        proxies::client_address(peer, headers, &self.trusted_proxies)
    }

    /// Removes forwarding headers that the client itself has set. Only those of trusted proxies are
    /// reliable.
    pub fn strip_forwarding(&self, peer: IpAddr, headers: &mut HeaderMap) {
        if !self.is_trusted_proxy(peer) {
            proxies::strip_forwarding(headers);
        }
    }

    /// Fetches or reads the signing keys of tokens at intervals, so that removed keys are refused.
    /// Returns only if the gateway accepts no JWTs.
    pub async fn refresh_keys(&self) {
        if let Some(jwt) = &self.jwt {
            jwt.refresh().await;
        }
    }

    /// Returns true if the address is that of a trusted proxy.
    #[must_use]
    pub fn is_trusted_proxy(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.trusted_proxies.iter().any(|net| net.contains(&address))
    }

    /// Admits a request, and returns its principal. `address` is the address of the caller (see
    /// [`Self::client_address`]), and `parts` contains the headers.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub async fn admit(&self, address: IpAddr, parts: &Parts) -> Result<Arc<str>, Refusal> {
        self.check_origin(address, parts)?;
        let principal = self.principal(parts).await;
        let Some(rate) = &self.rate else { return principal };
        match &principal {
            // Many callers with keys may share an address: a NAT, or a proxy that is not trusted.
            Ok(principal) if self.requires_authentication() => {
                rate.principal(principal, 1).await?;
            }
            // A forwarded request comes from elsewhere, even if the proxy is on this machine.
            _ => rate.address(address, proxies::is_forwarded(&parts.headers), 1).await?,
        }
        principal
    }

    /// Counts `requests` further requests of a caller that [`Self::admit`] has admitted, such as
    /// the other messages of a batch.
    ///
    /// # Errors
    /// The refusal, if the requests exceed the rate limit.
    pub async fn charge(
        &self,
        principal: &Arc<str>,
        address: IpAddr,
        headers: &HeaderMap,
        requests: u32,
    ) -> Result<(), Refusal> {
        match &self.rate {
            None => Ok(()),
            Some(rate) if self.requires_authentication() => {
                rate.principal(principal, requests).await
            }
            Some(rate) => rate.address(address, proxies::is_forwarded(headers), requests).await,
        }
    }

    /// Returns the name of the header that authenticates a caller whom [`Self::admit`] has
    /// admitted. `None` for an anonymous caller, and for a caller with only a client certificate.
    pub fn authenticator(&self, headers: &HeaderMap) -> Option<HeaderName> {
        let key = self.keys.as_ref().and_then(|_| gateway_key(headers)).map(|(name, _)| name);
        key.or_else(|| self.jwt.as_ref().map(|_| AUTHORIZATION))
    }

    /// Checks the address of a caller, and the headers Host and Origin.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn check_origin(&self, address: IpAddr, parts: &Parts) -> Result<(), Refusal> {
        if !self.ips.is_empty() && !self.ips.iter().any(|net| net.contains(&address)) {
            return Err(Refusal::Forbidden(
                "address",
                "this address is not allowed (access.allowIps)".to_owned(),
            ));
        }
        self.hosts.check_request(parts)
    }

    /// Returns the authority in a request, if [`Self::check_origin`] compares it with the
    /// configuration. `None` for an unchecked authority, which may be that of an attacker.
    fn checked_host(&self, parts: &Parts) -> Option<Authority> {
        if self.hosts.accepts_any() { None } else { host(parts)?.parse().ok() }
    }

    /// Returns the metadata of this gateway as a protected resource (RFC 9728), if the request is
    /// for its path. Otherwise `None`. The request needs no authentication, but must pass
    /// [`Self::check_origin`].
    #[must_use]
    pub fn resource_metadata(&self, parts: &Parts) -> Option<serde_json::Value> {
        let resource = self.resource.as_ref()?;
        resource.metadata(parts.uri.path(), self.checked_host(parts).as_ref())
    }

    /// Returns the header `WWW-Authenticate` for the response to a refused request. `None` if
    /// authentication would not help.
    #[must_use]
    pub fn challenge(&self, refusal: &Refusal, parts: &Parts) -> Option<HeaderValue> {
        let (resource, host) = (self.resource.as_ref(), self.checked_host(parts));
        let text = protected_resource::challenge(refusal, &parts.headers, resource, host.as_ref())?;
        HeaderValue::try_from(text).ok()
    }

    /// Returns the principal in the client certificate, or the anonymous principal if clients need
    /// no certificate. The TLS handshake has already refused clients with an invalid certificate.
    fn certificate_principal(&self, parts: &Parts) -> Result<Arc<str>, Refusal> {
        if !self.needs_certificate {
            return Ok(ANONYMOUS.into());
        }
        let name = parts.extensions.get::<ClientName>().map(ClientName::principal);
        name.ok_or_else(|| {
            Refusal::Forbidden(
                "certificate",
                "the client certificate names nobody: a URI, a DNS name, an e-mail address or a \
                 subject is needed, without control characters"
                    .to_owned(),
            )
        })
    }

    async fn principal(&self, parts: &Parts) -> Result<Arc<str>, Refusal> {
        if !self.requires_credentials() {
            return self.certificate_principal(parts);
        }
        if let Some(keys) = &self.keys
            && let Some((_, key)) = gateway_key(&parts.headers)
        {
            return keys.check(&Secret::new(key));
        }
        let token = bearer(&parts.headers);
        if let Some((jwt, token)) = self.jwt.as_ref().zip(token) {
            return jwt.check(token).await;
        }
        let is_given = token.is_some() || parts.headers.contains_key(API_KEY);
        Err(Refusal::Unauthorized(match is_given {
            false => {
                "authenticate with an API key or token, as `Authorization: Bearer …`".to_owned()
            }
            true => "unknown key or token".to_owned(),
        }))
    }
}

/// Removes the headers that contain the key which authenticates the caller at this gateway. A key
/// in another header remains, because it may be for an upstream that is also a gateway.
pub fn remove_key(headers: &mut HeaderMap) {
    let Some((_, key)) = gateway_key(headers) else { return };
    let key = key.to_owned();
    let has_key = |value: Option<&str>| value == Some(key.as_str());
    if has_key(bearer(headers)) {
        headers.remove(AUTHORIZATION);
    }
    if has_key(headers.get(API_KEY).and_then(|value| value.to_str().ok())) {
        headers.remove(API_KEY);
    }
}

/// Returns the key of a gateway in the headers, with the name of its header. The header for API
/// keys takes precedence over that for tokens. `None` if there is no key.
fn gateway_key(headers: &HeaderMap) -> Option<(HeaderName, &str)> {
    let api_key = headers.get(API_KEY).and_then(|value| value.to_str().ok());
    let given = [(API_KEY, api_key), (AUTHORIZATION, bearer(headers))];
    let mut given = given.into_iter().filter_map(|(name, key)| Some((name, key?)));
    given.find(|(_, key)| key.starts_with(keys::PREFIX))
}

/// Returns the bearer token of a request (RFC 6750, section 2.1). `None` if there is none.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Returns the authority in a request: that in the header Host, otherwise that in its target.
/// `None` if there is none.
fn host(parts: &Parts) -> Option<&str> {
    let header = parts.headers.get(HOST).map(|value| value.to_str().unwrap_or(""));
    header.or_else(|| parts.uri.authority().map(Authority::as_str))
}
