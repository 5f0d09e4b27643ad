//! The tokens of one upstream, for a running gateway.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use context_guard_access::{ANONYMOUS, HttpClient};
use context_guard_config::{OAuth, Secret};
use thiserror::Error;
use tracing::{info, warn};

use crate::Result;
use crate::exchange::{Refreshed, refresh};
use crate::fetch::Fetcher;
use crate::store::{FileStamp, TokenStore};
use crate::stored_token::StoredToken;

/// The time for which a failed refresh is not repeated. Requests that waited for it fail, too.
const FAILURE_PAUSE: Duration = Duration::from_secs(2);

/// The reason why there is no token for a request.
#[derive(Clone, Debug, Error)]
pub enum TokenError {
    /// The principal must log in. Contains the message for the client.
    #[error("{0}")]
    LoginRequired(String),
    /// The authorization server or the store failed. Contains the message for the client.
    #[error("{0}")]
    Unavailable(String),
}

/// Returns the command with which a principal logs in at an upstream.
#[must_use]
pub fn login_command(upstream: &str, principal: &str, scopes: &[String]) -> String {
    let mut command = format!("context-guard login {upstream}");
    if principal != ANONYMOUS {
        command.push_str(&format!(" --principal {}", quote(principal)));
    }
    for scope in scopes {
        command.push_str(&format!(" --scope {}", quote(scope)));
    }
    command
}

/// Quotes a word for shells, because principals and scopes come from other servers.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@+,=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace(char::is_control, " ").replace('\'', "'\\''"))
}

/// The token of one principal, and the state of its refresh.
struct PrincipalTokens {
    /// The token as it was last read, with the version of its file.
    read: Mutex<Option<(FileStamp, Arc<StoredToken>)>>,
    /// The last failed refresh, if any. The lock is held during a refresh.
    refreshing: tokio::sync::Mutex<Option<(Instant, TokenError)>>,
}

/// The tokens of all principals for one upstream. A token is never used for another principal, or
/// for another URL than that for which it was issued.
pub struct UpstreamTokens {
    upstream: String,
    url: String,
    settings: OAuth,
    store: Arc<TokenStore>,
    fetcher: Fetcher,
    principals: Mutex<HashMap<Arc<str>, Arc<PrincipalTokens>>>,
}

impl UpstreamTokens {
    /// Creates the tokens of the upstream with this name and URL.
    #[must_use]
    pub fn new(
        upstream: &str,
        url: &str,
        settings: &OAuth,
        store: Arc<TokenStore>,
        client: HttpClient,
    ) -> Arc<Self> {
        Arc::new(Self {
            upstream: upstream.to_owned(),
            url: url.to_owned(),
            settings: settings.clone(),
            store,
            fetcher: Fetcher::new(client),
            principals: Mutex::default(),
        })
    }

    fn principals(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<PrincipalTokens>>> {
        self.principals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the access token of a principal. Refreshes the token first if it is about to expire.
    ///
    /// # Errors
    /// The principal has no usable token.
    pub async fn access_token(self: &Arc<Self>, principal: &str) -> Result<Secret, TokenError> {
        let token = self.load(principal)?;
        if token.is_fresh() {
            return Ok(token.access_token.clone());
        }
        match self.renew(principal, &token.access_token).await {
            // The margin before the expiry is not over: the token may still work.
            Err(TokenError::Unavailable(_)) if !token.has_expired() => {
                Ok(token.access_token.clone())
            }
            renewed => renewed,
        }
    }

    /// Returns an access token other than `rejected`, which the upstream refused or which has
    /// expired. Concurrent calls share one refresh.
    ///
    /// # Errors
    /// The principal has no other token.
    pub async fn renew(
        self: &Arc<Self>,
        principal: &str,
        rejected: &Secret,
    ) -> Result<Secret, TokenError> {
        let (tokens, principal) = (Arc::clone(self), principal.to_owned());
        let rejected = rejected.clone();
        // A refresh token works once. The refresh must end even if the client gives up, because
        // the new one would be lost otherwise.
        let renewing =
            tokio::spawn(async move { tokens.refresh_once(&principal, &rejected).await });
        renewing.await.unwrap_or_else(|error| Err(TokenError::Unavailable(error.to_string())))
    }

    async fn refresh_once(&self, principal: &str, rejected: &Secret) -> Result<Secret, TokenError> {
        let entry = self.entry(principal);
        let mut last_failure = entry.refreshing.lock().await;
        // Another request, or a login, may have stored a new token meanwhile.
        let token = self.load(principal)?;
        if is_renewed(&token, rejected) {
            return Ok(token.access_token.clone());
        }
        if let Some((_, failure)) =
            last_failure.as_ref().filter(|(since, _)| since.elapsed() < FAILURE_PAUSE)
        {
            return Err(failure.clone());
        }
        let refreshed = self.refresh_locked(principal, rejected).await;
        *last_failure = refreshed.as_ref().err().map(|error| (Instant::now(), error.clone()));
        refreshed
    }

    /// Refreshes a token while holding its lock, so that no other gateway with the same store
    /// refreshes it.
    async fn refresh_locked(
        &self,
        principal: &str,
        rejected: &Secret,
    ) -> Result<Secret, TokenError> {
        let locked = self.store.lock(&self.upstream, principal).await;
        let _lock = locked.map_err(|error| self.unavailable(&error))?;
        let mut token = StoredToken::clone(&*self.load(principal)?);
        if is_renewed(&token, rejected) {
            return Ok(token.access_token);
        }
        let Some(refresh_token) = token.refresh_token.clone() else {
            return Err(self.login_required(principal, "the token has expired"));
        };
        // The operator may have replaced the secret of the client since the login.
        if self.settings.client_id.as_ref() == Some(&token.client.id) {
            token.client.secret.clone_from(&self.settings.client_secret);
        }
        match refresh(&self.fetcher, &token, &refresh_token).await {
            Ok(Refreshed::Token(new)) => {
                if let Err(error) = self.save(principal, &new).await {
                    warn!(upstream = self.upstream, "a refreshed token cannot be stored: {error}");
                    return Err(self.unavailable(&error));
                }
                info!(upstream = self.upstream, principal, "token refreshed");
                Ok(new.access_token)
            }
            Ok(Refreshed::Revoked) => {
                // Without it, each further call would ask the authorization server again.
                let removed = self.store.remove(&self.upstream, principal);
                removed.map_err(|error| self.unavailable(&error))?;
                Err(self.login_required(principal, "the authorization server ended the login"))
            }
            Err(error) => Err(self.unavailable(&error)),
        }
    }

    /// Stores a token on a blocking thread, because this waits for the disk.
    async fn save(&self, principal: &str, token: &StoredToken) -> Result<()> {
        let (store, upstream) = (Arc::clone(&self.store), self.upstream.clone());
        let (principal, token) = (principal.to_owned(), token.clone());
        let saving = tokio::task::spawn_blocking(move || store.save(&upstream, &principal, &token));
        saving.await.map_err(std::io::Error::other)?
    }

    fn entry(&self, principal: &str) -> Arc<PrincipalTokens> {
        let mut principals = self.principals();
        if let Some(entry) = principals.get(principal) {
            return Arc::clone(entry);
        }
        let entry = Arc::new(PrincipalTokens {
            read: Mutex::default(),
            refreshing: tokio::sync::Mutex::default(),
        });
        principals.insert(principal.into(), Arc::clone(&entry));
        entry
    }

    /// Returns the stored token of a principal. Reads its file again if the file has changed.
    fn load(&self, principal: &str) -> Result<Arc<StoredToken>, TokenError> {
        let path = self.store.path(&self.upstream, principal);
        let Some(stamp) = TokenStore::stamp(&path) else {
            // Principals without a token must not fill the memory.
            self.principals().remove(principal);
            return Err(self.login_required(principal, "no token is stored"));
        };
        let entry = self.entry(principal);
        let mut read = entry.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, token)) = read.as_ref().filter(|(known, _)| *known == stamp) {
            return self.usable(principal, token);
        }
        let loaded = self.store.load(&self.upstream, principal);
        let token = loaded.map_err(|error| {
            warn!(upstream = self.upstream, principal, "{error}");
            TokenError::Unavailable(format!(
                "The stored token for the upstream `{}` cannot be read. The log of the gateway has \
                 the reason.",
                self.upstream
            ))
        })?;
        let Some(token) = token.map(Arc::new) else {
            return Err(self.login_required(principal, "no token is stored"));
        };
        *read = Some((stamp, Arc::clone(&token)));
        self.usable(principal, &token)
    }

    fn usable(
        &self,
        principal: &str,
        token: &Arc<StoredToken>,
    ) -> Result<Arc<StoredToken>, TokenError> {
        if token.url == self.url {
            return Ok(Arc::clone(token));
        }
        Err(self.login_required(principal, "its stored token is for another URL"))
    }

    fn login_required(&self, principal: &str, reason: &str) -> TokenError {
        TokenError::LoginRequired(format!(
            "The upstream `{}` needs a login for the principal `{principal}`: {reason}. Run: {}",
            self.upstream,
            login_command(&self.upstream, principal, &[])
        ))
    }

    fn unavailable(&self, error: &crate::Error) -> TokenError {
        TokenError::Unavailable(format!(
            "The token for the upstream `{}` cannot be refreshed: {error}.",
            self.upstream
        ))
    }
}

/// Returns true if a token differs from the rejected one and is still valid.
fn is_renewed(token: &StoredToken, rejected: &Secret) -> bool {
    token.access_token != *rejected && !token.has_expired()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_quoted() {
        assert_eq!(login_command("a", ANONYMOUS, &[]), "context-guard login a");
        assert_eq!(
            login_command("a", "jwt:x'; rm -rf /\n", &["files:read".to_owned()]),
            "context-guard login a --principal 'jwt:x'\\''; rm -rf / ' --scope files:read"
        );
    }
}
