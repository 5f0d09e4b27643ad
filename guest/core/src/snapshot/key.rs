//! Signing keys, and the names of stored entries. Names are keyed digests, so a caller cannot guess
//! those of other callers.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Minimum length of a signing secret in bytes.
pub const MIN_SECRET_BYTES: usize = 16;

/// Length of a snapshot name in characters.
const SNAPSHOT_NAME_LENGTH: usize = SCOPE_TAG_LENGTH + 8;
/// Length, in characters, of the part of a snapshot name that is derived from the scope.
const SCOPE_TAG_LENGTH: usize = 4;
/// Length of the names of other store entries, in characters.
const ENTRY_NAME_LENGTH: usize = 16;
/// The first character of keys of facts about servers. Hosts retain such facts when a shared store
/// loses them.
const FACT_SIGN: char = '~';

/// Returns true if the key of a store entry is the name of a snapshot. The keys of all other
/// entries are longer.
#[must_use]
pub fn is_snapshot_name(key: &str) -> bool {
    key.len() == SNAPSHOT_NAME_LENGTH
}

/// The valid signing keys. The first one signs, and all verify. Never empty.
#[derive(Clone)]
pub struct Keys(Vec<Hmac<Sha256>>);

/// The principal and the endpoint to which snapshot names and cursors are bound.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The identity of the caller.
    pub principal: &'a str,
    /// The full name of the tool or resource: `upstream::name`.
    pub endpoint: &'a str,
}

impl Keys {
    /// Creates signing keys from secrets, the current one first.
    ///
    /// # Errors
    /// Returns a message if there is no secret, or one is too short.
    pub fn new<'k>(secrets: impl IntoIterator<Item = &'k [u8]>) -> Result<Self, String> {
        let keys: Result<Vec<_>, String> = secrets
            .into_iter()
            .map(|secret| {
                if secret.len() < MIN_SECRET_BYTES {
                    return Err(format!(
                        "invalid signing key: it has {} bytes, at least {MIN_SECRET_BYTES} are required",
                        secret.len()
                    ));
                }
                Hmac::new_from_slice(secret).map_err(|error| error.to_string())
            })
            .collect();
        match keys? {
            keys if keys.is_empty() => Err("no signing key: configure at least one".to_owned()),
            keys => Ok(Self(keys)),
        }
    }

    /// Returns all keys, first the one that signs.
    pub(super) fn all(&self) -> impl Iterator<Item = &Hmac<Sha256>> {
        self.0.iter()
    }

    /// Returns the name of a snapshot: 4 characters derived from its scope, then 8 from its
    /// content. Names are short because each cursor contains one. The first part proves the scope
    /// without access to the store. Both parts are keyed, so that they reveal nothing. `arguments`
    /// and `content` are hashes of the call's arguments and of the payload.
    #[must_use]
    pub fn snapshot(&self, scope: Scope<'_>, arguments: u128, content: u128) -> String {
        let key = self.0.first();
        key.map(|key| snapshot_name(key, scope, arguments, content)).unwrap_or_default()
    }

    /// Returns true if a snapshot name was derived from this scope, these arguments and this
    /// content with any valid key.
    #[must_use]
    pub fn names(&self, scope: Scope<'_>, arguments: u128, content: u128, snapshot: &str) -> bool {
        self.0.iter().any(|key| snapshot_name(key, scope, arguments, content) == snapshot)
    }

    /// Returns true if a snapshot name was derived from this scope with any valid key.
    #[must_use]
    pub fn owns(&self, scope: Scope<'_>, snapshot: &str) -> bool {
        self.0.iter().any(|key| snapshot.starts_with(&scope_tag(key, scope)))
    }

    /// Returns the store keys for the snapshot name of a call's last answer. There is one for each
    /// signing key, the current key first. `arguments` is a hash of the call's arguments.
    #[must_use]
    pub fn answer(&self, scope: Scope<'_>, arguments: u128) -> Vec<String> {
        let parts =
            [scope.principal.as_bytes(), scope.endpoint.as_bytes(), &arguments.to_le_bytes()];
        self.0.iter().map(|key| derive_name(key, "answer", &parts, ENTRY_NAME_LENGTH)).collect()
    }

    /// Returns the store keys for the information about a tool. There is one for each signing key,
    /// the current key first. They begin with `~`.
    #[must_use]
    pub fn tool(&self, scope: Scope<'_>) -> Vec<String> {
        let parts = [scope.principal.as_bytes(), scope.endpoint.as_bytes()];
        let name = |key| derive_name(key, "tool", &parts, ENTRY_NAME_LENGTH);
        self.0.iter().map(|key| format!("{FACT_SIGN}{}", name(key))).collect()
    }

    /// Returns the store keys of a part of a tool catalogue: `index`, or a block of definitions.
    /// There is one for each signing key, the current key first. `settings` is a hash of the
    /// settings under which the catalogue was compiled.
    #[must_use]
    pub fn catalogue(&self, version: &str, settings: u128, part: &str) -> Vec<String> {
        let parts = [version.as_bytes(), &settings.to_le_bytes(), part.as_bytes()];
        self.0.iter().map(|key| derive_name(key, "catalogue", &parts, ENTRY_NAME_LENGTH)).collect()
    }
}

fn snapshot_name(key: &Hmac<Sha256>, scope: Scope<'_>, arguments: u128, content: u128) -> String {
    let parts = [
        scope.principal.as_bytes(),
        scope.endpoint.as_bytes(),
        &arguments.to_le_bytes(),
        &content.to_le_bytes(),
    ];
    let length = SNAPSHOT_NAME_LENGTH - SCOPE_TAG_LENGTH;
    scope_tag(key, scope) + &derive_name(key, "snapshot", &parts, length)
}

fn scope_tag(key: &Hmac<Sha256>, scope: Scope<'_>) -> String {
    derive_name(
        key,
        "scope",
        &[scope.principal.as_bytes(), scope.endpoint.as_bytes()],
        SCOPE_TAG_LENGTH,
    )
}

/// Derives a name of `length` characters of 6 bits each from `parts`. Includes the length of each
/// part, so that different lists never give the same input.
fn derive_name(key: &Hmac<Sha256>, purpose: &str, parts: &[&[u8]], length: usize) -> String {
    let mut mac = key.clone();
    for part in [&[purpose.as_bytes()], parts].concat() {
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part);
    }
    let mut name = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    name.truncate(length);
    name
}

/// Feeds the principal and the encoded cursor to a MAC. The length of the principal precedes it, so
/// that different pairs never give the same input.
pub(super) fn feed(mac: &mut impl Mac, principal: &str, payload: &[u8]) {
    mac.update(b"cursor");
    mac.update(&(principal.len() as u64).to_le_bytes());
    mac.update(principal.as_bytes());
    mac.update(payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_depend_on_every_input() {
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
            assert_eq!(name.len(), 12);
            assert!(is_snapshot_name(name));
            assert!(names.iter().skip(at + 1).all(|other| other != name));
        }
        let others = [keys.answer(scope("a", "b"), 1), keys.tool(scope("a", "b"))];
        assert!(others.iter().flatten().all(|name| !is_snapshot_name(name)));
        assert!(keys.names(scope("a", "b"), 1, 1, &names[0]));
        assert!(!keys.names(scope("a", "b"), 2, 1, &names[0]));
        assert!(keys.owns(scope("a", "b"), &names[0]) && !keys.owns(scope("a", "c"), &names[0]));
    }

    #[test]
    fn short_secrets_are_rejected() {
        assert!(Keys::new([b"short".as_slice()]).is_err());
        assert!(Keys::new([]).is_err());
    }
}
