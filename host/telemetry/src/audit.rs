//! The audit log: one JSON object per line, one file per day, deleted after the retention period.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tracing::{info, warn};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, WorkerGuard};
use tracing_appender::rolling::{RollingFileAppender, Rotation};

use crate::{Result, config};

/// An entry of the audit log.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry<'a> {
    /// The time of the event, in milliseconds since 1970.
    pub timestamp: u64,
    /// The event: `request`, `refused`, `reference`, `change`, `definition`, `scores` or `cache`.
    pub event: &'a str,
    /// The number of the request, as in its record. Empty for other events.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub request_id: &'a str,
    /// The number of the request that runs the program which made this call. Empty for requests of
    /// clients.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub parent: &'a str,
    /// The principal of the request, or the source of a change.
    pub principal: &'a str,
    /// The endpoint of the request: `upstream::tool`, a resource URI or the method. May be empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub endpoint: &'a str,
    /// The outcome of the request, the reason for its refusal, or the kind of the change.
    pub outcome: &'a str,
    /// The message of the refusal, the other end of a reference, or the change in JSON. May be
    /// empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub detail: &'a str,
}

/// The audit log of a gateway.
pub struct AuditLog {
    writer: Writer,
    losses: Arc<Losses>,
}

enum Writer {
    /// A separate thread writes the entries. If the disk is too slow, the queue drops entries.
    Queued { to: Mutex<NonBlocking>, dropped: ErrorCounter, _guard: WorkerGuard },
    /// Each entry is written before its request ends.
    Direct(Mutex<AuditFile>),
}

/// The number of entries that could not be written, and their reports.
#[derive(Default)]
struct Losses {
    total: AtomicU64,
    /// True if the last entry could not be written.
    is_failing: AtomicBool,
    /// True if the log has already reported a full queue.
    reported_queue: AtomicBool,
}

/// The current file. Entries that cannot be written to it are counted.
struct AuditFile {
    file: RollingFileAppender,
    losses: Arc<Losses>,
}

impl Write for AuditFile {
    /// Writes an entry, or counts it as lost.
    fn write(&mut self, entry: &[u8]) -> std::io::Result<usize> {
        let was_failing = self.losses.is_failing.load(Ordering::Acquire);
        // The last entry may have been written in part.
        let start: &[u8] = if was_failing { b"\n" } else { b"" };
        let written =
            self.file.write_all(&[start, entry].concat()).and_then(|()| self.file.flush());
        self.losses.is_failing.store(written.is_err(), Ordering::Release);
        match written {
            Ok(()) if was_failing => info!("the audit log is written again"),
            Ok(()) => {}
            Err(error) => {
                self.losses.total.fetch_add(1, Ordering::Relaxed);
                if !was_failing {
                    warn!("the audit log cannot be written, its entries are lost: {error}");
                }
            }
        }
        Ok(entry.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl AuditLog {
    /// Opens the audit log in a folder, and creates the folder if it is missing. Keeps the newest
    /// `retention_days` files, and deletes older ones. If `is_required` is true, each entry is
    /// written before its request ends, so that [`Self::is_failing`] is up to date.
    ///
    /// # Errors
    /// [`crate::Error::Config`] if the folder cannot be written.
    pub fn open(folder: &Path, retention_days: usize, is_required: bool) -> Result<Self> {
        let fault = |source| config::Error::File { path: folder.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(fault)?;
        let file = RollingFileAppender::builder()
            .rotation(Rotation::DAILY)
            .filename_prefix("audit")
            .filename_suffix("jsonl")
            .max_log_files(retention_days)
            .build(folder)
            .map_err(|error| fault(std::io::Error::other(error)))?;
        let losses = Arc::new(Losses::default());
        let file = AuditFile { file, losses: Arc::clone(&losses) };
        let writer = if is_required {
            Writer::Direct(Mutex::new(file))
        } else {
            let (to, guard) = tracing_appender::non_blocking(file);
            Writer::Queued { dropped: to.error_counter(), to: Mutex::new(to), _guard: guard }
        };
        Ok(Self { writer, losses })
    }

    /// Adds an entry to the audit log. An entry that cannot be written is counted as lost.
    pub fn write(&self, entry: &AuditEntry<'_>) {
        let Ok(mut line) = serde_json::to_vec(entry) else { return };
        line.push(b'\n');
        match &self.writer {
            Writer::Direct(file) => {
                let _ = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line);
            }
            Writer::Queued { to, dropped, .. } => {
                let _ = to.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line);
                if dropped.dropped_lines() > 0
                    && !self.losses.reported_queue.swap(true, Ordering::Relaxed)
                {
                    warn!("the audit log is written too slowly, entries are lost");
                }
            }
        }
    }

    /// Returns true if entries are required and the last one could not be written.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        matches!(self.writer, Writer::Direct(_)) && self.losses.is_failing.load(Ordering::Acquire)
    }

    /// Returns the number of entries that were lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let dropped = match &self.writer {
            Writer::Queued { dropped, .. } => dropped.dropped_lines() as u64,
            Writer::Direct(_) => 0,
        };
        self.losses.total.load(Ordering::Relaxed) + dropped
    }
}
