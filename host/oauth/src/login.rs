//! Logs a principal in at an upstream, and stores the token.

use context_guard_access::HttpClient;

use crate::code_flow::OFFLINE_ACCESS;
use crate::discovery::{Discovered, discover};
use crate::fetch::Fetcher;
use crate::login_options::{LoginOptions, Progress};
use crate::store::TokenStore;
use crate::stored_token::StoredToken;
use crate::{Result, code_flow, device_flow};

/// The result of a login.
#[derive(Clone, Debug)]
pub struct LoginReport {
    /// The issuer of the token.
    pub issuer: String,
    /// The granted scopes.
    pub scopes: Vec<String>,
    /// True if the gateway can refresh the token.
    pub can_refresh: bool,
}

/// Logs a principal in at an upstream, and stores the token.
///
/// # Errors
/// A server cannot be reached, its metadata do not permit a login, the user or the server refuses,
/// or the token cannot be stored.
pub async fn login(
    client: HttpClient,
    store: &TokenStore,
    options: &LoginOptions<'_>,
) -> Result<LoginReport> {
    // A file that cannot be read is reported before the user logs in.
    let former = store.load(options.upstream, options.principal)?;
    let fetcher = Fetcher::new(client);
    let found = discover(&fetcher, options.url, options.settings).await?;
    (options.progress)(Progress::Found(&found.server.issuer));
    let former = former.filter(|token| token.issuer == found.server.issuer);
    let scopes = wanted_scopes(&found, options, former.as_ref());
    let needs_device = options.device || found.server.authorization_endpoint.is_none();
    let (credentials, token) = if needs_device {
        device_flow::run(&fetcher, &found, options, &scopes).await?
    } else {
        code_flow::run(&fetcher, &found, options, &scopes).await?
    };
    let mut stored = StoredToken {
        url: options.url.to_owned(),
        resource: found.resource,
        issuer: found.server.issuer,
        token_endpoint: found.server.token_endpoint,
        client: credentials,
        access_token: context_guard_config::Secret::default(),
        refresh_token: None,
        expires_at: None,
        scopes,
    };
    token.apply(&mut stored);
    let _lock = store.lock(options.upstream, options.principal).await?;
    store.save(options.upstream, options.principal, &stored)?;
    Ok(LoginReport {
        can_refresh: stored.refresh_token.is_some(),
        issuer: stored.issuer,
        scopes: stored.scopes,
    })
}

/// Returns the scopes to request: those of the settings or, if empty, those that the upstream
/// proposes. Adds those of the options and of the former token, and `offline_access` if the server
/// supports it.
fn wanted_scopes(
    found: &Discovered,
    options: &LoginOptions<'_>,
    former: Option<&StoredToken>,
) -> Vec<String> {
    let configured = &options.settings.scopes;
    let first = if configured.is_empty() { &found.scopes } else { configured };
    let mut scopes = Vec::new();
    let former = former.map_or(&[][..], |token| &token.scopes);
    for scope in first.iter().chain(options.scopes).chain(former) {
        if !scopes.contains(scope) {
            scopes.push(scope.clone());
        }
    }
    let offers_offline = found.server.scopes_supported.iter().any(|scope| scope == OFFLINE_ACCESS);
    if offers_offline && !scopes.iter().any(|scope| scope == OFFLINE_ACCESS) {
        scopes.push(OFFLINE_ACCESS.to_owned());
    }
    scopes
}
