//! The usage of tools: the calls that reached their upstreams.

use std::collections::BTreeMap;

use crate::cell::{Level, Sum, Values};
use crate::error::Result;
use crate::event::OTHER;
use crate::measure::Measure;
use crate::query::{Dimension, Query};
use crate::reader::Reader;

const DAY_MS: u64 = 86_400_000;

/// The calls of a tool that reached its upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ToolUsage {
    /// The number of calls in the history, which has those of the last 400 days at most.
    pub calls: u64,
    /// The number of calls that failed at the upstream, or whose result was an error.
    pub failures: u64,
    /// The mean time that the upstream needed, in milliseconds.
    pub average_ms: f64,
    /// An estimate of the 95th percentile of the time that the upstream needed, in milliseconds.
    pub p95_ms: f64,
    /// The number of calls in the last 7 days, in whole hours.
    pub calls_7d: u64,
    /// The number of calls in the last 30 days, in whole hours.
    pub calls_30d: u64,
}

impl Reader {
    /// Returns the usage of each tool, by the name of its upstream and its own name. `now_ms` is
    /// the current time in milliseconds since 1970. O(cells of days, and of hours of the first and
    /// last day of each range).
    ///
    /// # Errors
    /// [`crate::Error::Database`].
    #[allow(clippy::cast_precision_loss, reason = "a mean of times far below 2^52")]
    pub fn tool_usage(&self, now_ms: u64) -> Result<BTreeMap<(String, String), ToolUsage>> {
        let mut usage: BTreeMap<(String, String), ToolUsage> = BTreeMap::new();
        for (names, group) in self.by_tool(Level::Day, 0, now_ms, Measure::LatencyP95)? {
            let sum = |sum| group.get(sum).unsigned_abs();
            let calls = sum(Sum::ToolCalls);
            if calls == 0 || names.1 == OTHER {
                continue;
            }
            let [_, _, upstream] = &group.histograms;
            let tool = ToolUsage {
                calls,
                failures: sum(Sum::ToolFailures),
                average_ms: sum(Sum::UpstreamMicros) as f64 / calls as f64 / 1_000.0,
                p95_ms: upstream.quantile(0.95).unwrap_or_default() / 1_000.0,
                ..ToolUsage::default()
            };
            usage.insert(names, tool);
        }
        for days in [7, 30] {
            let from_ms = now_ms.saturating_sub(days * DAY_MS);
            for (names, group) in self.by_tool(Level::Hour, from_ms, now_ms, Measure::Calls)? {
                let calls = group.get(Sum::ToolCalls).unsigned_abs();
                match usage.get_mut(&names) {
                    Some(tool) if days == 7 => tool.calls_7d = calls,
                    Some(tool) => tool.calls_30d = calls,
                    None => {}
                }
            }
        }
        Ok(usage)
    }

    /// Returns the sums of each tool from the cells of a level. The histograms are empty unless
    /// `measure` needs one.
    fn by_tool(
        &self,
        level: Level,
        from_ms: u64,
        to_ms: u64,
        measure: Measure,
    ) -> Result<impl Iterator<Item = ((String, String), Values)>> {
        let query = Query {
            measures: vec![measure],
            by: vec![Dimension::Upstream, Dimension::Tool],
            filters: Vec::new(),
            from_ms,
            to_ms,
            top: None,
            is_ascending: false,
            step_seconds: None,
            now_ms: to_ms,
        };
        let range = (level.bucket(from_ms), level.bucket(to_ms) + 1);
        let groups = self.groups(&query, level, range)?.into_iter();
        Ok(groups.filter_map(|(names, group)| {
            let [upstream, tool]: [String; 2] = names.try_into().ok()?;
            Some(((upstream, tool), group.total))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, History, HistoryOptions};

    const NOW_MS: u64 = 1_790_000_000_000;

    fn call(days_ago: u64, tool: &str, upstream_us: Option<u64>, is_tool_failure: bool) -> Event {
        Event {
            at_ms: NOW_MS - days_ago * DAY_MS,
            upstream: "files".to_owned(),
            tool: tool.to_owned(),
            latency_us: 9_000_000,
            upstream_us,
            is_tool_failure,
            ..Event::default()
        }
    }

    #[test]
    fn usage_has_windows_and_outlives_the_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.db");
        let read = Some(20_000);
        for events in [
            vec![call(100, "read", read, false), call(20, "read", read, true)],
            // The cache answers the second call, and the third has a name that no upstream lists.
            vec![
                call(1, "read", Some(60_000), false),
                call(1, "read", None, false),
                call(1, OTHER, read, false),
            ],
        ] {
            let history = History::open(&path, &HistoryOptions::default()).unwrap();
            events.into_iter().for_each(|event| history.record(event));
            assert!(history.flush());
        }
        let usage = Reader::open(&path).unwrap().tool_usage(NOW_MS).unwrap();
        let found: Vec<_> = usage.keys().map(|(_, tool)| tool.as_str()).collect();
        assert_eq!(found, ["read"]);
        let read = usage.values().next().copied().unwrap_or_default();
        assert_eq!((read.calls, read.failures), (3, 1));
        assert_eq!((read.calls_7d, read.calls_30d), (1, 2));
        assert!((read.average_ms - 100.0 / 3.0).abs() < 1e-6, "{read:?}");
        assert!((32.0..=66.0).contains(&read.p95_ms), "{read:?}");
    }
}
