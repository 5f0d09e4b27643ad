//! The audit log: one JSON object per line, one file per day, deleted after the retention period.

use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use serde::Serialize;
use tracing_appender::non_blocking::{NonBlocking, WorkerGuard};
use tracing_appender::rolling::{RollingFileAppender, Rotation};

use crate::{Result, config};

/// An entry of the audit log.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry<'a> {
    /// The time in milliseconds since 1970.
    pub timestamp: u64,
    /// The event: `request`, `refused` or `change`.
    pub event: &'a str,
    /// The principal.
    pub principal: &'a str,
    /// The endpoint.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub endpoint: &'a str,
    /// The outcome, or the reason of the refusal.
    pub outcome: &'a str,
    /// Further details.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub detail: &'a str,
}

/// The audit log. A separate thread writes it.
pub struct AuditLog {
    to: Mutex<NonBlocking>,
    _guard: WorkerGuard,
}

impl AuditLog {
    /// Opens the log in a folder, which is created if it is missing.
    ///
    /// # Errors
    /// [`crate::Error::Config`] if the folder cannot be written.
    pub fn open(folder: &Path, retention_days: usize) -> Result<Self> {
        let file = |source| config::Error::File { path: folder.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(file)?;
        let appender = RollingFileAppender::builder()
            .rotation(Rotation::DAILY)
            .filename_prefix("audit")
            .filename_suffix("jsonl")
            .max_log_files(retention_days)
            .build(folder)
            .map_err(|error| file(std::io::Error::other(error)))?;
        let (to, guard) = tracing_appender::non_blocking(appender);
        Ok(Self { to: Mutex::new(to), _guard: guard })
    }

    /// Adds an entry. If the disk is too slow, entries are dropped instead of delaying requests.
    pub fn write(&self, entry: &AuditEntry<'_>) {
        if let Ok(mut line) = serde_json::to_vec(entry) {
            line.push(b'\n');
            let mut to = self.to.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let _ = to.write_all(&line);
        }
    }
}
