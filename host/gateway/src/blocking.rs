//! The guard works without waiting: where that takes long, other tasks must not wait for it.

use tokio::sync::Semaphore;

use crate::filter::Filter;

/// Messages up to this many bytes are shaped where they are: moving them costs more.
const SMALL: usize = 16 << 10;
/// Long work at the same time. Below the number of instances of the engine, so that none is refused.
static LARGE_CALLS: Semaphore = Semaphore::const_new(32);

/// Runs work of a filter on a message of this many bytes.
pub(crate) async fn run_blocking<T>(filter: &Filter, bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes <= SMALL && !filter.may_block() {
        return work();
    }
    let _permit = LARGE_CALLS.acquire().await;
    tokio::task::block_in_place(work)
}
