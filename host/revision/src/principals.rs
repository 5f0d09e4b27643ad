//! Identifies principals in statistics by hashes.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use context_guard_cursor_store::scope_principal;
use sha2::{Digest, Sha256};

use super::{Revision, Revisions};
use crate::digest;

/// The principal of calls that the gateway makes itself, for example to list tools at its start.
/// The control character distinguishes it from all other principals.
pub const GATEWAY_PRINCIPAL: &str = "\u{0}gateway";

/// The maximum number of principals that each of the two time spans of a window counts. It bounds
/// memory.
pub(super) const MAX_PRINCIPALS: usize = 65_536;

/// The hash of a principal. Statistics store hashes instead of names.
pub(super) type PrincipalHash = u64;

/// Computes hashes of principals. They are keyed, so that a client cannot choose a name that
/// collides with another one.
#[derive(Debug, Default)]
pub(super) struct PrincipalHasher {
    random: RandomState,
    /// The signing key of the fleet, and the hash key that was derived from it. Unset without a
    /// fleet, whose replicas count principals together.
    shared: ArcSwapOption<(Vec<u8>, String)>,
}

impl PrincipalHasher {
    /// Returns the hash of `principal`, which may be a scope: then only its principal counts.
    /// `None` for the gateway itself, which is not a caller.
    pub(super) fn hash(&self, principal: &str) -> Option<PrincipalHash> {
        if principal == GATEWAY_PRINCIPAL {
            return None;
        }
        let principal = scope_principal(principal);
        let Some(shared) = &*self.shared.load() else {
            return Some(self.random.hash_one(principal));
        };
        let mut hash = Sha256::new();
        hash.update(&shared.1);
        hash.update(principal);
        hash.finalize().first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// Sets the hash key that all replicas with this signing key use.
    pub(super) fn share(&self, secret: &[u8]) {
        if self.shared.load().as_ref().is_none_or(|shared| shared.0 != secret) {
            self.shared.store(Some(Arc::new((secret.to_vec(), principal_key(secret)))));
        }
    }
}

/// Derives the hash key that all replicas use from a signing key.
fn principal_key(secret: &[u8]) -> String {
    digest(&[b"context-guard principals 1 ", secret].concat())
}

impl Revisions {
    /// Counts a guard call of duration `took` for a principal. `failed` is true if the call failed.
    pub fn called(&self, revision: &Revision, principal: &str, took: Duration, failed: bool) {
        revision.stats.called(self.principals.hash(principal), took, failed, self.window());
    }

    /// Returns the time for which calls and failures count towards a rollback.
    pub(super) fn window(&self) -> Duration {
        Duration::from_secs(self.options.limits.window_seconds)
    }
}

#[cfg(test)]
mod tests {
    use context_guard_cursor_store::scope;

    use super::*;

    #[test]
    fn principals_have_distinct_hashes() {
        let hasher = PrincipalHasher::default();
        assert_eq!(hasher.hash("alice"), hasher.hash("alice"));
        assert_ne!(hasher.hash("alice"), hasher.hash("bob"));
        assert_eq!(hasher.hash(GATEWAY_PRINCIPAL), None);
        // A client has one vote, whatever credentials it chooses for the upstream.
        assert_eq!(hasher.hash("alice"), hasher.hash(&scope("alice", "0123456789abcdef")));
        let other = PrincipalHasher::default();
        hasher.share(b"secret");
        other.share(b"secret");
        assert_eq!(hasher.hash("alice"), other.hash("alice"));
        other.share(b"another secret");
        assert_ne!(hasher.hash("alice"), other.hash("alice"));
    }
}
