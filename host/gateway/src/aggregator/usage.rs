//! The usage of tools, from the records in memory.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use crate::telemetry::{Outcome, RecordQuery, Recorder};

/// The maximum number of tools whose usage is reported. Clients choose names of tools.
const MAX_TOOLS: usize = 20_000;
const DAY_MS: u64 = 86_400_000;

#[derive(Default)]
struct ToolCalls {
    latencies: Vec<u64>,
    success: u64,
    last_7_days: u64,
    last_30_days: u64,
}

/// Returns the recorded calls of each tool as `server::tool`. The latency of a call includes the
/// time that it waits in the gateway.
pub(super) fn tool_usage(recorder: &Recorder) -> Map<String, Value> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis());
    let now = u64::try_from(now).unwrap_or(u64::MAX);
    let query = RecordQuery { limit: Some(usize::MAX), ..RecordQuery::default() };
    let mut tools: BTreeMap<String, ToolCalls> = BTreeMap::new();
    for record in recorder.query(&query) {
        let is_call = record.endpoint.contains("::") && !record.endpoint.contains("://");
        let is_known = tools.contains_key(&record.endpoint);
        // Answers of the cache and refusals say nothing about the tool.
        if !is_call
            || !record.cache.is_empty()
            || record.outcome == Outcome::Refused
            || (!is_known && tools.len() >= MAX_TOOLS)
        {
            continue;
        }
        let calls = tools.entry(record.endpoint.clone()).or_default();
        calls.latencies.push(record.latency_ms);
        let failed = matches!(record.outcome, Outcome::UpstreamError);
        calls.success += u64::from(!failed);
        let age = now.saturating_sub(record.timestamp);
        calls.last_7_days += u64::from(age <= 7 * DAY_MS);
        calls.last_30_days += u64::from(age <= 30 * DAY_MS);
    }
    tools.into_iter().map(|(name, calls)| (name, calls.json())).collect()
}

impl ToolCalls {
    #[allow(clippy::cast_precision_loss, reason = "milliseconds, far below 2^52")]
    fn json(mut self) -> Value {
        self.latencies.sort_unstable();
        let total = self.latencies.len();
        let sum: u64 = self.latencies.iter().sum();
        let p95 = self.latencies.get((total * 95 / 100).min(total.saturating_sub(1)));
        json!({
            "total": total,
            "success": self.success,
            "average_ms": sum as f64 / total.max(1) as f64,
            "p95_ms": p95.copied().unwrap_or_default(),
            "uses_7d": self.last_7_days,
            "uses_30d": self.last_30_days,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_summed() {
        let calls =
            ToolCalls { latencies: vec![30, 10, 20], success: 2, last_7_days: 1, last_30_days: 3 };
        assert_eq!(
            calls.json(),
            json!({"total": 3, "success": 2, "average_ms": 20.0, "p95_ms": 30, "uses_7d": 1,
                "uses_30d": 3})
        );
    }
}
