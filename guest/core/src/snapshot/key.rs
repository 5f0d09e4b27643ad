//! Signing keys, and the names under which things are kept: derived with them, so that nobody can guess another's.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The least length of a secret, in bytes.
pub const MIN_SECRET_BYTES: usize = 16;

/// The live secrets, never empty: the first signs, all verify.
#[derive(Clone)]
pub struct Keys(Vec<Hmac<Sha256>>);

/// Whose answer it is, and of what: what names and cursors are bound to.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The principal.
    pub principal: &'a str,
    /// `upstream::name`.
    pub endpoint: &'a str,
}

impl Keys {
    /// Takes the secrets.
    ///
    /// # Errors
    /// With a sentence, where there is none or one is too short.
    pub fn new<'k>(secrets: impl IntoIterator<Item = &'k [u8]>) -> Result<Self, String> {
        let keys: Result<Vec<_>, String> = secrets
            .into_iter()
            .map(|secret| {
                if secret.len() < MIN_SECRET_BYTES {
                    return Err(format!(
                        "a signing key has {} bytes; at least {MIN_SECRET_BYTES} are needed",
                        secret.len()
                    ));
                }
                Hmac::new_from_slice(secret).map_err(|error| error.to_string())
            })
            .collect();
        match keys? {
            keys if keys.is_empty() => Err("no signing key".to_owned()),
            keys => Ok(Self(keys)),
        }
    }

    /// All of them, the signing one first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Hmac<Sha256>> {
        self.0.iter()
    }

    /// The name of a snapshot: 6 characters of its scope, then 10 of its content, 16 in all. The scope part lets a cursor be checked
    /// against an endpoint without a store; both are keyed, so neither tells anything.
    #[must_use]
    pub fn snapshot(&self, scope: Scope<'_>, arguments: u128, content: u128) -> String {
        let Some(key) = self.0.first() else { return String::new() };
        let mut name = scope_tag(key, scope);
        let parts = [
            scope.principal.as_bytes(),
            scope.endpoint.as_bytes(),
            &arguments.to_le_bytes(),
            &content.to_le_bytes(),
        ];
        name.push_str(&short(key, "snapshot", &parts, 10));
        name
    }

    /// Whether a snapshot belongs to this scope, under any live key.
    #[must_use]
    pub fn owns(&self, scope: Scope<'_>, snapshot: &str) -> bool {
        self.0.iter().any(|key| snapshot.starts_with(&scope_tag(key, scope)))
    }

    /// The names under which the snapshot of the last answer to a call may be noted, the current one first.
    #[must_use]
    pub fn answer(&self, scope: Scope<'_>, arguments: u128) -> Vec<String> {
        let parts =
            [scope.principal.as_bytes(), scope.endpoint.as_bytes(), &arguments.to_le_bytes()];
        self.0.iter().map(|key| short(key, "answer", &parts, 16)).collect()
    }

    /// The names under which facts on a tool may be kept, the current one first.
    #[must_use]
    pub fn tool(&self, scope: Scope<'_>) -> Vec<String> {
        let parts = [scope.principal.as_bytes(), scope.endpoint.as_bytes()];
        self.0.iter().map(|key| short(key, "tool", &parts, 16)).collect()
    }
}

fn scope_tag(key: &Hmac<Sha256>, scope: Scope<'_>) -> String {
    short(key, "scope", &[scope.principal.as_bytes(), scope.endpoint.as_bytes()], 6)
}

/// A keyed name of `length` characters, 6 bits each. Parts are prefixed with their length: no two lists of parts run together.
fn short(key: &Hmac<Sha256>, purpose: &str, parts: &[&[u8]], length: usize) -> String {
    let mut mac = key.clone();
    for part in [&[purpose.as_bytes()], parts].concat() {
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part);
    }
    let mut name = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    name.truncate(length);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_by_all_that_they_are_derived_from() {
        let keys = Keys::new([b"0123456789abcdef".as_slice()]).unwrap();
        let other = Keys::new([b"fedcba9876543210".as_slice()]).unwrap();
        let scope = |principal, endpoint| Scope { principal, endpoint };
        let names = [
            keys.snapshot(scope("a", "b"), 1, 1),
            keys.snapshot(scope("ab", ""), 1, 1),
            keys.snapshot(scope("a", "c"), 1, 1),
            keys.snapshot(scope("a", "b"), 2, 1),
            keys.snapshot(scope("a", "b"), 1, 2),
            other.snapshot(scope("a", "b"), 1, 1),
        ];
        for (at, name) in names.iter().enumerate() {
            assert_eq!(name.len(), 16);
            assert!(names.iter().skip(at + 1).all(|other| other != name));
        }
        assert!(keys.owns(scope("a", "b"), &names[0]) && !keys.owns(scope("a", "c"), &names[0]));
    }

    #[test]
    fn short_secrets_are_refused() {
        assert!(Keys::new([b"short".as_slice()]).is_err());
        assert!(Keys::new([]).is_err());
    }
}
