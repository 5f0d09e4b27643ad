//! Who may come in: addresses, Host and Origin, API keys, JWTs, and how often.

#![forbid(unsafe_code)]

mod error;
mod hosts;
mod http_client;
#[cfg_attr(not(feature = "jwt"), path = "no_jwt.rs")]
mod jwt;
pub mod keys;
mod rate;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use context_guard_config::{self as config, Access as Config, Secret};
use http::HeaderName;
use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::request::Parts;
use ipnet::IpNet;

pub use error::{Error, Result};
pub use http_client::{HttpClient, http_client};

/// The header of an API key.
pub const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Who asks, when nobody has to say who they are.
pub const ANONYMOUS: &str = "anonymous";

/// Why somebody was not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 403: the address, the Host or the Origin. With the reason's name for metrics.
    Forbidden(&'static str, String),
    /// 401.
    Unauthorized(String),
    /// 429, with the time to wait.
    TooMany(Duration),
}

/// The door.
pub struct Access {
    ips: Vec<IpNet>,
    hosts: hosts::Hosts,
    keys: Option<keys::Keys>,
    jwt: Option<jwt::Jwt>,
    rate: Option<rate::Rate>,
}

impl Access {
    /// The door as it is configured. `loopback`: whether the gateway listens there alone.
    pub fn new(
        config: &Config,
        folder: &std::path::Path,
        loopback: bool,
        client: HttpClient,
    ) -> Result<Self> {
        Ok(Self {
            ips: config.allow_ips.clone(),
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

    /// Whether everybody has to say who they are.
    pub fn asks(&self) -> bool {
        self.keys.is_some() || self.jwt.is_some()
    }

    /// Lets a request in: gives the principal, or the reason why not.
    pub async fn admit(&self, peer: IpAddr, parts: &Parts) -> Result<Arc<str>, Refusal> {
        let peer = peer.to_canonical();
        if !self.ips.is_empty() && !self.ips.iter().any(|net| net.contains(&peer)) {
            return Err(Refusal::Forbidden(
                "address",
                "this address may not come in (access.allowIps)".to_owned(),
            ));
        }
        let header = |name| parts.headers.get(name).map(|value| value.to_str().unwrap_or(""));
        let host = header(HOST).or_else(|| parts.uri.authority().map(|a| a.as_str()));
        self.hosts.check(host, header(ORIGIN))?;
        // An address is slowed down before its key is looked at: trying keys costs tries.
        if let Some(rate) = &self.rate {
            rate.address(peer)?;
        }
        let principal = self.principal(parts).await?;
        if let Some(rate) = self.rate.as_ref().filter(|_| self.asks()) {
            rate.principal(&principal)?;
        }
        Ok(principal)
    }

    async fn principal(&self, parts: &Parts) -> Result<Arc<str>, Refusal> {
        if !self.asks() {
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
            None => "an API key or token is needed, as `Authorization: Bearer …`".to_owned(),
            Some(_) => "this is no key or token that is known here".to_owned(),
        }))
    }
}
