//! The audit log: a JSON object a line, a file a day, kept for so many days. Written by a thread of its own.

use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use serde::Serialize;
use tracing_appender::non_blocking::{NonBlocking, WorkerGuard};
use tracing_appender::rolling::{RollingFileAppender, Rotation};

use crate::{Result, config};

/// An entry.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry<'a> {
    /// Milliseconds since 1970.
    pub timestamp: u64,
    /// `request`, `refused` or `change`.
    pub event: &'a str,
    /// Who.
    pub principal: &'a str,
    /// What was asked.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub endpoint: &'a str,
    /// How it ended, or why it was refused.
    pub outcome: &'a str,
    /// More.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub detail: &'a str,
}

/// The log.
pub struct AuditLog {
    to: Mutex<NonBlocking>,
    _guard: WorkerGuard,
}

impl AuditLog {
    /// Opens the log in this folder, which is made if it is not there.
    ///
    /// # Errors
    /// [`Error::File`].
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

    /// Adds an entry. Where the disk cannot keep up, entries are dropped rather than requests held.
    pub fn write(&self, entry: &AuditEntry<'_>) {
        if let Ok(mut line) = serde_json::to_vec(entry) {
            line.push(b'\n');
            let mut to = self.to.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let _ = to.write_all(&line);
        }
    }
}
