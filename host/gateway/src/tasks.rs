//! Helpers for async tasks: guard calls that do not block, and tasks that end with their owner.

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::filter::Filter;

/// The maximum size of a message that the guard processes on the calling task, in bytes. Moving
/// smaller messages to another thread costs more than it gains.
const MAX_INLINE_BYTES: usize = 16 << 10;
/// Permits for concurrent guard calls on large messages. The engine refuses calls beyond the number
/// of its instances (64), so the limit is below that number.
static LARGE_CALLS: Semaphore = Semaphore::const_new(32);

/// Runs `work`, a guard call on a message of `bytes` bytes. Large messages run on a blocking
/// thread, so that they do not stall the async executor.
pub(crate) async fn run_blocking<T>(filter: &Filter, bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes <= MAX_INLINE_BYTES && !filter.may_block() {
        return work();
    }
    let _permit = LARGE_CALLS.acquire().await;
    tokio::task::block_in_place(work)
}

/// A handle of a task. Dropping the handle aborts the task.
pub(crate) struct AbortOnDrop(pub(crate) JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
