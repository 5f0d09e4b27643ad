//! The queue of log events for the export. There is one queue per process, as there is one log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

/// The maximum number of log events in the queue.
const MAX_QUEUED: usize = 2_048;

/// An event of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEvent {
    /// The time since 1970.
    pub at: Duration,
    /// The severity: `ERROR`, `WARN`, `INFO`, `DEBUG` or `TRACE`.
    pub severity: &'static str,
    /// The message.
    pub message: String,
    /// The other fields, as names and values.
    pub fields: Vec<(&'static str, String)>,
}

type Events = (SyncSender<LogEvent>, Mutex<Option<Receiver<LogEvent>>>);

static QUEUE: LazyLock<Events> = LazyLock::new(|| {
    let (sender, receiver) = sync_channel(MAX_QUEUED);
    (sender, Mutex::new(Some(receiver)))
});
static IS_EXPORTED: AtomicBool = AtomicBool::new(false);

/// Returns true if log events are exported.
#[must_use]
pub fn exports_logs() -> bool {
    IS_EXPORTED.load(Ordering::Relaxed)
}

/// Queues a log event for the export. Drops it if the queue is full.
pub fn export_log(event: LogEvent) {
    if exports_logs() {
        let _ = QUEUE.0.try_send(event);
    }
}

/// Starts the export, and returns the receiver of log events. `None` if another export has it.
#[must_use]
pub fn take_logs() -> Option<Receiver<LogEvent>> {
    let taken = QUEUE.1.lock().unwrap_or_else(PoisonError::into_inner).take();
    if taken.is_some() {
        IS_EXPORTED.store(true, Ordering::Relaxed);
    }
    taken
}
