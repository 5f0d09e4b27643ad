//! The current signing keys, and removed keys whose cursors have not expired.

use serde_json::{Value, json};
use tracing::warn;

use super::digest;
use crate::engine::{HostServices, SigningKey};

/// The signing keys of all revisions.
pub(super) struct KeyRing {
    /// The configured keys. The first one signs.
    configured: Vec<SigningKey>,
    /// Keys that signed earlier, each with the time at which it stopped signing, in milliseconds
    /// since 1970.
    stopped: Vec<(SigningKey, u64)>,
    /// Removed keys that still verify cursors, each with the time at which its last cursor expires,
    /// in milliseconds since 1970.
    dropped: Vec<(SigningKey, u64)>,
}

impl KeyRing {
    pub(super) fn new(configured: Vec<SigningKey>) -> Self {
        Self { configured, stopped: Vec::new(), dropped: Vec::new() }
    }

    pub(super) fn configured(&self) -> &[SigningKey] {
        &self.configured
    }

    /// Returns all keys that verify cursors. The first one signs.
    pub(super) fn verifying(&self) -> Vec<SigningKey> {
        let dropped = self.dropped.iter().map(|(key, _)| key);
        self.configured.iter().chain(dropped).cloned().collect()
    }

    /// Gives the store the keys that verify cursors, for the protection of its values outside of
    /// this process. Returns these keys.
    pub(super) fn protect(&self, services: &HostServices) -> Vec<SigningKey> {
        let keys = self.verifying();
        let secrets: Vec<&[u8]> = keys.iter().map(|key| key.secret.as_slice()).collect();
        services.store.rekey(&secrets);
        keys
    }

    /// Replaces the configured keys at the time `now`. Removed keys verify cursors until `lifetime`
    /// has passed since they stopped signing. With `None`, they become invalid at once, and so does
    /// a key that never signed in this process.
    ///
    /// Returns true if the verifying keys or their order have changed. All times are in
    /// milliseconds, `now` since 1970.
    pub(super) fn replace(&mut self, keys: &[SigningKey], lifetime: Option<u64>, now: u64) -> bool {
        let before = self.verifying();
        if let Some(signer) = self.configured.first()
            && keys.first().is_none_or(|key| key.secret != signer.secret)
        {
            self.stopped.retain(|(key, _)| key.secret != signer.secret);
            self.stopped.push((signer.clone(), now));
        }
        let lifetime = lifetime.unwrap_or_default();
        self.stopped.retain(|(_, stopped)| stopped.saturating_add(lifetime) > now);
        let is_removed = |key: &SigningKey| keys.iter().all(|kept| kept.secret != key.secret);
        self.dropped = self
            .stopped
            .iter()
            .filter(|(key, _)| is_removed(key))
            .map(|(key, stopped)| (key.clone(), stopped.saturating_add(lifetime)))
            .collect();
        for (key, until) in &self.dropped {
            if self.configured.iter().any(|configured| configured.secret == key.secret) {
                warn!(
                    key = short(key),
                    "a signing key was removed that signed until {} s ago: it verifies for {} s more, until its cursors have expired; set keepDroppedKeys to false to revoke it",
                    now.saturating_sub(until.saturating_sub(lifetime)) / 1_000,
                    until.saturating_sub(now) / 1_000
                );
            }
        }
        self.configured = keys.to_vec();
        before != self.verifying()
    }

    /// Drops removed keys whose last cursor has expired. `now` is the time in milliseconds since
    /// 1970. Returns true if a key was dropped.
    pub(super) fn expire(&mut self, now: u64) -> bool {
        let before = self.dropped.len();
        self.dropped.retain(|(_, until)| *until > now);
        before != self.dropped.len()
    }

    pub(super) fn dropped_json(&self) -> Value {
        let dropped = self.dropped.iter();
        dropped.map(|(key, until)| json!({"key": short(key), "until": until})).collect()
    }
}

/// Returns the first eight digits of a key's digest, which identify the key in reports.
pub(super) fn short(key: &SigningKey) -> String {
    digest(&key.secret).chars().take(8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(secrets: &[&str]) -> Vec<SigningKey> {
        let key = |(at, secret): (usize, &&str)| SigningKey {
            id: at.to_string(),
            secret: secret.as_bytes().to_vec(),
        };
        secrets.iter().enumerate().map(key).collect()
    }

    fn secrets(ring: &KeyRing) -> Vec<String> {
        let secret = |key: SigningKey| String::from_utf8(key.secret).unwrap();
        ring.verifying().into_iter().map(secret).collect()
    }

    #[test]
    fn dropped_key_verifies_until_its_cursors_expire() {
        let mut ring = KeyRing::new(keys(&["a"]));
        assert!(ring.replace(&keys(&["b", "a"]), Some(600), 1_000));
        assert!(ring.replace(&keys(&["b"]), Some(600), 1_100));
        assert_eq!(secrets(&ring), ["b", "a"]);
        // A second rotation keeps both: `a` stopped at 1,000 and `b` at 1,200.
        assert!(ring.replace(&keys(&["c"]), Some(600), 1_200));
        assert_eq!(secrets(&ring), ["c", "a", "b"]);
        assert!(!ring.expire(1_599));
        assert!(ring.expire(1_600));
        assert_eq!(secrets(&ring), ["c", "b"]);
        assert!(!ring.replace(&keys(&["c"]), Some(600), 1_700), "nothing changed");
        assert!(ring.expire(1_800) && secrets(&ring) == ["c"]);
    }

    #[test]
    fn old_key_is_dropped_at_once() {
        let mut ring = KeyRing::new(keys(&["a"]));
        ring.replace(&keys(&["b", "a"]), Some(600), 1_000);
        ring.replace(&keys(&["b"]), Some(600), 1_600);
        assert_eq!(secrets(&ring), ["b"]);
        // A key that never signed has no cursors.
        ring.replace(&keys(&["b", "x"]), Some(600), 1_700);
        ring.replace(&keys(&["b"]), Some(600), 1_700);
        assert_eq!(secrets(&ring), ["b"]);
    }

    #[test]
    fn revoked_key_is_dropped_at_once() {
        let mut ring = KeyRing::new(keys(&["a"]));
        ring.replace(&keys(&["b"]), Some(600), 1_000);
        assert_eq!(secrets(&ring), ["b", "a"]);
        assert!(ring.replace(&keys(&["b"]), None, 1_001), "the setting changed");
        assert_eq!(secrets(&ring), ["b"]);
    }
}
