//! The handle through which requests are recorded.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::Thread;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::event::{Event, Sample};
use crate::schema;
use crate::writer::{MAX_QUEUED, Message, Writer, WriterOptions};

/// The maximum time for which [`History::flush`] waits.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);
/// The range of the delay after which a batch is written, in milliseconds. Each process has another
/// delay, so that they do not write at the same time. An event is in the file after 2 s at most,
/// unless the file cannot be written.
const INTERVAL_MS: std::ops::Range<u64> = 1_500..1_900;
const _: () = assert!(INTERVAL_MS.end <= 2_000, "an event is in the file after 2 s at most");

/// The settings of a history.
#[derive(Clone, Copy, Debug)]
pub struct HistoryOptions {
    /// The maximum size of the file, in bytes. Beyond it, the oldest records of single requests are
    /// deleted, then the oldest cells.
    pub max_bytes: u64,
}

impl Default for HistoryOptions {
    fn default() -> Self {
        Self { max_bytes: 64 << 20 }
    }
}

/// Records requests in the history file. One thread writes them. Recording never blocks: if the
/// thread cannot keep up, events are dropped and counted.
pub struct History {
    path: PathBuf,
    queue: SyncSender<Message>,
    /// The thread of the writer, which is parked between two batches. `None` after its end.
    writer: Option<Thread>,
    dropped: Arc<AtomicU64>,
}

impl History {
    /// Opens the history file, which is created if it is missing, and starts the writer.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Database`], [`Error::Version`], [`Error::Thread`].
    pub fn open(path: &Path, options: &HistoryOptions) -> Result<Arc<Self>> {
        let connection = schema::open(path)?;
        let (mut history, messages) = Self::with_queue(path, MAX_QUEUED);
        let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        let interval = INTERVAL_MS.start + random % (INTERVAL_MS.end - INTERVAL_MS.start);
        let interval = Duration::from_millis(interval);
        let options = WriterOptions { max_bytes: options.max_bytes, interval };
        let dropped = Arc::clone(&history.dropped);
        let thread = std::thread::Builder::new()
            .name("history".to_owned())
            .spawn(move || Writer::new(connection, options, dropped).run(&messages))
            .map_err(Error::Thread)?;
        history.writer = Some(thread.thread().clone());
        Ok(Arc::new(history))
    }

    fn with_queue(path: &Path, length: usize) -> (Self, Receiver<Message>) {
        let (queue, messages) = sync_channel(length);
        let path = path.to_owned();
        (Self { path, queue, writer: None, dropped: Arc::default() }, messages)
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records a request. If the queue of the writer is full, the request is dropped and counted.
    pub fn record(&self, event: Event) {
        self.send(Message::Event(Box::new(event)));
    }

    /// Records the estimated and counted tokens of an answer. Dropped like events in
    /// [`Self::record`].
    pub fn record_sample(&self, sample: Sample) {
        self.send(Message::Sample(Box::new(sample)));
    }

    fn send(&self, message: Message) {
        match self.queue.try_send(message) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Returns the number of events that this process has dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits until the writer has tried to write everything recorded so far, for at most three
    /// seconds. Before that, waits for room in the queue, without a limit.
    ///
    /// Returns false if the writer did not answer in time. Returns true even if the file could not
    /// be written: then a later attempt writes the events.
    pub fn flush(&self) -> bool {
        let (reply, done) = sync_channel(1);
        let is_sent = self.queue.send(Message::Flush(reply)).is_ok();
        if let Some(writer) = &self.writer {
            writer.unpark();
        }
        is_sent && done.recv_timeout(FLUSH_TIMEOUT).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_queue_drops_and_counts() {
        let (history, messages) = History::with_queue(Path::new("unused"), 4);
        for _ in 0..10 {
            history.record(Event::default());
        }
        assert_eq!((history.dropped(), messages.try_iter().count()), (6, 4));
        history.record(Event::default());
        assert_eq!(history.dropped(), 6);
        drop(messages);
        history.record(Event::default());
        assert_eq!(history.dropped(), 7);
        assert!(!history.flush());
    }
}
