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
    /// The time of the event, in milliseconds since 1970.
    pub timestamp: u64,
    /// The event: `request`, `refused` or `change`.
    pub event: &'a str,
    /// The principal of the request, or the source of a change.
    pub principal: &'a str,
    /// The endpoint of the request: `upstream::tool`, a resource URI or the method. May be empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub endpoint: &'a str,
    /// The outcome of the request, the reason of its refusal, or the kind of the change.
    pub outcome: &'a str,
    /// The message of the refusal, or the change in JSON. May be empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub detail: &'a str,
}

/// The audit log of a gateway. A separate thread writes it.
pub struct AuditLog {
    to: Mutex<NonBlocking>,
    _guard: WorkerGuard,
}

impl AuditLog {
    /// Opens the audit log in a folder, which is created if it is missing. Files older than
    /// `retention_days` are deleted.
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

    /// Adds an entry to the audit log. If the disk is too slow, the entry is dropped, so that
    /// requests are not delayed.
    pub fn write(&self, entry: &AuditEntry<'_>) {
        if let Ok(mut line) = serde_json::to_vec(entry) {
            line.push(b'\n');
            let mut to = self.to.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let _ = to.write_all(&line);
        }
    }
}
