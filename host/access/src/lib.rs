//! Authenticates requests and limits their rate: addresses, Host and Origin, API keys, JWTs.

#![forbid(unsafe_code)]

mod error;
mod hosts;
mod http_client;
#[cfg_attr(not(feature = "jwt"), path = "no_jwt.rs")]
mod jwt;
pub mod keys;
mod proxies;
mod rate;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use context_guard_config::{self as config, Access as Config, Secret};
use http::HeaderName;
use http::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use http::request::Parts;
use ipnet::IpNet;

pub use error::{Error, Result};
pub use http_client::{HttpClient, http_client};

/// The name of the HTTP header that carries an API key.
pub const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The principal of all callers if no authentication is configured.
pub const ANONYMOUS: &str = "anonymous";

/// The reason why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Status 403: the address, Host or Origin is not allowed. Contains the reason as a metric
    /// label and the message for the caller.
    Forbidden(&'static str, String),
    /// Status 401: the caller is not authenticated. Contains the message for the caller.
    Unauthorized(String),
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
    rate: Option<rate::Rate>,
}

impl Access {
    /// Creates the access rules of a configuration. Paths in it start from `folder`, and `client`
    /// fetches signing keys. `loopback` is true if the gateway listens on loopback only.
    pub fn new(
        config: &Config,
        folder: &std::path::Path,
        loopback: bool,
        client: HttpClient,
    ) -> Result<Self> {
        Ok(Self {
            ips: config.allow_ips.clone(),
            trusted_proxies: config.trusted_proxies.clone(),
            hosts: hosts::Hosts::new(config, loopback),
            keys: config
                .keys
                .as_ref()
                .map(|path| keys::Keys::open(&folder.join(path)))
                .transpose()?,
            jwt: config.jwt.as_ref().map(|jwt| jwt::Jwt::new(jwt, folder, client)).transpose()?,
            rate: rate::Rate::new(&config.rate_limit),
        })
    }

    /// Returns true if callers must authenticate.
    pub fn requires_authentication(&self) -> bool {
        self.keys.is_some() || self.jwt.is_some()
    }

    /// Returns the address of the caller. `peer` is that of the connection, which may be a
    /// trusted proxy.
    #[must_use]
    pub fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        proxies::client_address(peer, headers, &self.trusted_proxies)
    }

    /// Admits a request and returns its principal. `address` is that of the caller (see
    /// [`Self::client_address`]), and `parts` has the headers.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub async fn admit(&self, address: IpAddr, parts: &Parts) -> Result<Arc<str>, Refusal> {
        if !self.ips.is_empty() && !self.ips.iter().any(|net| net.contains(&address)) {
            return Err(Refusal::Forbidden(
                "address",
                "this address is not allowed (access.allowIps)".to_owned(),
            ));
        }
        let header = |name| parts.headers.get(name).map(|value| value.to_str().unwrap_or(""));
        let host = header(HOST).or_else(|| parts.uri.authority().map(|a| a.as_str()));
        self.hosts.check(host, header(ORIGIN))?;
        let principal = self.principal(parts).await;
        let Some(rate) = &self.rate else { return principal };
        match &principal {
            // Many callers with keys may share an address: a NAT, or a proxy that is not trusted.
            Ok(principal) if self.requires_authentication() => rate.principal(principal, 1)?,
            // A forwarded request comes from elsewhere, even if the proxy is on this machine.
            _ => rate.address(address, proxies::is_forwarded(&parts.headers), 1)?,
        }
        principal
    }

    /// Counts `requests` more requests of a caller that [`Self::admit`] has admitted, such as the
    /// other messages of a batch.
    ///
    /// # Errors
    /// The refusal, if that exceeds the rate limit.
    pub fn charge(
        &self,
        principal: &Arc<str>,
        address: IpAddr,
        headers: &HeaderMap,
        requests: u32,
    ) -> Result<(), Refusal> {
        match &self.rate {
            None => Ok(()),
            Some(rate) if self.requires_authentication() => rate.principal(principal, requests),
            Some(rate) => rate.address(address, proxies::is_forwarded(headers), requests),
        }
    }

    async fn principal(&self, parts: &Parts) -> Result<Arc<str>, Refusal> {
        if !self.requires_authentication() {
            return Ok(ANONYMOUS.into());
        }
        let bearer = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        let key = parts.headers.get(API_KEY).and_then(|value| value.to_str().ok()).or(bearer);
        if let Some(keys) = &self.keys
            && let Some(key) = key.filter(|key| key.starts_with(keys::PREFIX))
        {
            return keys.check(&Secret::new(key));
        }
        if let Some(jwt) = &self.jwt
            && let Some(token) = bearer
        {
            return jwt.check(token).await;
        }
        Err(Refusal::Unauthorized(match key {
            None => {
                "authenticate with an API key or token, as `Authorization: Bearer …`".to_owned()
            }
            Some(_) => "unknown key or token".to_owned(),
        }))
    }
}
