//! The permits of callers' requests at an upstream whose configuration limits its concurrent
//! requests.

use std::sync::Arc;
use std::time::Duration;

use super::Failure;
use crate::config::Upstream;
use crate::fair_queue::{Caller, FairQueue, Place, Shares};

/// The maximum number of requests that wait for a permit at an upstream.
const MAX_WAITING: usize = 1_024;

/// The permits for requests to an upstream. Permits rotate among callers.
pub(crate) struct Turns {
    name: String,
    timeout: Duration,
    queue: Arc<FairQueue>,
}

impl Turns {
    pub(super) fn new(config: &Upstream) -> Arc<Self> {
        let places = Shares::defaults(config.limits.concurrency);
        Arc::new(Self {
            name: config.name.clone(),
            timeout: config.limits.timeout(),
            queue: FairQueue::new(places, Shares::defaults(MAX_WAITING)),
        })
    }

    /// Waits until the caller may send `requests` requests to the upstream. They count as in flight
    /// until the returned permits are dropped.
    ///
    /// # Errors
    /// [`Failure::Refused`] if too many requests wait, and [`Failure::Timeout`].
    pub(crate) async fn take(&self, caller: &Caller, requests: usize) -> Result<Place, Failure> {
        match tokio::time::timeout(self.timeout, self.queue.enter(caller, requests)).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) => Err(Failure::Refused(format!(
                "The upstream `{}` has as many requests waiting as it can take. Try again soon.",
                self.name
            ))),
            Err(_) => Err(Failure::Timeout(format!(
                "The upstream `{}` had no place for the request within {} s \
                 (upstreams[].limits.concurrency).",
                self.name,
                self.timeout.as_secs()
            ))),
        }
    }
}
