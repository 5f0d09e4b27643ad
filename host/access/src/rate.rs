//! Rate limits for each principal and each address, by the generic cell rate algorithm (GCRA).
//!
//! GCRA is a leaky bucket that needs one number per key: the theoretical arrival time, at which
//! the bucket of the key is empty again. See ITU-T I.371, Annex A.

use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;

use super::Refusal;
use super::proxies::client_network;
use super::shared_rate::{LeaseDecision, Leases, SharedRates};
use crate::config::RateLimit;

/// The maximum number of principals or addresses that one limiter tracks.
const MAX_KEYS: usize = 65_536;

/// The rate limiters of a gateway: one for principals and one for addresses.
pub(super) struct Rate {
    start: Instant,
    principals: Limiter<Arc<str>>,
    addresses: Limiter<IpAddr>,
    /// True if callers on loopback are limited by their address.
    limits_loopback: bool,
    /// The limits that all replicas of a fleet share. Unset without a fleet.
    shared: OnceLock<Leases>,
}

impl Rate {
    /// Returns the limiters for a configuration. `None` if it sets no limit.
    ///
    /// Each of `replicas` applies its share of the limit while it cannot reach the shared store.
    pub(super) fn new(config: &RateLimit, replicas: u32) -> Option<Self> {
        if config.per_minute() == 0 {
            return None;
        }
        Some(Self {
            start: Instant::now(),
            principals: Limiter::share(config, replicas),
            addresses: Limiter::share(config, replicas),
            limits_loopback: config.per_minute.is_some(),
            shared: OnceLock::new(),
        })
    }

    /// Counts the requests of all replicas in `store`. Must be called at most once.
    pub(super) fn share(&self, config: &RateLimit, store: Arc<dyn SharedRates>, replicas: u32) {
        let _ = self.shared.set(Leases::new(store, interval(config), burst(config), replicas));
    }

    /// Counts requests in the shared store. `None` if there is no shared store, or it does not
    /// answer.
    async fn shared(&self, key: &str, requests: u32) -> Option<Result<(), Refusal>> {
        match self.shared.get()?.check(key, requests).await {
            LeaseDecision::Admitted => Some(Ok(())),
            LeaseDecision::Refused(wait) => Some(Err(Refusal::TooMany(wait))),
            LeaseDecision::Unknown => None,
        }
    }

    /// Counts requests of this principal.
    ///
    /// # Errors
    /// The refusal with the time to wait, if the requests exceed the limit. None of them is then
    /// counted.
    pub(super) async fn principal(
        &self,
        principal: &Arc<str>,
        requests: u32,
    ) -> Result<(), Refusal> {
        match self.shared(&format!("principal {principal}"), requests).await {
            Some(decision) => decision,
            None => self.principals.check(principal, self.start.elapsed(), requests),
        }
    }

    /// Counts unauthenticated requests from this address. `is_forwarded` is true if a proxy sent
    /// them.
    ///
    /// # Errors
    /// The refusal with the time to wait, if the requests exceed the limit.
    pub(super) async fn address(
        &self,
        address: IpAddr,
        is_forwarded: bool,
        requests: u32,
    ) -> Result<(), Refusal> {
        if address.is_loopback() && !is_forwarded && !self.limits_loopback {
            return Ok(());
        }
        let network = client_network(address);
        match self.shared(&format!("address {network}"), requests).await {
            Some(decision) => decision,
            None => self.addresses.check(&network, self.start.elapsed(), requests),
        }
    }
}

/// Returns the time between two requests at the configured rate.
fn interval(config: &RateLimit) -> Duration {
    Duration::from_secs(60) / config.per_minute().max(1)
}

/// Returns the maximum number of requests in a burst.
fn burst(config: &RateLimit) -> u32 {
    if config.burst == 0 { config.per_minute() } else { config.burst }
}

/// A limit on failed attempts for each address: `per_minute` at once, and the same number in each
/// minute.
pub(super) struct Failures {
    start: Instant,
    addresses: Limiter<IpAddr>,
}

impl Failures {
    pub(super) fn new(per_minute: u32) -> Self {
        let config = RateLimit { per_minute: Some(per_minute), burst: per_minute };
        Self { start: Instant::now(), addresses: Limiter::new(&config) }
    }

    /// Checks that an address has not failed too often.
    ///
    /// # Errors
    /// The refusal with the time to wait.
    pub(super) fn admit(&self, address: IpAddr) -> Result<(), Refusal> {
        let wait = self.addresses.wait(&client_network(address), self.start.elapsed());
        if wait.is_zero() { Ok(()) } else { Err(Refusal::TooMany(wait)) }
    }

    /// Counts a failed attempt.
    pub(super) fn count(&self, address: IpAddr) {
        let _ = self.addresses.check(&client_network(address), self.start.elapsed(), 1);
    }
}

struct Limiter<K: Hash + Eq> {
    /// The time between two requests at the configured rate.
    interval: Duration,
    /// The maximum time by which the theoretical arrival time of a key may be ahead of the clock.
    /// It is the time in which a burst minus one request is recovered.
    tolerance: Duration,
    /// The theoretical arrival time (GCRA) of each key, measured from the start of the gateway.
    arrivals: Mutex<LruCache<K, Duration>>,
}

impl<K: Hash + Eq + Clone> Limiter<K> {
    fn new(config: &RateLimit) -> Self {
        Self::share(config, 1)
    }

    /// Returns the limiter of one of several replicas, with its share of rate and burst.
    fn share(config: &RateLimit, replicas: u32) -> Self {
        let replicas = replicas.max(1);
        let burst = burst(config).div_ceil(replicas);
        let interval = interval(config).saturating_mul(replicas);
        Self {
            interval,
            tolerance: interval.saturating_mul(burst.saturating_sub(1)),
            arrivals: Mutex::new(LruCache::unbounded()),
        }
    }

    /// Returns the time until the next request of a key is admitted. Does not count a request.
    fn wait(&self, key: &K, now: Duration) -> Duration {
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        let arrival = arrivals.get(key).copied().unwrap_or(now).max(now);
        (arrival - now).saturating_sub(self.tolerance)
    }

    fn check(&self, key: &K, now: Duration, requests: u32) -> Result<(), Refusal> {
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        let arrival = arrivals.get(key).copied().unwrap_or(now).max(now);
        // The last of the requests arrives after the others.
        let last = arrival.saturating_add(self.interval.saturating_mul(requests.saturating_sub(1)));
        let wait = (last - now).saturating_sub(self.tolerance);
        if !wait.is_zero() {
            return Err(Refusal::TooMany(wait));
        }
        arrivals.put(key.clone(), last.saturating_add(self.interval));
        // The least recently used key is the one whose bucket is most likely empty, and a key
        // that is not tracked counts as one with an empty bucket.
        if arrivals.len() > MAX_KEYS {
            arrivals.pop_lru();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(per_minute: u32, burst: u32) -> Limiter<u32> {
        Limiter::new(&RateLimit { per_minute: Some(per_minute), burst })
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_burst_is_admitted_and_then_one_request_per_interval() {
        let limiter = limiter(60, 3);
        for _ in 0..3 {
            assert_eq!(limiter.check(&1, ms(0), 1), Ok(()));
        }
        assert_eq!(limiter.check(&1, ms(0), 1), Err(Refusal::TooMany(ms(1_000))));
        // A refused request does not count.
        assert_eq!(limiter.check(&1, ms(400), 1), Err(Refusal::TooMany(ms(600))));
        assert_eq!(limiter.check(&1, ms(1_000), 1), Ok(()));
        assert_eq!(limiter.check(&1, ms(1_000), 1), Err(Refusal::TooMany(ms(1_000))));
        assert_eq!(limiter.check(&2, ms(1_000), 1), Ok(()), "another key has its own bucket");
    }

    #[test]
    fn several_requests_count_at_once_or_not_at_all() {
        let limiter = limiter(60, 3);
        assert_eq!(limiter.check(&1, ms(0), 4), Err(Refusal::TooMany(ms(1_000))));
        assert_eq!(limiter.check(&1, ms(0), 2), Ok(()));
        assert_eq!(limiter.check(&1, ms(0), 2), Err(Refusal::TooMany(ms(1_000))));
        assert_eq!(limiter.check(&1, ms(0), 1), Ok(()));
    }

    #[test]
    fn an_idle_key_saves_no_more_than_its_burst() {
        let limiter = limiter(60, 2);
        let day = 86_400_000;
        let admitted = (0..10).filter(|_| limiter.check(&1, ms(day), 1).is_ok()).count();
        assert_eq!(admitted, 2);
    }

    #[test]
    fn a_burst_of_zero_is_the_limit_of_a_minute() {
        let limiter = limiter(7, 0);
        let admitted = (0..20).filter(|_| limiter.check(&1, ms(0), 1).is_ok()).count();
        assert_eq!(admitted, 7);
    }

    #[test]
    fn memory_is_bounded_and_frequent_keys_are_retained() {
        let limiter = limiter(60, 1);
        let keys = u32::try_from(MAX_KEYS).unwrap();
        for key in 0..keys * 2 {
            assert_eq!(limiter.check(&key, ms(0), 1), Ok(()));
            // Looking at a key keeps it, even if its request is refused.
            assert!(limiter.check(&0, ms(0), 1).is_err());
        }
        assert_eq!(limiter.arrivals.lock().unwrap().len(), MAX_KEYS);
    }

    #[tokio::test]
    async fn no_limit_is_configured_by_zero() {
        assert!(Rate::new(&RateLimit { per_minute: Some(0), burst: 0 }, 1).is_none());
        let rate = Rate::new(&RateLimit { per_minute: Some(60), burst: 1 }, 1).unwrap();
        let address = IpAddr::from([10, 0, 0, 1]);
        assert!(rate.address(address, false, 1).await.is_ok());
        assert!(rate.address(address, false, 1).await.is_err());
        assert!(rate.principal(&"key:a".into(), 1).await.is_ok());
        let network = |host: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, host]);
        assert!(rate.address(network(1), false, 1).await.is_ok());
        assert!(rate.address(network(2), false, 1).await.is_err(), "one network");
    }

    #[tokio::test]
    async fn replica_without_the_others_applies_its_share() {
        let rate = Rate::new(&RateLimit { per_minute: Some(60), burst: 30 }, 3).unwrap();
        let mut admitted = 0;
        for _ in 0..60 {
            admitted += u32::from(rate.principal(&"key:a".into(), 1).await.is_ok());
        }
        assert_eq!(admitted, 10);
    }

    async fn admitted(rate: &Rate, address: IpAddr, is_forwarded: bool) -> u32 {
        let mut count = 0;
        for _ in 0..300 {
            count += u32::from(rate.address(address, is_forwarded, 1).await.is_ok());
        }
        count
    }

    #[tokio::test]
    async fn loopback_is_not_limited_by_default() {
        let loopback = IpAddr::from([127, 0, 0, 1]);
        let rate = Rate::new(&RateLimit::default(), 1).unwrap();
        assert_eq!(admitted(&rate, loopback, false).await, 300);
        assert_eq!(admitted(&rate, loopback, true).await, 100, "a proxy on this machine");
        assert_eq!(admitted(&rate, IpAddr::from([10, 0, 0, 1]), false).await, 100);
        let explicit = RateLimit { per_minute: Some(60), burst: 0 };
        assert_eq!(admitted(&Rate::new(&explicit, 1).unwrap(), loopback, false).await, 60);
    }
}
