//! Advances the trials of revisions, and drops removed keys whose cursors have expired.

use std::sync::Arc;
use std::time::Duration;

use super::Revisions;
use crate::Result;

/// The time between two calls of [`Revisions::tick`].
const INTERVAL: Duration = Duration::from_secs(1);

/// Starts the thread that calls [`Revisions::tick`] every second. The thread ends within a second
/// after `revisions` is dropped. A process needs it even if it watches no files.
///
/// # Errors
/// [`crate::Error::Io`] if the thread cannot start.
pub fn tick_regularly(revisions: &Arc<Revisions>) -> Result<()> {
    let revisions = Arc::downgrade(revisions);
    std::thread::Builder::new().name("ticker".to_owned()).spawn(move || {
        while let Some(revisions) = revisions.upgrade() {
            revisions.tick();
            drop(revisions);
            std::thread::sleep(INTERVAL);
        }
    })?;
    Ok(())
}
