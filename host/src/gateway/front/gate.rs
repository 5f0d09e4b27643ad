//! How many requests are worked on at once, how many wait, and what is said to the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A bounded queue before a bounded number of places.
pub(crate) struct Gate {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    queue: usize,
}

/// Takes a waiting request out of the count, however its waiting ends.
struct Waits<'g>(&'g AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Gate {
    pub(crate) fn new(places: usize, queue: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(places)), waiting: AtomicUsize::new(0), queue }
    }

    /// A place; none where the queue is full.
    pub(crate) async fn enter(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Some(place);
        }
        let waits = Waits(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::AcqRel) >= self.queue {
            return None;
        }
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        drop(waits);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_comes_beyond_places_and_queue_is_refused() {
        let gate = Arc::new(Gate::new(1, 1));
        let place = gate.enter().await.unwrap();
        let waiting = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.enter().await.is_some() }
        });
        tokio::task::yield_now().await;
        assert!(gate.enter().await.is_none());
        drop(place);
        assert!(waiting.await.unwrap());
        assert!(gate.enter().await.is_some());
    }
}
