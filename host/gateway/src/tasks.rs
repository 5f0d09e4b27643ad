//! Helpers for async tasks: guard calls that do not block, and tasks that end with their owner.

use std::sync::{Arc, LazyLock};

use tokio::task::JoinHandle;

use crate::fair_queue::{Caller, FairQueue, Shares};
use crate::filter::Filter;
use crate::message::split_batch;
use context_guard_protocol::argument::has_query;

/// The maximum size of a message that the guard processes on the calling task, in bytes. Moving
/// smaller messages to another thread costs more than it gains.
const MAX_INLINE_BYTES: usize = 16 << 10;
/// Permits for concurrent guard calls that may take long. The engine refuses calls beyond the
/// number of its instances (64), so the limit is below that number.
static LONG_CALLS: LazyLock<Arc<FairQueue>> = LazyLock::new(|| {
    FairQueue::new(
        Shares::defaults(48),
        Shares { total: MAX, per_principal: MAX, per_session: MAX },
    )
});
/// No limit. The number of requests that wait for a guard call is limited where requests enter the
/// gateway.
const MAX: usize = usize::MAX;

/// A message for the guard.
#[derive(Clone, Copy)]
pub(crate) enum GuardInput<'m> {
    /// A client's request, or a batch of them.
    Request(&'m [u8]),
    /// An upstream's response, or a batch of them.
    Response(&'m [u8]),
    /// A message in several parts, of which the last one does not show the size of the message.
    #[cfg(feature = "grpc")]
    Parts,
}

impl GuardInput<'_> {
    /// Returns true if a guard call on this input may take long: the message is large, or it is a
    /// request that queries a stored answer, which may be large.
    fn may_take_long(self) -> bool {
        match self {
            Self::Request(message) => {
                message.len() > MAX_INLINE_BYTES || split_batch(message).into_iter().any(has_query)
            }

            Self::Response(message) => message.len() > MAX_INLINE_BYTES,
            #[cfg(feature = "grpc")]
            Self::Parts => true,
        }
    }
}

/// Runs `work`, a guard call on `input` for `caller`. Calls that may take long run on a blocking
/// thread, so that they do not stall the async executor.
pub(crate) async fn run_blocking<T>(
    filter: &Filter,
    caller: &Caller,
    input: GuardInput<'_>,
    work: impl FnOnce() -> T,
) -> T {
    if !filter.may_block() && !input.may_take_long() {
        return work();
    }
    // Any number may wait, so the queue is never full.
    let _place = LONG_CALLS.enter(caller, 1).await.ok();
    tokio::task::block_in_place(work)
}

/// A handle of a task. Dropping the handle aborts the task.
pub(crate) struct AbortOnDrop(pub(crate) JoinHandle<()>);

impl AbortOnDrop {
    /// Waits until the task has ended.
    #[cfg(feature = "otlp")]
    pub(crate) async fn ended(mut self) {
        let _ = (&mut self.0).await;
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_of_short_requests_may_take_long() {
        let call = |arguments: &str| {
            format!(r#"{{"id":1,"method":"tools/call","params":{{"arguments":{arguments}}}}}"#)
        };
        let query = call(r#"{"cursor":"c","grep":"(a|b)+c"}"#);
        let page = call(r#"{"cursor":"c"}"#);
        let may_take_long = |request: &str| GuardInput::Request(request.as_bytes()).may_take_long();
        assert!(may_take_long(&query) && may_take_long(&format!("[{page},{query}]")));
        assert!(!may_take_long(&page) && !may_take_long(&format!("[{page},{page}]")));
        assert!(!GuardInput::Response(query.as_bytes()).may_take_long());
        let large = vec![b' '; MAX_INLINE_BYTES + 1];
        assert!(GuardInput::Response(&large).may_take_long());
    }
}
