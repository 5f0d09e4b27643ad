//! Bearer tokens in the form of JWTs, verified with a set of public keys.

mod verifier;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::Value;
use tracing::warn;

use super::Refusal;
use crate::config::Jwt as Config;
use crate::{Error, HttpClient, Result, config};

/// The minimum time between two fetches of the key set. A token with an unknown key id (`kid`)
/// triggers a fetch.
const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(30);
/// The maximum length of the key set, in bytes.
const MAX_KEY_SET_BYTES: usize = 1 << 20;
/// The accepted signature algorithms. All use public keys, so that no token can select a
/// shared-secret algorithm.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

pub(super) struct Jwt {
    issuer: String,
    audience: String,
    scopes: Vec<String>,
    url: Option<http::Uri>,
    keys: Mutex<(Arc<JwkSet>, Option<Instant>)>,
    client: HttpClient,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    /// The scopes, as RFC 9068 and most servers write them.
    #[serde(default)]
    scope: Value,
    /// The scopes, as some other servers write them.
    #[serde(default)]
    scp: Value,
}

/// Returns true if a claim has a scope: in a list, or in a text that separates scopes by spaces.
fn has_scope(claim: &Value, scope: &str) -> bool {
    match claim {
        Value::String(text) => text.split(' ').any(|one| one == scope),
        Value::Array(list) => list.iter().any(|one| one == scope),
        _ => false,
    }
}

impl Jwt {
    pub(super) fn new(config: &Config, folder: &Path, client: HttpClient) -> Result<Self> {
        verifier::install();
        let keys = match &config.jwks_file {
            None => JwkSet { keys: Vec::new() },
            Some(path) => {
                let path = folder.join(path);
                let text = std::fs::read_to_string(&path)
                    .map_err(|source| config::Error::File { path: path.clone(), source })?;
                serde_json::from_str(&text)
                    .map_err(|error| config::Error::Format { path, reason: error.to_string() })?
            }
        };
        let url = config.jwks_url.as_ref().map(|url| url.parse()).transpose();
        Ok(Self {
            issuer: config.issuer.clone(),
            audience: config.audience.clone(),
            scopes: config.scopes.clone(),
            url: url.map_err(|error| Error::Setup(format!("access.jwt.jwksUrl: {error}")))?,
            keys: Mutex::new((Arc::new(keys), None)),
            client,
        })
    }

    pub(super) async fn check(&self, token: &str) -> Result<Arc<str>, Refusal> {
        let wrong = |reason: String| Refusal::Unauthorized(format!("invalid token: {reason}"));
        let header = decode_header(token).map_err(|error| wrong(error.to_string()))?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(wrong(format!("algorithm {:?} does not use a public key", header.alg)));
        }
        let Some(kid) = header.kid else { return Err(wrong("it has no key id (kid)".to_owned())) };
        let mut keys = self.known();
        if keys.find(&kid).is_none() {
            keys = self.fetch().await;
        }
        let Some(key) = keys.find(&kid) else {
            return Err(wrong("unknown key".to_owned()));
        };
        let key = DecodingKey::from_jwk(key).map_err(|error| wrong(error.to_string()))?;
        let mut validation = Validation::new(header.alg);
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(&[&self.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.validate_nbf = true;
        let claims = decode::<Claims>(token, &key, &validation)
            .map_err(|error| wrong(error.to_string()))?
            .claims;
        let is_missing =
            |scope: &&String| !has_scope(&claims.scope, scope) && !has_scope(&claims.scp, scope);
        if let Some(missing) = self.scopes.iter().find(is_missing) {
            let reason = format!("the token lacks the scope {missing} (access.jwt.scopes)");
            return Err(Refusal::InsufficientScope(reason));
        }
        Ok(format!("jwt:{}", claims.sub).into())
    }

    fn known(&self) -> Arc<JwkSet> {
        Arc::clone(&self.keys.lock().unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Returns the key set that verifies tokens. Fetches the set first if it has a URL and the last
    /// fetch is older than [`MIN_FETCH_INTERVAL`].
    async fn fetch(&self) -> Arc<JwkSet> {
        let Some(url) = &self.url else { return self.known() };
        {
            let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
            if keys.1.is_some_and(|asked| asked.elapsed() < MIN_FETCH_INTERVAL) {
                return Arc::clone(&keys.0);
            }
            keys.1 = Some(Instant::now());
        }
        match self.ask(url.clone()).await {
            Ok(set) => {
                let set = Arc::new(set);
                self.keys.lock().unwrap_or_else(PoisonError::into_inner).0 = Arc::clone(&set);
                set
            }
            Err(reason) => {
                warn!("cannot fetch the keys of tokens from {url}: {reason}");
                self.known()
            }
        }
    }

    async fn ask(&self, url: http::Uri) -> Result<JwkSet, String> {
        let mut request = http::Request::new(Full::new(Bytes::new()));
        *request.uri_mut() = url;
        let ask = async {
            let response = self.client.request(request).await.map_err(|error| error.to_string())?;
            if !response.status().is_success() {
                return Err(format!("status {}", response.status()));
            }
            let body = Limited::new(response.into_body(), MAX_KEY_SET_BYTES).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            serde_json::from_slice(&body).map_err(|error| error.to_string())
        };
        tokio::time::timeout(Duration::from_secs(10), ask)
            .await
            .unwrap_or_else(|_| Err("timeout after 10 s".to_owned()))
    }
}
