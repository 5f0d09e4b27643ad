//! The history of calls of a gateway.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use context_guard_history::{Error, History, HistoryOptions, ListQuery, Query, Reader, ToolUsage};
use serde_json::{Value, json};
use tracing::warn;

use crate::config::{Config, history_file};

/// Opens the history that a gateway file configures. `None` if the file configures no history, or
/// the history cannot be opened: the gateway then runs without one.
pub(crate) fn open(config: &Config) -> Option<Arc<History>> {
    let settings = config.history.as_ref().filter(|history| history.enabled)?;
    let path = match &settings.file {
        Some(file) => Ok(config.folder.join(file)),
        None => history_file(),
    };
    let not_recorded = |error: &dyn std::fmt::Display| {
        warn!("calls are not recorded (history): {error}");
        None
    };
    match path {
        Ok(path) => History::open(&path, &HistoryOptions { max_bytes: settings.bytes })
            .map_or_else(|error| not_recorded(&error), Some),
        Err(error) => not_recorded(&error),
    }
}

/// A history to read: one that this process records, or a file of other processes.
#[derive(Clone)]
pub(crate) enum HistorySource {
    Recorded(Arc<History>),
    File(PathBuf),
}

/// Parameters of a URL, in their order.
type Parameters = [(String, String)];

impl HistorySource {
    /// Opens the history for reading. All calls that this process has answered before are visible.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub(crate) fn reader(&self) -> Result<Reader, Error> {
        match self {
            Self::Recorded(history) => {
                history.flush();
                Reader::open(history.path())
            }
            Self::File(path) => Reader::open(path),
        }
    }

    /// Runs a query with these parameters.
    ///
    /// # Errors
    /// As [`Query::parse`], [`Reader::open`] and [`Reader::run`].
    pub(crate) fn query(&self, parameters: &Parameters) -> Result<Value, Error> {
        let query = Query::parse(pairs(parameters), now_ms())?;
        self.reader()?.run(&query)
    }

    /// Returns the usage of each tool by the names of its upstream and of the tool.
    ///
    /// # Errors
    /// As [`Reader::open`] and [`Reader::tool_usage`].
    pub(crate) fn tool_usage(&self) -> Result<BTreeMap<(String, String), ToolUsage>, Error> {
        self.reader()?.tool_usage(now_ms())
    }

    /// Lists sessions.
    ///
    /// # Errors
    /// As [`ListQuery::sessions`], [`Reader::open`] and [`Reader::sessions`].
    pub(crate) fn sessions(&self, parameters: &Parameters) -> Result<Value, Error> {
        let list = ListQuery::sessions(pairs(parameters), now_ms())?;
        self.reader()?.sessions(&list)
    }

    /// Lists single requests.
    ///
    /// # Errors
    /// As [`ListQuery::records`], [`Reader::open`] and [`Reader::records`].
    pub(crate) fn records(&self, parameters: &Parameters) -> Result<Value, Error> {
        let list = ListQuery::records(pairs(parameters), now_ms())?;
        self.reader()?.records(&list)
    }

    /// Returns the health of the guard between the parameters `from` and `to`, by default in the
    /// last day.
    ///
    /// # Errors
    /// As [`Query::parse`], [`Reader::open`] and [`Reader::run`].
    pub(crate) fn health(&self, parameters: &Parameters) -> Result<Value, Error> {
        const MEASURES: &str = "calls,followups,paged,chunked,condensed,oversized,faults,tokens_before,tokens_sent,bytes_sent,samples,estimate_error,samples_off";
        if let Some((name, _)) = parameters.iter().find(|(name, _)| name != "from" && name != "to")
        {
            let text = format!("unknown parameter `{name}`: use one of from, to");
            return Err(Error::Query(text));
        }
        let query = Query::parse(pairs(parameters).chain([("measure", MEASURES)]), now_ms())?;
        let reader = self.reader()?;
        let found = reader.run(&query)?;
        let total = |name: &str| found.pointer(&format!("/total/{name}")).cloned();
        let sum = |name: &str| total(name).and_then(|value| value.as_i64()).unwrap_or_default();
        let calls = sum("calls");
        let average = |sum: i64| sum.checked_div(calls).map_or(Value::Null, Value::from);
        #[allow(clippy::cast_precision_loss, reason = "a ratio of counts")]
        let adoption = match calls {
            0 => Value::Null,
            calls => {
                let paged = sum("paged") + sum("chunked");
                ((paged as f64 / calls as f64 * 10_000.0).round() / 10_000.0).into()
            }
        };
        Ok(json!({
            "from": found.get("from"),
            "to": found.get("to"),
            "calls": calls,
            "faults": sum("faults"),
            "pagination": {
                "adoption": adoption,
                "paged": sum("paged"),
                "chunked": sum("chunked"),
                "condensed": sum("condensed"),
                "oversized": sum("oversized"),
                "followups": sum("followups"),
            },
            "average": {
                "tokens_before": average(sum("tokens_before")),
                "tokens_sent": average(sum("tokens_sent")),
                "bytes_sent": average(sum("bytes_sent")),
            },
            "estimates": {
                "samples": sum("samples"),
                "error": total("estimate_error"),
                "off": sum("samples_off"),
            },
            "history": reader.state()?,
        }))
    }
}

fn pairs(parameters: &Parameters) -> impl Iterator<Item = (&str, &str)> {
    parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

/// Returns the time in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis());
    u64::try_from(now).unwrap_or(u64::MAX)
}
