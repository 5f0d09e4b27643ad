//! The rate limits of the fleet, which are counted in the shared store.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::access::{GrantFuture, RateGrant, RateRequest, SharedRates};
use crate::store::CursorStore;

/// The maximum time that a request waits for the store.
const PATIENCE: Duration = Duration::from_millis(50);

/// Counts the requests of all replicas in the shared store.
pub(super) struct StoredRates(pub(super) Arc<dyn CursorStore>);

impl SharedRates for StoredRates {
    fn take(&self, request: RateRequest) -> GrantFuture {
        let store = Arc::clone(&self.0);
        Box::pin(async move {
            if !store.is_up() {
                return None;
            }
            let taken = tokio::task::spawn_blocking(move || {
                let RateRequest { key, interval, tolerance, count, unspent } = request;
                store.take(&key, interval, tolerance, count, unspent)
            });
            let grant = timeout(PATIENCE, taken).await.ok()?.ok()?.ok()?;
            Some(RateGrant { granted: grant.granted, wait: grant.wait })
        })
    }
}
