//! The OAuth tokens that an upstream receives instead of the client's credentials.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};

use super::Failure;
use crate::config::Secret;
use crate::oauth::{Challenge, TokenError, UpstreamTokens, login_command};

impl From<TokenError> for Failure {
    fn from(error: TokenError) -> Self {
        // It concerns one principal: the circuit breaker must not count it.
        Self::Refused(error.to_string())
    }
}

/// Returns the OAuth token of a principal. `None` if the upstream needs no token.
///
/// # Errors
/// [`Failure::Refused`] if the principal has no valid token.
pub(super) async fn token(
    tokens: Option<&Arc<UpstreamTokens>>,
    principal: &str,
) -> Result<Option<Secret>, Failure> {
    match tokens {
        Some(tokens) => Ok(Some(tokens.access_token(principal).await?)),
        None => Ok(None),
    }
}

/// Returns the failure for a response that refuses the token of a principal. `None` if the response
/// does not concern the token. The client does not receive the challenge, because it concerns
/// another token than the client's.
pub(super) fn refusal(
    upstream: &str,
    principal: &str,
    status: StatusCode,
    headers: &HeaderMap,
) -> Option<Failure> {
    let challenge = Challenge::parse(headers).unwrap_or_default();
    let needs_scope = challenge.error.as_deref() == Some("insufficient_scope");
    let reason = match status {
        StatusCode::UNAUTHORIZED => "refuses the token of".to_owned(),
        StatusCode::FORBIDDEN if needs_scope => {
            format!("needs {} of", scopes_text(&challenge.scopes))
        }
        _ => return None,
    };
    let scopes = if needs_scope { challenge.scopes.as_slice() } else { &[] };
    Some(Failure::Refused(format!(
        "The upstream `{upstream}` {reason} the principal `{principal}`. Run: {}",
        login_command(upstream, principal, scopes)
    )))
}

/// Describes the parts of a challenge that tell the client which token it needs, as the end of a
/// sentence. Empty without a challenge.
pub(super) fn describe_challenge(headers: &HeaderMap) -> String {
    let Some(challenge) = Challenge::parse(headers) else { return String::new() };
    match challenge.error.as_deref() {
        Some("insufficient_scope") => {
            format!(": insufficient_scope, the token needs {}", scopes_text(&challenge.scopes))
        }
        Some("invalid_token") => ": invalid_token".to_owned(),
        _ => String::new(),
    }
}

fn scopes_text(scopes: &[String]) -> String {
    match scopes {
        [] => "more scopes".to_owned(),
        scopes => format!("the scope `{}`", scopes.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_scopes_name_the_command() {
        let mut headers = HeaderMap::new();
        let challenge = r#"Bearer error="insufficient_scope", scope="read write""#;
        headers.insert(http::header::WWW_AUTHENTICATE, challenge.parse().unwrap());
        let failure = refusal("files", "key:a", StatusCode::FORBIDDEN, &headers);
        assert_eq!(
            failure.unwrap().to_string(),
            "The upstream `files` needs the scope `read write` of the principal `key:a`. Run: \
             context-guard login files --principal key:a --scope read --scope write"
        );
        assert!(refusal("files", "key:a", StatusCode::OK, &headers).is_none());
        assert!(refusal("files", "key:a", StatusCode::FORBIDDEN, &HeaderMap::new()).is_none());
        assert_eq!(
            describe_challenge(&headers),
            ": insufficient_scope, the token needs the scope `read write`"
        );
    }
}
