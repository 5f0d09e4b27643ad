//! The history of calls of a gateway.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use context_guard_history::{Error, History, HistoryOptions, Query, Reader};
use serde_json::Value;
use tracing::warn;

use crate::config::{Config, history_file};

/// Opens the history that a gateway file configures. `None` if it has none. The gateway runs
/// without a history that cannot be opened.
pub(crate) fn open(config: &Config) -> Option<Arc<History>> {
    let settings = config.history.as_ref().filter(|history| history.enabled)?;
    let path = match &settings.file {
        Some(file) => config.folder.join(file),
        None => history_file(),
    };
    match History::open(&path, &HistoryOptions { max_bytes: settings.bytes }) {
        Ok(history) => Some(history),
        Err(error) => {
            warn!("calls are not recorded (history): {error}");
            None
        }
    }
}

/// Runs a query with these parameters. It sees all calls that were answered before.
///
/// # Errors
/// As [`Query::parse`] and [`Reader::run`].
pub(crate) fn query(history: &History, parameters: &[(String, String)]) -> Result<Value, Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis());
    let now_ms = u64::try_from(now).unwrap_or(u64::MAX);
    let pairs = parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let query = Query::parse(pairs, now_ms)?;
    history.flush();
    Reader::open(history.path())?.run(&query)
}
