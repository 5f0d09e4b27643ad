//! Rate limits that apply to all replicas of a gateway together. A replica leases a number of
//! requests from a shared store, and admits them without asking the store.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;

/// The divisor of a burst that gives the requests which all replicas together lease at once: one
/// tenth.
const LEASES_PER_BURST: u32 = 10;
/// The time after which the unspent requests of a lease are returned.
const LEASE_TIME: Duration = Duration::from_secs(1);
/// The maximum number of callers that have a lease.
const MAX_LEASES: usize = 65_536;

/// A number of requests of a caller that a shared store is asked to admit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateRequest {
    /// The name of the caller in the store.
    pub key: String,
    /// The time between two requests at the configured rate.
    pub interval: Duration,
    /// The maximum time by which the theoretical arrival time (GCRA) may be ahead of the clock.
    pub tolerance: Duration,
    /// The number of requests.
    pub count: u32,
    /// The number of requests that were admitted earlier but not sent. They are returned first.
    pub unspent: u32,
}

/// The answer of a shared store to a [`RateRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateGrant {
    /// The number of admitted requests, from 0 to all.
    pub granted: u32,
    /// The time until the next request is admitted. Zero if all were admitted.
    pub wait: Duration,
}

/// The future of a [`RateGrant`]. `None` if the store does not answer in time.
pub type GrantFuture = Pin<Box<dyn Future<Output = Option<RateGrant>> + Send>>;

/// A store that counts the requests of all replicas.
pub trait SharedRates: Send + Sync {
    /// Admits as many requests of a caller as the limit allows.
    fn take(&self, request: RateRequest) -> GrantFuture;
}

/// The decision about requests of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseDecision {
    Admitted,
    /// Refused, with the time until the next request is admitted.
    Refused(Duration),
    /// The store does not answer.
    Unknown,
}

#[derive(Default)]
struct Lease {
    /// The number of requests that may be admitted without asking the store.
    left: u32,
    /// The time at which the remaining requests are returned. `None` if there are none.
    until: Option<Instant>,
    /// The time before which the store admits no requests. `None` if it may admit some.
    refused_until: Option<Instant>,
    /// True while the next lease is requested.
    is_renewing: bool,
}

/// The leases of all callers.
pub(super) struct Leases {
    store: Arc<dyn SharedRates>,
    interval: Duration,
    tolerance: Duration,
    /// The number of requests of one lease.
    size: u32,
    leases: Arc<Mutex<LruCache<String, Lease>>>,
}

impl Leases {
    /// Creates an empty table. `interval` is the time between two requests at the configured rate,
    /// and `burst` the maximum number at once.
    pub(super) fn new(
        store: Arc<dyn SharedRates>,
        interval: Duration,
        burst: u32,
        replicas: u32,
    ) -> Self {
        Self {
            store,
            interval,
            tolerance: interval.saturating_mul(burst.saturating_sub(1)),
            size: (burst / LEASES_PER_BURST / replicas.max(1)).max(1),
            leases: Arc::new(Mutex::new(LruCache::unbounded())),
        }
    }

    fn request(&self, key: &str, count: u32) -> RateRequest {
        let (interval, tolerance) = (self.interval, self.tolerance);
        RateRequest { key: key.to_owned(), interval, tolerance, count, unspent: 0 }
    }

    /// Schedules the return of a caller's unspent requests at the end of the lease, so that other
    /// replicas can admit them.
    fn expire(&self, key: &str) {
        let (store, leases) = (Arc::clone(&self.store), Arc::clone(&self.leases));
        give_back(store, leases, self.request(key, 0));
    }

    /// Counts requests of a caller, or refuses all of them.
    pub(super) async fn check(&self, key: &str, requests: u32) -> LeaseDecision {
        let missing = {
            let mut leases = lock(&self.leases);
            let lease = leases.get_or_insert_mut(key.to_owned(), Lease::default);
            let now = Instant::now();
            if let Some(left) = lease.left.checked_sub(requests) {
                lease.left = left;
                if left < self.size / 2 && !lease.is_renewing && lease.refused_until.is_none() {
                    lease.is_renewing = true;
                    self.renew(key);
                }
                return LeaseDecision::Admitted;
            }
            if let Some(until) = lease.refused_until.filter(|until| *until > now) {
                return LeaseDecision::Refused(until - now);
            }
            lease.refused_until = None;
            let missing = requests - lease.left;
            // The least recently used caller is the one that least needs its lease.
            if leases.len() > MAX_LEASES {
                leases.pop_lru();
            }
            missing
        };
        let grant = self.store.take(self.request(key, missing.max(self.size))).await;
        let Some(grant) = grant else { return LeaseDecision::Unknown };
        let mut leases = lock(&self.leases);
        let lease = leases.get_or_insert_mut(key.to_owned(), Lease::default);
        if lease.add(grant) {
            self.expire(key);
        }
        match lease.left.checked_sub(requests) {
            Some(left) => {
                lease.left = left;
                LeaseDecision::Admitted
            }
            None => LeaseDecision::Refused(grant.wait),
        }
    }

    /// Requests the next lease in the background.
    fn renew(&self, key: &str) {
        let taken = self.store.take(self.request(key, self.size));
        let (store, leases) = (Arc::clone(&self.store), Arc::clone(&self.leases));
        let expiry = self.request(key, 0);
        tokio::spawn(async move {
            let grant = taken.await;
            let is_first = {
                let mut leases = lock(&leases);
                let lease = leases.get_or_insert_mut(expiry.key.clone(), Lease::default);
                lease.is_renewing = false;
                grant.is_some_and(|grant| lease.add(grant))
            };
            if is_first {
                give_back(store, leases, expiry);
            }
        });
    }
}

/// Waits until a lease ends, and returns its unspent requests. `request` identifies the caller.
fn give_back(
    store: Arc<dyn SharedRates>,
    leases: Arc<Mutex<LruCache<String, Lease>>>,
    request: RateRequest,
) {
    tokio::spawn(async move {
        loop {
            let until = lock(&leases).peek(&request.key).and_then(|lease| lease.until);
            let Some(until) = until else { return };
            tokio::time::sleep_until(until.into()).await;
            let unspent = {
                let mut leases = lock(&leases);
                let Some(lease) = leases.peek_mut(&request.key) else { return };
                // A lease that was renewed meanwhile lasts longer.
                if lease.until.is_some_and(|until| until > Instant::now()) {
                    continue;
                }
                lease.until = None;
                std::mem::take(&mut lease.left)
            };
            if unspent > 0 {
                store.take(RateRequest { unspent, ..request }).await;
            }
            return;
        }
    });
}

impl Lease {
    /// Adds the requests that the store admitted. Returns true if the end of the lease must be
    /// scheduled.
    fn add(&mut self, grant: RateGrant) -> bool {
        let now = Instant::now();
        self.left = self.left.saturating_add(grant.granted);
        self.refused_until = (!grant.wait.is_zero()).then(|| now + grant.wait);
        grant.granted > 0 && self.until.replace(now + LEASE_TIME).is_none()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::atomic::{AtomicU32, Ordering};

    /// The maximum time until an awaited event. It only bounds a test that hangs.
    const HANG_LIMIT: Duration = Duration::from_secs(180);

    /// A store with a number of requests left, which counts how often it was asked.
    #[derive(Default)]
    struct Budget {
        left: Mutex<u32>,
        asked: AtomicU32,
    }

    impl SharedRates for Budget {
        fn take(&self, request: RateRequest) -> GrantFuture {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let mut left = lock(&self.left);
            *left += request.unspent;
            let granted = request.count.min(*left);
            *left -= granted;
            let refused = granted < request.count;
            let wait = if refused { Duration::from_secs(60) } else { Duration::ZERO };
            Box::pin(std::future::ready(Some(RateGrant { granted, wait })))
        }
    }

    async fn admitted(leases: &Leases, attempts: u32) -> u32 {
        let mut count = 0;
        for _ in 0..attempts {
            count += u32::from(leases.check("a", 1).await == LeaseDecision::Admitted);
            // Renewals run between two requests.
            tokio::task::yield_now().await;
        }
        count
    }

    #[tokio::test]
    async fn leases_save_requests_to_the_store() {
        let store = Arc::new(Budget { left: Mutex::new(1_000), ..Budget::default() });
        let replicas: Vec<Leases> = (0..3)
            .map(|_| Leases::new(store.clone(), Duration::from_millis(100), 600, 3))
            .collect();
        let mut total = 0;
        for _ in 0..500 {
            for replica in &replicas {
                total += admitted(replica, 1).await;
            }
        }
        // All three together have spent what the store had, and no more.
        assert_eq!(total, 1_000);
        let asked = store.asked.load(Ordering::Relaxed);
        assert!(asked <= 100, "{asked} requests to the store for 1,500 decisions");
    }

    #[tokio::test]
    async fn several_requests_are_admitted_together_or_refused() {
        let store = Arc::new(Budget { left: Mutex::new(7), ..Budget::default() });
        let leases = Leases::new(store, Duration::from_millis(100), 10, 1);
        assert_eq!(leases.check("a", 5).await, LeaseDecision::Admitted);
        let refused = leases.check("a", 5).await;
        assert!(matches!(refused, LeaseDecision::Refused(_)), "{refused:?}");
        assert_eq!(leases.check("a", 2).await, LeaseDecision::Admitted);
        assert!(matches!(leases.check("b", 1).await, LeaseDecision::Refused(_)));
    }

    #[tokio::test]
    async fn unspent_requests_are_given_back() {
        let store = Arc::new(Budget { left: Mutex::new(100), ..Budget::default() });
        let leases = Leases::new(store.clone(), Duration::from_millis(100), 100, 1);
        assert_eq!(leases.check("a", 1).await, LeaseDecision::Admitted);
        assert_eq!(*lock(&store.left), 90);
        let returned = async {
            while *lock(&store.left) < 99 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(HANG_LIMIT, returned).await.unwrap();
    }

    struct Silent;

    impl SharedRates for Silent {
        fn take(&self, _: RateRequest) -> GrantFuture {
            Box::pin(std::future::ready(None))
        }
    }

    #[tokio::test]
    async fn silent_store_decides_nothing() {
        let leases = Leases::new(Arc::new(Silent), Duration::from_millis(100), 10, 1);
        assert_eq!(leases.check("a", 1).await, LeaseDecision::Unknown);
    }
}
