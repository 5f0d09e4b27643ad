//! Bearer tokens in the form of JWTs, verified with a set of public keys.

mod verifier;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use jsonwebtoken::jwk::{Jwk, JwkSet, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::Value;
use tracing::warn;

use super::Refusal;
use crate::config::Jwt as Config;
use crate::{Error, HttpClient, Result, config};

/// The minimum time between two fetches of the key set, unless `refreshSeconds` is shorter. A token
/// with an unknown key id (`kid`) triggers a fetch.
const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(5);
/// The tolerance for differences between the clocks when `exp` and `nbf` are checked, in seconds.
const LEEWAY_SECONDS: u64 = 60;
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
    source: KeySource,
    refresh_interval: Duration,
    keys: Mutex<Arc<JwkSet>>,
    /// The end of the last fetch. The lock is held during a fetch, so that other tasks wait for it.
    fetched: tokio::sync::Mutex<Option<Instant>>,
    client: HttpClient,
}

/// The location of the key set.
enum KeySource {
    Url(http::Uri),
    File(PathBuf),
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    /// The scopes in the claim of RFC 9068, which most servers use.
    #[serde(default)]
    scope: Value,
    /// The scopes in the claim that some other servers use.
    #[serde(default)]
    scp: Value,
}

/// Returns true if a claim contains a scope. The claim is a list, or a text with scopes separated
/// by spaces.
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
        let (source, keys) = match (&config.jwks_file, &config.jwks_url) {
            (Some(path), _) => {
                let path = folder.join(path);
                let keys = read(&path)?;
                (KeySource::File(path), keys)
            }
            (None, url) => {
                let url = url.as_deref().unwrap_or_default().parse();
                let url = url.map_err(|error| Error::Setup(format!("access.jwt.jwksUrl: {error}")));
                (KeySource::Url(url?), JwkSet { keys: Vec::new() })
            }
        };
        Ok(Self {
            issuer: config.issuer.clone(),
            audience: config.audience.clone(),
            scopes: config.scopes.clone(),
            source,
            refresh_interval: Duration::from_secs(config.refresh_seconds),
            keys: Mutex::new(Arc::new(keys)),
            fetched: tokio::sync::Mutex::new(None),
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
            self.fetch().await;
            keys = self.known();
        }
        // Several keys may have the same id.
        let mut named =
            keys.keys.iter().filter(|key| key.common.key_id.as_ref() == Some(&kid)).peekable();
        if named.peek().is_none() {
            return Err(wrong("unknown key".to_owned()));
        }
        let Some(key) = named.find(|key| verifies(key, header.alg)) else {
            return Err(wrong("its key is not for signatures of this algorithm".to_owned()));
        };
        let key = DecodingKey::from_jwk(key).map_err(|error| wrong(error.to_string()))?;
        let mut validation = Validation::new(header.alg);
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(&[&self.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.validate_nbf = true;
        validation.leeway = LEEWAY_SECONDS;
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
        Arc::clone(&self.keys.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the key set at once, and then at every interval. Never returns.
    pub(super) async fn refresh(&self) {
        loop {
            self.fetch().await;
            tokio::time::sleep(self.refresh_interval).await;
        }
    }

    /// Replaces the key set, or waits for another task that does. Returns at once if the set was
    /// just replaced.
    async fn fetch(&self) {
        let mut fetched = self.fetched.lock().await;
        let interval = MIN_FETCH_INTERVAL.min(self.refresh_interval);
        if fetched.is_some_and(|end| end.elapsed() < interval) {
            return;
        }
        let result = match &self.source {
            KeySource::Url(url) => self.download(url.clone()).await,
            KeySource::File(path) => read(path).map_err(|error| error.to_string()),
        };
        match result {
            Ok(set) => *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(set),
            Err(reason) => {
                warn!("cannot read the keys of tokens, the last ones are used: {reason}")
            }
        }
        *fetched = Some(Instant::now());
    }

    /// Requests the key set from its URL.
    async fn download(&self, url: http::Uri) -> Result<JwkSet, String> {
        let mut request = http::Request::new(Full::new(Bytes::new()));
        *request.uri_mut() = url.clone();
        let download = async {
            let response = self.client.request(request).await.map_err(|error| error.to_string())?;
            if !response.status().is_success() {
                return Err(format!("status {}", response.status()));
            }
            let body = Limited::new(response.into_body(), MAX_KEY_SET_BYTES).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            serde_json::from_slice(&body).map_err(|error| error.to_string())
        };
        tokio::time::timeout(Duration::from_secs(10), download)
            .await
            .unwrap_or_else(|_| Err("timeout after 10 s".to_owned()))
            .map_err(|reason| format!("{url}: {reason}"))
    }
}

fn read(path: &Path) -> Result<JwkSet> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| config::Error::File { path: path.to_owned(), source })?;
    let set = serde_json::from_str(&text).map_err(|error| config::Error::Format {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(set)
}

/// Returns true if a key may verify signatures of an algorithm (RFC 7517, sections 4.2 to 4.4).
fn verifies(key: &Jwk, algorithm: Algorithm) -> bool {
    let common = &key.common;
    let is_for_signatures =
        common.public_key_use.as_ref().is_none_or(|purpose| *purpose == PublicKeyUse::Signature);
    let may_verify = common
        .key_operations
        .as_ref()
        .is_none_or(|operations| operations.contains(&KeyOperations::Verify));
    let is_of_algorithm = common.key_algorithm.is_none_or(|named| {
        Algorithm::from_str(&named.to_string()).is_ok_and(|is| is == algorithm)
    });
    is_for_signatures && may_verify && is_of_algorithm
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purpose_of_a_key_is_checked() {
        let key = |more: &str| -> Jwk {
            let text = format!(r#"{{"kty":"OKP","crv":"Ed25519","kid":"k","x":"AA"{more}}}"#);
            serde_json::from_str(&text).unwrap()
        };
        for (more, expected) in [
            ("", true),
            (r#","use":"sig""#, true),
            (r#","use":"enc""#, false),
            (r#","alg":"EdDSA""#, true),
            (r#","alg":"ES256""#, false),
            (r#","alg":"RSA-OAEP""#, false),
            (r#","key_ops":["verify"]"#, true),
            (r#","key_ops":["encrypt"]"#, false),
        ] {
            assert_eq!(verifies(&key(more), Algorithm::EdDSA), expected, "{more}");
        }
    }

    #[tokio::test]
    async fn removed_key_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jwks.json");
        let set = |id: &str| {
            format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"{id}","x":"AA"}}]}}"#)
        };
        std::fs::write(&path, set("old")).unwrap();
        let config = Config {
            jwks_url: None,
            jwks_file: Some(path.clone()),
            issuer: String::new(),
            audience: String::new(),
            resource: None,
            authorization_servers: Vec::new(),
            scopes: Vec::new(),
            refresh_seconds: 1,
        };
        let client = crate::http_client();
        let jwt = Arc::new(Jwt::new(&config, folder.path(), client).unwrap());
        assert!(jwt.known().find("old").is_some());
        std::fs::write(&path, set("new")).unwrap();
        let refreshed = Arc::clone(&jwt);
        let task = tokio::spawn(async move { refreshed.refresh().await });
        while jwt.known().find("old").is_some() {
            tokio::task::yield_now().await;
        }
        assert!(jwt.known().find("new").is_some());
        task.abort();
    }
}
