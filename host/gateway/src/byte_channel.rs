//! A channel whose waiting messages are bounded in bytes. A message that exceeds the bound is
//! refused, unless no other message waits. A slow receiver therefore neither fills memory nor
//! blocks a sender that also serves other receivers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The memory, in bytes, that a waiting message needs in addition to its content. It bounds the
/// number of small messages.
const MESSAGE_OVERHEAD: usize = 128;

/// The pause between two attempts to send, and after a dropped message. It slows down an upstream
/// that sends more than the client reads, because the upstream's pipe or socket is then full.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(1);
/// The maximum number of attempts to send a message to a slow receiver.
pub(crate) const MAX_ATTEMPTS: usize = 1_000;

/// The sending half of a channel that is bounded in bytes.
#[derive(Debug)]
pub(crate) struct ByteSender<T> {
    to: UnboundedSender<(usize, T)>,
    waiting: Arc<AtomicUsize>,
    /// True if the receiver did not take a message in time. Further messages are then not retried.
    is_slow: Arc<AtomicBool>,
    max_bytes: usize,
}

impl<T> Clone for ByteSender<T> {
    fn clone(&self) -> Self {
        Self {
            to: self.to.clone(),
            waiting: Arc::clone(&self.waiting),
            is_slow: Arc::clone(&self.is_slow),
            max_bytes: self.max_bytes,
        }
    }
}

/// The receiving half of a channel that is bounded in bytes.
#[derive(Debug)]
pub(crate) struct ByteReceiver<T> {
    from: UnboundedReceiver<(usize, T)>,
    waiting: Arc<AtomicUsize>,
}

/// Creates a channel in which messages of `max_bytes` bytes in total may wait, or one larger
/// message.
pub(crate) fn byte_channel<T>(max_bytes: usize) -> (ByteSender<T>, ByteReceiver<T>) {
    let (to, from) = unbounded_channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let is_slow = Arc::default();
    let sender = ByteSender { to, waiting: Arc::clone(&waiting), is_slow, max_bytes };
    (sender, ByteReceiver { from, waiting })
}

impl<T> ByteSender<T> {
    /// Sends a message of `bytes` bytes. Returns false and drops the message if it does not fit
    /// now, or if the receiver was dropped.
    pub(crate) fn try_send(&self, bytes: usize, message: T) -> bool {
        let charged = bytes + MESSAGE_OVERHEAD;
        let before = self.waiting.fetch_add(charged, Ordering::AcqRel);
        // A single message always fits: its size has its own limit.
        let fits = before == 0 || before + charged <= self.max_bytes;
        let sent = fits && self.to.send((charged, message)).is_ok();
        if !sent {
            self.waiting.fetch_sub(charged, Ordering::AcqRel);
        }
        sent
    }

    /// Returns true if the channel can accept a message of `bytes` bytes now.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let waiting = self.waiting.load(Ordering::Acquire);
        waiting == 0 || waiting + bytes + MESSAGE_OVERHEAD <= self.max_bytes
    }

    /// Sends a message of `bytes` bytes. Waits for a slow receiver for a second, then drops the
    /// message. Later messages are tried once only, until the receiver reads again.
    pub(crate) async fn send(&self, bytes: usize, message: T) {
        let attempts = if self.is_slow.load(Ordering::Acquire) { 1 } else { MAX_ATTEMPTS };
        for _ in 0..attempts {
            if self.is_closed() {
                return;
            }
            if self.has_room(bytes) {
                self.is_slow.store(false, Ordering::Release);
                self.try_send(bytes, message);
                return;
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        self.is_slow.store(true, Ordering::Release);
    }

    /// Sends a required message, such as the only answer to a request, even if it exceeds the
    /// bound.
    pub(crate) fn send_needed(&self, message: T) {
        let _ = self.to.send((0, message));
    }

    /// Returns true if the receiver was dropped.
    pub(crate) fn is_closed(&self) -> bool {
        self.to.is_closed()
    }
}

impl<T> ByteReceiver<T> {
    /// Waits for the next message. Returns `None` if all senders were dropped and no message waits.
    pub(crate) async fn recv(&mut self) -> Option<T> {
        let (charged, message) = self.from.recv().await?;
        self.waiting.fetch_sub(charged, Ordering::AcqRel);
        Some(message)
    }

    /// Returns the next message, or `None` if no message waits.
    pub(crate) fn try_recv(&mut self) -> Option<T> {
        let (charged, message) = self.from.try_recv().ok()?;
        self.waiting.fetch_sub(charged, Ordering::AcqRel);
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_messages_are_bounded_in_bytes() {
        let (sender, mut receiver) = byte_channel::<usize>(10 * (100 + MESSAGE_OVERHEAD));
        let sent = (0..1_000).filter(|number| sender.try_send(100, *number)).count();
        assert_eq!(sent, 10);
        sender.send_needed(99);
        let received: Vec<usize> = std::iter::from_fn(|| receiver.try_recv()).collect();
        assert_eq!(received, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 99]);
        assert!(sender.try_send(1 << 20, 1), "a single message always fits");
        assert!(!sender.try_send(1, 2));
        drop(receiver);
        assert!(sender.is_closed() && !sender.try_send(1, 3));
    }
}
