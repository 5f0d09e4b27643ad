//! The keys that the replicas of a fleet derive from their signing keys.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use context_guard_sealing::KeyMaterial;
use tracing::warn;

use super::identity::Identity;

/// The context of the derivation of the keys for session ids and owner tags, so that keys for other
/// purposes differ.
const PURPOSE: &[u8] = b"context-guard fleet ids 1";
/// The interval at which the signing keys are checked for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The keys that are derived from one list of signing keys.
pub(super) struct DerivedKeys {
    secrets: Vec<Vec<u8>>,
    /// The key material for ids. The first one seals. All of them open.
    pub(super) ids: Vec<KeyMaterial>,
    /// The identity of this replica in the fleet. `None` if the derivation failed, which is logged.
    pub(super) identity: Option<Identity>,
}

impl DerivedKeys {
    pub(super) fn derive(secrets: Vec<Vec<u8>>) -> Self {
        let ids = secrets.iter().map(|secret| KeyMaterial::new(PURPOSE, secret)).collect();
        let identity = Identity::derive(&secrets)
            .inspect_err(|error| warn!("replicas cannot reach this one: {error}"));
        Self { secrets, ids, identity: identity.ok() }
    }
}

/// The derived keys, which are updated when the signing keys change.
pub(super) struct FleetKeys {
    secrets: Box<dyn Fn() -> Vec<Vec<u8>> + Send + Sync>,
    current: Mutex<(Arc<DerivedKeys>, Instant)>,
}

impl FleetKeys {
    /// Creates the keys. `secrets` returns the current secrets, of which the first one signs.
    pub(super) fn new(secrets: impl Fn() -> Vec<Vec<u8>> + Send + Sync + 'static) -> Self {
        let derived = Arc::new(DerivedKeys::derive(secrets()));
        Self { secrets: Box::new(secrets), current: Mutex::new((derived, Instant::now())) }
    }

    /// Returns the keys that are derived from the current signing keys. These are checked once in
    /// [`CHECK_INTERVAL`].
    pub(super) fn current(&self) -> Arc<DerivedKeys> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.1.elapsed() >= CHECK_INTERVAL {
            let secrets = (self.secrets)();
            if secrets != current.0.secrets {
                current.0 = Arc::new(DerivedKeys::derive(secrets));
            }
            current.1 = Instant::now();
        }
        Arc::clone(&current.0)
    }
}
