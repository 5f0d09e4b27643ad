//! The identity of principals in statistics.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use context_guard_cursor_store::scope_principal;
use sha2::{Digest, Sha256};

use super::{Revision, Revisions};
use crate::digest;

/// The principal of calls that the gateway makes itself, for example to list tools at its start.
/// The control character keeps it apart from all others.
pub const GATEWAY_PRINCIPAL: &str = "\u{0}gateway";

/// The maximum number of principals that a window counts, which bounds memory.
pub(super) const MAX_PRINCIPALS: usize = 65_536;

/// A principal as a hash, so that statistics do not store names.
pub(super) type PrincipalHash = u64;

/// Computes hashes of principals. They are keyed: a client cannot choose a name that collides with
/// another one.
#[derive(Debug, Default)]
pub(super) struct PrincipalHasher {
    random: RandomState,
    /// The key of the fleet, whose replicas count principals together, and the secret that it was
    /// derived from.
    shared: ArcSwapOption<(Vec<u8>, String)>,
}

impl PrincipalHasher {
    /// Returns the hash of a principal, or of the principal of a scope. `None` for the gateway
    /// itself, which is no caller.
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

    /// Computes hashes as all replicas with this signing key do.
    pub(super) fn share(&self, secret: &[u8]) {
        if self.shared.load().as_ref().is_none_or(|shared| shared.0 != secret) {
            self.shared.store(Some(Arc::new((secret.to_vec(), principal_key(secret)))));
        }
    }
}

/// Returns the key for hashes of principals that all replicas compute, from a signing key.
fn principal_key(secret: &[u8]) -> String {
    digest(&[b"context-guard principals 1 ", secret].concat())
}

impl Revisions {
    /// Counts a guard call of duration `took` for a principal. It may have failed.
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
