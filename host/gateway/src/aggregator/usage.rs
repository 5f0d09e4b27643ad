//! The usage of tools, from the history of calls or, without a history, from the records in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use context_guard_history::ToolUsage;
use serde_json::{Map, Value, json};
use tracing::warn;

use crate::history::{HistorySource, now_ms};
use crate::telemetry::{RecordQuery, Recorder, TelemetryRecord};

/// The maximum number of tools whose usage is returned.
const MAX_TOOLS: usize = 20_000;
const DAY_MS: u64 = 86_400_000;

/// The calls of a tool in the records in memory.
#[derive(Default)]
struct ToolCalls {
    upstream_us: Vec<u64>,
    usage: ToolUsage,
}

/// Returns the recorded calls of each tool of these upstreams, by `upstream::tool`. The history is
/// used if there is one, and `None` is returned if it cannot be read. Blocks while the history is
/// read.
pub(super) fn tool_usage(
    recorder: &Recorder,
    upstreams: &BTreeSet<String>,
) -> Option<Map<String, Value>> {
    let found = match recorder.history() {
        Some(history) => match HistorySource::Recorded(Arc::clone(history)).tool_usage() {
            Ok(found) => found,
            Err(error) => {
                warn!("the usage of tools cannot be read, and their scores do not change: {error}");
                return None;
            }
        },
        None => {
            let query = RecordQuery { limit: Some(usize::MAX), ..RecordQuery::default() };
            usage_of(&recorder.query(&query), now_ms())
        }
    };
    // Other processes write to the history, too.
    let own = found.into_iter().filter(|((upstream, _), _)| upstreams.contains(upstream));
    let named = own.map(|((upstream, tool), usage)| (format!("{upstream}::{tool}"), json(&usage)));
    Some(named.take(MAX_TOOLS).collect())
}

/// Returns the usage of each tool in these records, by the name of its upstream and its own name.
/// `now_ms` is the current time in milliseconds since 1970.
#[allow(clippy::cast_precision_loss, reason = "times in microseconds, far below 2^52")]
fn usage_of(
    records: &[Arc<TelemetryRecord>],
    now_ms: u64,
) -> BTreeMap<(String, String), ToolUsage> {
    let mut tools: BTreeMap<(String, String), ToolCalls> = BTreeMap::new();
    for record in records {
        let Some(micros) = record.upstream_us else { continue };
        let Some((upstream, tool)) = record.endpoint.split_once("::") else { continue };
        let calls = tools.entry((upstream.to_owned(), tool.to_owned())).or_default();
        calls.upstream_us.push(micros);
        calls.usage.calls += 1;
        calls.usage.failures += u64::from(record.is_tool_failure);
        let age = now_ms.saturating_sub(record.timestamp);
        calls.usage.calls_7d += u64::from(age <= 7 * DAY_MS);
        calls.usage.calls_30d += u64::from(age <= 30 * DAY_MS);
    }
    let finish = |mut calls: ToolCalls| {
        calls.upstream_us.sort_unstable();
        let count = calls.upstream_us.len();
        let sum: u64 = calls.upstream_us.iter().sum();
        let p95 = calls.upstream_us.get((count * 95 / 100).min(count.saturating_sub(1)));
        ToolUsage {
            average_ms: sum as f64 / count.max(1) as f64 / 1_000.0,
            p95_ms: p95.copied().unwrap_or_default() as f64 / 1_000.0,
            ..calls.usage
        }
    };
    tools.into_iter().map(|(name, calls)| (name, finish(calls))).collect()
}

/// Returns the usage in the JSON form that the guard reads.
fn json(usage: &ToolUsage) -> Value {
    json!({
        "total": usage.calls,
        "success": usage.calls.saturating_sub(usage.failures),
        "average_ms": usage.average_ms,
        "p95_ms": usage.p95_ms,
        "uses_7d": usage.calls_7d,
        "uses_30d": usage.calls_30d,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use context_guard_history::{History, HistoryOptions};

    use super::*;
    use crate::engine::CallContext;
    use crate::exchange::Exchange;
    use crate::message::Head;
    use crate::store::clock::SystemClock;
    use crate::telemetry::Outcome;

    fn recorder(history: Option<&Path>) -> Recorder {
        let open = |path| History::open(path, &HistoryOptions::default()).unwrap();
        let recorder = Recorder::new(10, None, Arc::new(SystemClock));
        let recorder = recorder.with_history(history.map(open));
        recorder.listed("files", br#"{"id":1,"result":{"tools":[{"name":"read"}]}}"#);
        recorder
    }

    /// Records a call of `files::read`. Without an answer, the upstream is not called.
    fn call(recorder: &Recorder, answer: Option<&str>, outcome: Outcome) {
        let context = CallContext { upstream: "files".to_owned(), ..CallContext::default() };
        let request = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#;
        let exchange = Exchange::of_request(context, Head::read(request).as_ref(), Some(recorder));
        if let Some(answer) = answer {
            exchange.upstream_admitted();
            exchange.on_handshake(answer.as_bytes());
        }
        exchange.record(recorder, None, 10, outcome);
    }

    fn record_calls(recorder: &Recorder) {
        let passed = Outcome::Passed;
        call(recorder, Some(r#"{"id":1,"result":{"content":[]}}"#), passed);
        call(recorder, Some(r#"{"id":1,"result":{"content":[],"isError":true}}"#), passed);
        call(recorder, Some(r#"{"id":1,"error":{"code":-32602,"message":"m"}}"#), passed);
        call(recorder, Some("{}"), Outcome::UpstreamError);
        // The cache answers, or the queue of the upstream is full.
        call(recorder, None, passed);
        call(recorder, None, Outcome::UpstreamError);
    }

    /// Returns calls, successes, and the calls in 7 and in 30 days.
    fn counts(recorder: &Recorder, upstream: &str) -> Option<[u64; 4]> {
        let usage = tool_usage(recorder, &BTreeSet::from([upstream.to_owned()])).unwrap();
        let tool = usage.get("files::read")?;
        assert!(tool["average_ms"].is_f64() && tool["p95_ms"].is_f64(), "{tool}");
        Some(["total", "success", "uses_7d", "uses_30d"].map(|name| tool[name].as_u64().unwrap()))
    }

    #[test]
    fn error_results_are_failures_and_answers_of_the_guard_are_no_calls() {
        let recorder = recorder(None);
        record_calls(&recorder);
        assert_eq!(counts(&recorder, "files"), Some([4, 1, 4, 4]));
        assert_eq!(counts(&recorder, "web"), None);
    }

    #[test]
    fn usage_of_the_history_outlives_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.db");
        let before = recorder(Some(&path));
        record_calls(&before);
        assert_eq!(counts(&before, "files"), Some([4, 1, 4, 4]));
        drop(before);
        let after = recorder(Some(&path));
        assert_eq!(counts(&after, "files"), Some([4, 1, 4, 4]));
        record_calls(&after);
        assert_eq!(counts(&after, "files"), Some([8, 2, 8, 8]));
        assert_eq!(counts(&after, "web"), None);
    }
}
