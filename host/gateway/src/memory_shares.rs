//! Memory for values that are retained for many holders, such as the sent events of sessions. Its
//! size is limited in total and for each owner of holders.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bytes of several holders.
#[derive(Default)]
struct Holdings {
    bytes: usize,
    /// The number of holders with at least one byte.
    holders: usize,
}

impl Holdings {
    fn change(&mut self, old: usize, new: usize) {
        self.bytes = self.bytes - old + new;
        self.holders = self.holders - usize::from(old > 0) + usize::from(new > 0);
    }

    /// Returns the number of bytes that one holder may have so that all have at most `max`.
    /// Unlimited as long as they do.
    fn limit(&self, max: usize) -> usize {
        if self.bytes > max { max / self.holders.max(1) } else { usize::MAX }
    }
}

#[derive(Default)]
struct AllHoldings {
    total: Holdings,
    by_owner: HashMap<Arc<str>, Holdings>,
}

/// The limits of bytes in total and for each owner, with the bytes of all holders.
pub(crate) struct MemoryShares {
    max_bytes: usize,
    max_bytes_per_owner: usize,
    used: Mutex<AllHoldings>,
}

/// The bytes of one holder. They count until this value is dropped.
pub(crate) struct MemoryShare {
    shares: Arc<MemoryShares>,
    owner: Arc<str>,
    bytes: usize,
}

impl MemoryShares {
    /// Creates limits of `max_bytes` bytes in total and `max_bytes_per_owner` for each owner.
    pub(crate) fn new(max_bytes: usize, max_bytes_per_owner: usize) -> Arc<Self> {
        Arc::new(Self { max_bytes, max_bytes_per_owner, used: Mutex::default() })
    }

    /// Returns a new holder of `owner`, which has no bytes yet.
    pub(crate) fn holder(self: &Arc<Self>, owner: &Arc<str>) -> MemoryShare {
        MemoryShare { shares: Arc::clone(self), owner: Arc::clone(owner), bytes: 0 }
    }

    fn used(&self) -> MutexGuard<'_, AllHoldings> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryShare {
    /// Sets the bytes of this holder. Returns the number of bytes that it may have: an equal part
    /// of a limit that is exceeded, otherwise any number. O(1).
    ///
    /// The holder should remove what exceeds the number. All holders together then have at most
    /// twice the limit, until those that had more remove it too.
    pub(crate) fn resize(&mut self, bytes: usize) -> usize {
        let mut used = self.shares.used();
        used.total.change(self.bytes, bytes);
        let of_all = used.total.limit(self.shares.max_bytes);
        let own = used.by_owner.entry(Arc::clone(&self.owner)).or_default();
        own.change(self.bytes, bytes);
        let of_owner = own.limit(self.shares.max_bytes_per_owner);
        if own.holders == 0 {
            used.by_owner.remove(&self.owner);
        }
        self.bytes = bytes;
        of_all.min(of_owner)
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceeded_limits_are_divided_among_holders() {
        let shares = MemoryShares::new(1_000, 600);
        let [alice, bob]: [Arc<str>; 2] = ["alice".into(), "bob".into()];
        let (mut first, mut second) = (shares.holder(&alice), shares.holder(&alice));
        let mut third = shares.holder(&bob);
        assert_eq!(first.resize(600), usize::MAX);
        assert_eq!(second.resize(10), 300, "the share of the owner is exceeded");
        assert_eq!(third.resize(390), usize::MAX);
        assert_eq!(third.resize(391), 333, "the total is exceeded");
        assert_eq!(first.resize(0), usize::MAX);
        drop((first, second));
        assert_eq!(third.resize(601), 600);
        drop(third);
        assert!(shares.used().by_owner.is_empty() && shares.used().total.bytes == 0);
    }
}
