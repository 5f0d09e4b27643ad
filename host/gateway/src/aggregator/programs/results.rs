//! The channel with the results of calls that a program has not read yet. It is outside of the
//! program's memory, so that its bytes have a limit of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::Notify;

use super::notes::CallEnd;

/// The total size of the results that wait for the program, in bytes, from which on the channel
/// is full.
const MAX_WAITING_BYTES: usize = 32 << 20;

/// The results that wait for the program.
#[derive(Default)]
struct WaitingResults {
    bytes: AtomicUsize,
    /// Wakes the sender after the program took a result.
    taken: Notify,
}

/// The sending half of the channel.
pub(super) struct ResultSender {
    to: mpsc::Sender<CallEnd>,
    waiting: Arc<WaitingResults>,
}

/// The receiving half of the channel.
pub(super) struct ResultReceiver {
    from: mpsc::Receiver<CallEnd>,
    waiting: Arc<WaitingResults>,
}

/// Creates the channel for the results of one program.
pub(super) fn result_channel() -> (ResultSender, ResultReceiver) {
    let (to, from) = mpsc::channel();
    let waiting = Arc::<WaitingResults>::default();
    (ResultSender { to, waiting: Arc::clone(&waiting) }, ResultReceiver { from, waiting })
}

impl ResultSender {
    /// Returns true if the sender must wait for the program before it sends more results.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.bytes.load(Ordering::Acquire) >= MAX_WAITING_BYTES
    }

    /// Waits until the program has taken a result since the last call.
    pub(super) async fn taken(&self) {
        self.waiting.taken.notified().await;
    }

    /// Sends a result. Drops it if the program has ended.
    pub(super) fn send(&self, result: CallEnd) {
        self.waiting.bytes.fetch_add(bytes(&result), Ordering::AcqRel);
        let _ = self.to.send(result);
    }
}

impl ResultReceiver {
    /// Waits for the next result. Returns `None` after `timeout`, or if the sender was dropped.
    pub(super) fn recv(&self, timeout: Duration) -> Option<CallEnd> {
        let result = self.from.recv_timeout(timeout).ok()?;
        self.waiting.bytes.fetch_sub(bytes(&result), Ordering::AcqRel);
        self.waiting.taken.notify_one();
        Some(result)
    }
}

fn bytes((_, result): &CallEnd) -> usize {
    result.as_ref().map_or_else(String::len, Vec::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    use futures_util::FutureExt as _;

    #[test]
    fn unread_results_fill_the_channel() {
        let (sender, receiver) = result_channel();
        let mut sent = 0;
        while !sender.is_full() {
            sender.send((sent, Ok(vec![b'x'; 10 << 20])));
            sent += 1;
        }
        assert_eq!(sent, 4, "one result may exceed the limit");
        assert!(sender.taken().now_or_never().is_none());
        assert_eq!(receiver.recv(Duration::ZERO).map(|(job, _)| job), Some(0));
        assert!(sender.taken().now_or_never().is_some() && !sender.is_full());
        sender.send((4, Err("x".repeat(2 << 20))));
        assert!(sender.is_full(), "reasons count too");
        assert_eq!(std::iter::from_fn(|| receiver.recv(Duration::ZERO)).count(), 4);
        assert_eq!(sender.waiting.bytes.load(Ordering::Acquire), 0);
    }
}
