//! Bearer tokens that are JWTs, checked against a set of public keys.

mod verifier;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;
use tracing::warn;

use super::Refusal;
use crate::config::Jwt as Config;
use crate::{Error, HttpClient, Result, config};

/// A token that names an unknown key has the keys fetched again, but not more often than this.
const PAUSE: Duration = Duration::from_secs(30);
/// The longest set of keys, in bytes.
const LONGEST: usize = 1 << 20;
/// Signatures by public keys only: a token must not choose a shared secret.
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
    url: Option<http::Uri>,
    keys: Mutex<(Arc<JwkSet>, Option<Instant>)>,
    client: HttpClient,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
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
            url: url.map_err(|error| Error::Setup(format!("access.jwt.jwksUrl: {error}")))?,
            keys: Mutex::new((Arc::new(keys), None)),
            client,
        })
    }

    pub(super) async fn check(&self, token: &str) -> Result<Arc<str>, Refusal> {
        let wrong =
            |reason: String| Refusal::Unauthorized(format!("this token is not accepted: {reason}"));
        let header = decode_header(token).map_err(|error| wrong(error.to_string()))?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(wrong(format!("{:?} is no signature by a public key", header.alg)));
        }
        let Some(kid) = header.kid else { return Err(wrong("it names no key (kid)".to_owned())) };
        let mut keys = self.known();
        if keys.find(&kid).is_none() {
            keys = self.fetch().await;
        }
        let Some(key) = keys.find(&kid) else {
            return Err(wrong("its key is not known".to_owned()));
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
        Ok(format!("jwt:{}", claims.sub).into())
    }

    fn known(&self) -> Arc<JwkSet> {
        Arc::clone(&self.keys.lock().unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Asks for the keys again, where they come from a URL and were not asked for just now.
    async fn fetch(&self) -> Arc<JwkSet> {
        let Some(url) = &self.url else { return self.known() };
        {
            let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
            if keys.1.is_some_and(|asked| asked.elapsed() < PAUSE) {
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
                warn!("The keys of tokens cannot be fetched from {url}: {reason}");
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
            let body = Limited::new(response.into_body(), LONGEST).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            serde_json::from_slice(&body).map_err(|error| error.to_string())
        };
        tokio::time::timeout(Duration::from_secs(10), ask)
            .await
            .unwrap_or_else(|_| Err("no answer within 10 s".to_owned()))
    }
}
