//! Limits the number of concurrent client requests and the length of the queue for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A limit on concurrent requests, with a limited queue of requests that wait for a permit.
pub(crate) struct ConcurrencyLimiter {
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
    queue: usize,
}

/// Decrements the number of queued requests when dropped, also if the client disconnects while its
/// request waits.
struct QueueGuard<'g>(&'g AtomicUsize);

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl ConcurrencyLimiter {
    pub(crate) fn new(permits: usize, queue: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(permits)), waiting: AtomicUsize::new(0), queue }
    }

    /// Waits for a permit to process a request. Returns `None` if the queue is full.
    pub(crate) async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Some(permit);
        }
        let queued = QueueGuard(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::AcqRel) >= self.queue {
            return None;
        }
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        drop(queued);
        permit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn request_beyond_queue_is_rejected() {
        let limiter = Arc::new(ConcurrencyLimiter::new(1, 1));
        let permit = limiter.acquire().await.unwrap();
        let waiting = tokio::spawn({
            let limiter = Arc::clone(&limiter);
            async move { limiter.acquire().await.is_some() }
        });
        tokio::task::yield_now().await;
        assert!(limiter.acquire().await.is_none());
        drop(permit);
        assert!(waiting.await.unwrap());
        assert!(limiter.acquire().await.is_some());
    }
}
