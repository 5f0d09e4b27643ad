//! Token buckets, one for each principal and each address.

use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::Refusal;
use crate::config::RateLimit;

/// After so many checks, buckets that are full again are forgotten.
const SWEEP: u32 = 4_096;

pub(super) struct Rate {
    principals: Buckets<Arc<str>>,
    addresses: Buckets<IpAddr>,
}

struct Buckets<K: Hash + Eq + Clone> {
    limiter: DefaultKeyedRateLimiter<K>,
    clock: DefaultClock,
    checks: AtomicU32,
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    fn new(quota: Quota) -> Self {
        Self {
            limiter: RateLimiter::keyed(quota),
            clock: DefaultClock::default(),
            checks: AtomicU32::new(0),
        }
    }

    fn check(&self, key: &K) -> Result<(), Refusal> {
        if self.checks.fetch_add(1, Ordering::Relaxed) % SWEEP == SWEEP - 1 {
            self.limiter.retain_recent();
            self.limiter.shrink_to_fit();
        }
        self.limiter
            .check_key(key)
            .map_err(|not_until| Refusal::TooMany(not_until.wait_time_from(self.clock.now())))
    }
}

impl Rate {
    /// None where there is no limit.
    pub(super) fn new(config: &RateLimit) -> Option<Self> {
        let per_minute = NonZeroU32::new(config.per_minute)?;
        let burst = NonZeroU32::new(config.burst).unwrap_or(per_minute);
        let quota = Quota::per_minute(per_minute).allow_burst(burst);
        Some(Self { principals: Buckets::new(quota), addresses: Buckets::new(quota) })
    }

    pub(super) fn principal(&self, principal: &Arc<str>) -> Result<(), Refusal> {
        self.principals.check(principal)
    }

    pub(super) fn address(&self, address: IpAddr) -> Result<(), Refusal> {
        self.addresses.check(&address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_beyond_the_burst_waits_and_others_do_not() {
        let rate = Rate::new(&RateLimit { per_minute: 60, burst: 2 }).unwrap();
        let one = IpAddr::from([10, 0, 0, 1]);
        assert!(rate.address(one).is_ok() && rate.address(one).is_ok());
        let Err(Refusal::TooMany(wait)) = rate.address(one) else { panic!("let in") };
        assert!(wait.as_secs_f64() <= 1.0);
        assert!(rate.address(IpAddr::from([10, 0, 0, 2])).is_ok());
        assert!(rate.principal(&"key:a".into()).is_ok());
        assert!(Rate::new(&RateLimit { per_minute: 0, burst: 0 }).is_none());
    }
}
