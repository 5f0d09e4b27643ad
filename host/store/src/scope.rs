//! Scopes: the owners of stored values. A principal with other credentials than the one that
//! authenticates it has a scope for each of them, but one quota for all.

/// The length of the digest in a scope, in characters.
const DIGEST_CHARS: usize = 16;

/// Returns the scope of a principal with further credentials, of which `digest` is a hexadecimal
/// digest of at least 16 characters.
#[must_use]
pub fn scope(principal: &str, digest: &str) -> String {
    format!("{principal}#{}", digest.get(..DIGEST_CHARS).unwrap_or(digest))
}

/// The principal of callers that nothing authenticates. Their scopes share nothing: each may be
/// another person.
const ANONYMOUS: &str = "anonymous";

/// Returns the principal of a scope, for what all its scopes share: quotas, turns and votes. A
/// client chooses its credentials, and could multiply them otherwise. Scopes of anonymous callers
/// are returned whole.
///
/// ```
/// use context_guard_cursor_store::{scope, scope_principal};
///
/// let scope = scope("key:alice", "0123456789abcdef0123");
/// assert_eq!(scope_principal(&scope), "key:alice");
/// assert_eq!(scope_principal("key:alice"), "key:alice");
/// assert_eq!(scope_principal("anonymous#0123456789abcdef"), "anonymous#0123456789abcdef");
/// ```
#[must_use]
pub fn scope_principal(scope: &str) -> &str {
    let is_digest = |text: &str| {
        text.len() == DIGEST_CHARS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    match scope.rsplit_once('#') {
        Some((principal, digest)) if is_digest(digest) && principal != ANONYMOUS => principal,
        _ => scope,
    }
}
