//! Reading audit logs. Entries arrive after the answers that they report.

use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use crate::wait::wait_until;

/// Returns the text of the audit log in a folder.
///
/// # Errors
/// The folder cannot be read.
pub fn audit_text(folder: &Path) -> Result<String> {
    let files = std::fs::read_dir(folder)?.map(|entry| std::fs::read_to_string(entry?.path()));
    Ok(files.collect::<std::io::Result<Vec<_>>>()?.concat())
}

/// Returns the entries of the audit log in a folder, without one that is not yet written whole.
///
/// # Errors
/// The folder cannot be read.
pub fn audit_entries(folder: &Path) -> Result<Vec<Value>> {
    let text = audit_text(folder)?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Waits until the audit log in a folder contains each of `expected`, and returns its text.
///
/// # Errors
/// A timeout that names what is missing, or a folder that cannot be read.
pub fn wait_for_audit(folder: &Path, expected: &[&str]) -> Result<String> {
    for text in expected {
        wait_until(text, || Ok(audit_text(folder)?.contains(text)))?;
    }
    audit_text(folder)
}
