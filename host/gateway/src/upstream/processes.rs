//! The running processes of all upstreams of a gateway.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::task::TaskTracker;

use super::places::{PROCESSES, UpstreamPlaces};

/// The number of processes that start at one time, for each processor: more would only delay each
/// other, until the time for their handshakes is over.
const STARTING_PER_PROCESSOR: usize = 4;

/// The running upstream processes of a gateway, which end before the gateway does.
pub(crate) struct Processes {
    pub(super) places: Arc<UpstreamPlaces>,
    tasks: TaskTracker,
    /// The turns of processes that start.
    starting: Semaphore,
}

impl Processes {
    /// Creates an empty set for at most `max` processes, and `max_per_owner` of one upstream for
    /// one owner.
    pub(crate) fn new(max: usize, max_per_owner: usize) -> Arc<Self> {
        Arc::new(Self {
            places: UpstreamPlaces::new(PROCESSES, max, max_per_owner),
            tasks: TaskTracker::new(),
            starting: Semaphore::new(
                std::thread::available_parallelism().map_or(1, usize::from)
                    * STARTING_PER_PROCESSOR,
            ),
        })
    }

    /// Waits for the turn of a process to start, which ends when the result is dropped.
    pub(super) async fn starting(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.starting.acquire().await.ok()
    }

    /// Runs the task of a process. [`Processes::end`] waits for it.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Ends all processes and waits until they have exited.
    pub(crate) async fn end(&self) {
        self.places.end();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
