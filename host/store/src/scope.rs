//! Scopes: the owners of stored values. A principal has a separate scope for each set of
//! credentials other than those that authenticate it. All its scopes share one quota.

use std::borrow::Cow;

/// The length of the digest in a scope, in characters.
const DIGEST_CHARS: usize = 16;

/// Returns the scope of a principal with further credentials. `digest` is a hexadecimal digest of
/// them, of at least 16 characters.
#[must_use]
pub fn scope(principal: &str, digest: &str) -> String {
    let digest = digest.get(..DIGEST_CHARS).unwrap_or(digest);
    format!("{}#{digest}", own_scope(principal))
}

/// Returns the scope of a principal without further credentials. It is the name, with a `#` at its
/// end if another principal with credentials could have such a scope.
///
/// ```
/// use context_guard_cursor_store::{own_scope, scope_principal};
///
/// assert_eq!(own_scope("key:alice"), "key:alice");
/// let odd = own_scope("key:alice#0123456789abcdef");
/// assert_eq!(odd, "key:alice#0123456789abcdef#");
/// assert_eq!(scope_principal(&odd), odd);
/// ```
#[must_use]
pub fn own_scope(principal: &str) -> Cow<'_, str> {
    // Names that end so already get a further one, so that no two principals have the same scope.
    match split(principal.trim_end_matches('#')) {
        Some(_) => format!("{principal}#").into(),
        None => principal.into(),
    }
}

/// The principal of callers that nothing authenticates. Its scopes share nothing, because each may
/// be another person.
const ANONYMOUS: &str = "anonymous";

/// Returns the principal of a scope, for what all its scopes share: quotas, permits and votes. A
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
    match split(scope) {
        Some(principal) if principal != ANONYMOUS => principal,
        _ => scope,
    }
}

/// Returns the part of a scope before the digest of credentials. `None` if the scope has no such
/// digest.
fn split(scope: &str) -> Option<&str> {
    let (principal, digest) = scope.rsplit_once('#')?;
    let is_digest =
        digest.len() == DIGEST_CHARS && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digest.then_some(principal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_mistaken_for_scopes() {
        let digest = "0123456789abcdef";
        let names = ["a", "a#", "a#0123456789abcdef", "a#0123456789abcdef#", "a##0123456789ABCDEF"];
        let mut scopes: Vec<String> = Vec::new();
        for name in names {
            let own = own_scope(name);
            assert_eq!(scope_principal(&own), own);
            assert_eq!(scope_principal(&scope(name, digest)), own, "one quota for {name}");
            scopes.extend([own.to_string(), scope(name, digest)]);
        }
        let number = scopes.len();
        scopes.sort_unstable();
        scopes.dedup();
        assert_eq!(scopes.len(), number, "{scopes:?}");
    }
}
