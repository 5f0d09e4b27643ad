//! Records requests as logs, metrics, records in memory and audit entries.

mod alerting;
mod operations;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use context_guard_cursor_store::Clock;
use context_guard_history::History;
use tracing::{info, warn};

use crate::alerts::Alerts;
use crate::audit::{AuditEntry, AuditLog};
use crate::engine::{CacheTier, CallContext, ResponseMode};
use crate::history_event::{event, sample};
use crate::known_tools::KnownTools;
use crate::metrics::Metrics;
use crate::operation::Tracing;
use crate::record::{
    AnswerEvent, AnswerKind, Outcome, RecordQuery, TelemetryRecord, optimization, outcome_of,
};
use crate::revision::Change;
use crate::sampler::Counted;
use crate::trace::RequestTrace;

/// The target of log events about single requests, so that a log filter can select them.
const REQUEST_TARGET: &str = "context_guard::requests";
/// The maximum length of a name in records, audit entries, metrics and logs, in bytes. It bounds
/// memory, because clients choose names.
const MAX_NAME_BYTES: usize = 256;
/// The maximum length of the name of an upstream in the history, in bytes.
const MAX_UPSTREAM_BYTES: usize = 64;
/// The maximum length of a message in audit entries and logs, in bytes.
const MAX_DETAIL_BYTES: usize = 1_024;

/// Returns the beginning of a text that a client chose: at most `bytes` bytes, at a character
/// boundary.
fn cut(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}

/// The names in a response to `tools/list`.
#[derive(serde::Deserialize)]
struct ToolList<'m> {
    #[serde(borrow)]
    result: Tools<'m>,
}

#[derive(serde::Deserialize)]
struct Tools<'m> {
    #[serde(borrow)]
    tools: Vec<Tool<'m>>,
}

#[derive(serde::Deserialize)]
struct Tool<'m> {
    #[serde(borrow)]
    name: Cow<'m, str>,
}

fn cut_name(name: &str) -> &str {
    cut(name, MAX_NAME_BYTES)
}

/// Records requests and changes of revisions as logs, metrics, records in memory and audit entries.
pub struct Recorder {
    ring: Mutex<VecDeque<Arc<TelemetryRecord>>>,
    capacity: usize,
    /// The Prometheus metrics of this gateway.
    pub metrics: Metrics,
    audit: Option<AuditLog>,
    /// The history of calls. `None` if it is disabled.
    history: Option<Arc<History>>,
    /// The alerts. `None` if they are not evaluated.
    alerts: Option<Alerts>,
    tools: KnownTools,
    /// The destination of spans. Unset if requests are not traced.
    tracing: OnceLock<Tracing>,
    /// True if clients use standard input and output.
    uses_pipe: AtomicBool,
    /// The name that an upstream without a name in the configuration has in records, metrics and
    /// the history.
    unnamed_upstream: OnceLock<String>,
    /// The history's session for requests whose transport has no sessions.
    process_session: String,
    clock: Arc<dyn Clock>,
    last_request: AtomicU64,
}

impl Recorder {
    /// Returns a recorder that retains the last `capacity` records in memory. `audit` is the audit
    /// log, or `None` if none is configured.
    #[must_use]
    pub fn new(capacity: usize, audit: Option<AuditLog>, clock: Arc<dyn Clock>) -> Self {
        Self {
            ring: Mutex::new(VecDeque::with_capacity(capacity.min(1 << 16))),
            capacity,
            metrics: Metrics::new(),
            audit,
            history: None,
            alerts: None,
            tools: KnownTools::default(),
            tracing: OnceLock::new(),
            uses_pipe: AtomicBool::new(false),
            unnamed_upstream: OnceLock::new(),
            process_session: String::new(),
            clock,
            last_request: AtomicU64::new(0),
        }
    }

    /// Adds a history, in which calls are also recorded.
    #[must_use]
    pub fn with_history(self, history: Option<Arc<History>>) -> Self {
        Self { history, ..self }
    }

    /// Makes requests whose transport has no sessions one session in the history, because the
    /// process serves one client.
    #[must_use]
    pub fn with_process_session(self) -> Self {
        let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        Self { process_session: format!("process {random:016x}"), ..self }
    }

    /// Records in the history the estimated and the counted tokens of an answer.
    pub fn sampled(&self, counted: &Counted<'_>) {
        if let Some(history) = &self.history {
            let upstream = self.name_of("");
            let sample = sample(&self.tools, counted, upstream, self.now_ms());
            sample.into_iter().for_each(|sample| history.record_sample(sample));
        }
    }

    /// Returns the history of calls, or `None` if it is disabled.
    #[must_use]
    pub fn history(&self) -> Option<&Arc<History>> {
        self.history.as_ref()
    }

    /// Sets the name of an upstream without a name in the configuration, such as that of `wrap`.
    /// Only the first call has an effect.
    pub fn name_upstream(&self, name: &str) {
        let _ = self.unnamed_upstream.set(cut(name, MAX_UPSTREAM_BYTES).to_owned());
    }

    /// Returns the name of an upstream in records. `upstream` is its name in the configuration,
    /// which may be empty. The result is empty if the upstream has not told its own name either.
    fn name_of<'n>(&'n self, upstream: &'n str) -> &'n str {
        match upstream {
            "" => self.unnamed_upstream.get().map_or("", String::as_str),
            name => name,
        }
    }

    /// Records the names of tools that an upstream lists, given its response to `tools/list`.
    pub fn listed(&self, upstream: &str, response: &[u8]) {
        if let Ok(list) = serde_json::from_slice::<ToolList<'_>>(response) {
            let names: Vec<&str> = list.result.tools.iter().map(|tool| &*tool.name).collect();
            self.tools.add(self.name_of(upstream), names);
        }
    }

    /// Returns a new request id: the number of the request in this process.
    pub fn next_request(&self) -> String {
        (self.last_request.fetch_add(1, Ordering::Relaxed) + 1).to_string()
    }

    /// Records a request that was answered.
    pub fn answered(&self, answered: &AnswerEvent<'_>) {
        let AnswerEvent { cx, endpoint, decision, is_read, latency, bytes, outcome, .. } =
            *answered;
        let endpoint = decision
            .map(|decision| decision.endpoint.as_str())
            .filter(|endpoint| !endpoint.is_empty())
            .unwrap_or(endpoint);
        let (endpoint, principal) = (cut_name(endpoint), cut_name(&cx.principal));
        let origin = self.origin_of(is_read, cx, endpoint);
        let endpoint = origin.as_deref().unwrap_or(endpoint);
        // A read through the aggregator names its upstream in the endpoint alone.
        let upstream = match endpoint.split_once("::") {
            Some((upstream, _)) if cx.upstream.is_empty() => upstream,
            _ => self.name_of(&cx.upstream),
        };
        let kind = AnswerKind::for_endpoint(is_read, endpoint);
        // Without the guard, four characters count as one token.
        let estimate = match outcome {
            Outcome::Passed if decision.is_none() && endpoint.contains("::") => {
                (bytes as u64).div_ceil(4)
            }
            _ => 0,
        };
        let record = TelemetryRecord {
            request_id: cx.request_id.clone(),
            endpoint: endpoint.to_owned(),
            timestamp: self.now_ms(),
            estimated_tokens: decision.map_or(estimate, |decision| decision.estimated_tokens),
            response_bytes: bytes as u64,
            item_count: decision.and_then(|decision| decision.item_count),
            latency_ms: u64::try_from(latency.as_millis()).unwrap_or(u64::MAX),
            pagination_used: decision.is_some_and(|decision| decision.pagination_used),
            summarization_used: decision.is_some_and(|decision| decision.summarization_used),
            chunking_used: decision.is_some_and(|decision| decision.chunking_used),
            optimization_metadata: decision.map(optimization).unwrap_or_default(),
            original_tokens: decision.map_or(estimate, |decision| decision.original_tokens),
            original_bytes: decision.map_or(bytes as u64, |decision| decision.original_bytes),
            mode: decision.map(|decision| decision.mode.clone()).unwrap_or_default(),
            outcome: match decision {
                Some(decision) if outcome == Outcome::Passed => outcome_of(decision),
                _ => outcome,
            },
            principal: principal.to_owned(),
            upstream: upstream.to_owned(),
            kind,
            revision: decision.and_then(|decision| decision.revision).unwrap_or_default(),
            cache: decision
                .and_then(|decision| decision.cache)
                .map_or("", CacheTier::name)
                .to_owned(),
            tier: decision.filter(|decision| decision.mode != "catalog").map(CacheTier::of_answer),
            parent: answered.parent.to_owned(),
            tokens_kept_out: answered.kept_out,
            upstream_us: answered.upstream_us(),
            is_tool_failure: answered.is_tool_failure(),
        };
        self.count_operation(answered, &record);
        self.count_call(answered, &record);
        let traced = answered.trace.filter(|trace| trace.server.is_sampled);
        let traceparent = traced.map(|trace: &RequestTrace| trace.server.traceparent());
        info!(
            target: REQUEST_TARGET,
            request = record.request_id,
            traceparent = traceparent.as_deref(),
            endpoint = record.endpoint,
            outcome = ?record.outcome,
            mode = record.mode,
            original_tokens = record.original_tokens,
            tokens = record.estimated_tokens,
            original_bytes = record.original_bytes,
            bytes = record.response_bytes,
            latency_ms = record.latency_ms,
            parent = Some(&record.parent).filter(|parent| !parent.is_empty()),
            tokens_kept_out = Some(record.tokens_kept_out).filter(|tokens| *tokens > 0),
            "request answered"
        );
        if let Some(audit) = &self.audit {
            audit.write(&AuditEntry {
                timestamp: record.timestamp,
                event: "request",
                request_id: &record.request_id,
                parent: &record.parent,
                principal: &record.principal,
                endpoint: &record.endpoint,
                outcome: &format!("{:?}", record.outcome),
                ..AuditEntry::default()
            });
        }
        if self.capacity > 0 {
            let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
            if ring.len() >= self.capacity {
                ring.pop_front();
            }
            ring.push_back(Arc::new(record));
        }
    }

    /// Counts a call in the history and for alerts.
    fn count_call(&self, answered: &AnswerEvent<'_>, record: &TelemetryRecord) {
        if self.history.is_none() && self.alerts.is_none() {
            return;
        }
        let Some(event) = event(&self.tools, answered, record, &self.process_session) else {
            return;
        };
        if let Some(alerts) = &self.alerts {
            let mode = answered.decision.and_then(|decision| decision.response_mode);
            let is_metadata = matches!(mode, Some(ResponseMode::IdsOnly | ResponseMode::Metadata));
            alerts.observe(&event, is_metadata.then_some(record.principal.as_str()));
        }
        if let Some(history) = &self.history {
            history.record(event);
        }
    }

    /// Returns the endpoint, with its upstream, of the answer that a read continues. It is the
    /// principal's last call of the tool. `None` if the request is not such a read, or names the
    /// upstream itself.
    fn origin_of(&self, is_read: bool, cx: &CallContext, endpoint: &str) -> Option<String> {
        if !is_read || !cx.upstream.is_empty() || endpoint.contains("::") {
            return None;
        }
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let is_origin = |record: &&Arc<TelemetryRecord>| {
            record.kind == AnswerKind::Call
                && record.principal == cut_name(&cx.principal)
                && record.endpoint.split_once("::").is_some_and(|(_, tool)| tool == endpoint)
        };
        ring.iter().rev().find(is_origin).map(|record| record.endpoint.clone())
    }

    /// Records a request that was refused. `reason` is a metric label, and `detail` is the message
    /// for the caller.
    pub fn refused(&self, principal: &str, reason: &'static str, detail: &str) {
        let (principal, detail) = (cut_name(principal), cut(detail, MAX_DETAIL_BYTES));
        self.metrics.refused(reason);
        info!(target: REQUEST_TARGET, principal, reason, detail, "request refused");
        if let Some(audit) = &self.audit {
            audit.write(&AuditEntry {
                timestamp: self.now_ms(),
                event: "refused",
                principal,
                outcome: reason,
                detail,
                ..AuditEntry::default()
            });
        }
    }

    /// Records in the audit log that values of stored answers were sent to the tool `endpoint`.
    /// `sources` are the endpoints of these answers, for which an entry is recorded, too.
    pub fn referenced(&self, principal: &str, endpoint: &str, sources: &[String]) {
        let Some(audit) = self.audit.as_ref().filter(|_| !sources.is_empty()) else { return };
        let (principal, endpoint) = (cut_name(principal), cut_name(endpoint));
        let write = |endpoint: &str, outcome: &str, detail: &str| {
            let (timestamp, event) = (self.now_ms(), "reference");
            let names = AuditEntry { principal, endpoint, ..AuditEntry::default() };
            audit.write(&AuditEntry { timestamp, event, outcome, detail, ..names });
        };
        for source in sources {
            let source = cut_name(source);
            write(source, "Sent", &format!("to {endpoint}"));
            write(endpoint, "Received", &format!("from {source}"));
        }
    }

    /// Records a change of revisions, with old and new values.
    pub fn changed(&self, change: &Change) {
        self.metrics.changed(change);
        if let Some(audit) = &self.audit {
            audit.write(&AuditEntry {
                timestamp: self.now_ms(),
                event: "change",
                principal: change.actor.name(),
                outcome: change.event.name(),
                detail: &serde_json::to_string(change).unwrap_or_default(),
                ..AuditEntry::default()
            });
        }
    }

    /// Records that the definition of an upstream's tool has changed or is suspicious. `kind` is a
    /// metric label: `changed` or `suspicious`.
    pub fn definition_alert(&self, upstream: &str, tool: &str, kind: &'static str, detail: &str) {
        let (tool, detail) = (cut_name(tool), cut(detail, MAX_DETAIL_BYTES));
        self.metrics.definition_alert(upstream, kind);
        warn!(upstream, tool = ?tool, detail = ?detail, "the definition of a tool is {kind}");
        self.audit_definition("gateway", &format!("{upstream}::{tool}"), kind, detail);
    }

    /// Logs a glob of the policy, as `setting: glob`, that matches no tool of any upstream.
    pub fn unmatched_glob(&self, glob: &str) {
        let glob = cut(glob, MAX_DETAIL_BYTES);
        warn!(glob = ?glob, "no tool matches a glob of the policy: check its spelling");
    }

    /// Records that an operator approved the definition of a tool, `upstream::tool`.
    pub fn definition_approved(&self, tool: &str) {
        let tool = cut_name(tool);
        info!(tool = ?tool, "an operator approved the definition of a tool");
        self.audit_definition("operator", tool, "approved", "");
    }

    /// Records that an operator updated the scores of tools. `tools` is the number of tools with
    /// calls. `is_changed` is true if a score may have changed.
    pub fn scores_recomputed(&self, tools: usize, is_changed: bool) {
        info!(tools, is_changed, "an operator had the scores of tools updated");
        self.audit_operator("scores", is_changed, &format!("{tools} tools with calls"));
    }

    /// Records that an operator removed answers from the cache. `selection` is the purge in JSON,
    /// and `removed` the number of answers.
    pub fn cache_purged(&self, selection: &str, removed: usize) {
        let selection = cut(selection, MAX_DETAIL_BYTES);
        info!(removed, selection = ?selection, "an operator removed answers from the cache");
        let detail = format!("{removed} answers removed by {selection}");
        self.audit_operator("cache", removed > 0, &detail);
    }

    fn audit_operator(&self, event: &str, is_changed: bool, detail: &str) {
        if let Some(audit) = &self.audit {
            audit.write(&AuditEntry {
                timestamp: self.now_ms(),
                event,
                principal: "operator",
                outcome: if is_changed { "changed" } else { "unchanged" },
                detail,
                ..AuditEntry::default()
            });
        }
    }

    fn audit_definition(&self, principal: &str, endpoint: &str, outcome: &str, detail: &str) {
        if let Some(audit) = &self.audit {
            let (timestamp, event) = (self.now_ms(), "definition");
            let names = AuditEntry { principal, endpoint, ..AuditEntry::default() };
            audit.write(&AuditEntry { timestamp, event, outcome, detail, ..names });
        }
    }

    /// Returns true if requests must be refused, because the audit log is required and cannot be
    /// written.
    pub fn lacks_audit(&self) -> bool {
        self.audit.as_ref().is_some_and(AuditLog::is_failing)
    }

    /// Returns the metrics in the text format of Prometheus.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        self.metrics.audit_lost(self.audit.as_ref().map_or(0, AuditLog::lost));
        self.metrics.history_dropped(self.history.as_ref().map_or(0, |history| history.dropped()));
        self.metrics.text()
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.clock.now().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the records in memory that match a query, the newest first.
    #[must_use]
    pub fn query(&self, query: &RecordQuery) -> Vec<Arc<TelemetryRecord>> {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = ring.iter().rev().filter(|record| query.fits(record));
        fitting.take(query.limit.unwrap_or(100)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Decision, LossClass};
    use crate::record::RequestKind;
    use context_guard_cursor_store::clock::SystemClock;
    use std::time::Duration;

    fn decision(endpoint: &str, original: u64, sent: u64) -> Decision {
        Decision {
            endpoint: endpoint.to_owned(),
            mode: "page".to_owned(),
            loss: LossClass::Partial,
            original_tokens: original,
            estimated_tokens: sent,
            original_bytes: original * 4,
            response_bytes: sent * 4,
            budget: 1_000,
            ..Decision::default()
        }
    }

    /// Returns the sum of a metric over all labels that contain `label`.
    /// Returns an answer to a call of a tool.
    fn tool_answer<'a>(
        cx: &'a CallContext,
        endpoint: &'a str,
        decision: &'a Decision,
    ) -> AnswerEvent<'a> {
        AnswerEvent {
            cx,
            endpoint,
            kind: RequestKind::Tool,
            method: "tools/call",
            json_rpc_id: "1",
            is_part: false,
            parent: "",
            kept_out: 0,
            trace: None,
            decision: Some(decision),
            is_read: false,
            latency: Duration::ZERO,
            bytes: 1,
            outcome: Outcome::Passed,
        }
    }

    fn sum(recorder: &Recorder, name: &str, label: &str) -> u64 {
        let text = recorder.metrics.text();
        let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    proptest::proptest! {
        #[test]
        fn net_savings_are_original_minus_first_minus_reads(
            walks in proptest::collection::vec(
                (
                    1u64..500_000,
                    1u64..12_000,
                    proptest::collection::vec(1u64..12_000, 0..6),
                    0usize..3,
                ),
                1..12,
            ),
        ) {
            let recorder = Recorder::new(100, None, Arc::new(SystemClock));
            let answer = |upstream: &str, endpoint: &str, is_read, original, sent| {
                let cx = CallContext { upstream: upstream.into(), ..CallContext::default() };
                let decision = decision(endpoint, original, sent);
                let answer = tool_answer(&cx, "tools/call", &decision);
                recorder.answered(&AnswerEvent { is_read, ..answer });
            };
            let (mut net, mut oversized) = (0i128, 0);
            for (original, first, reads, tool) in &walks {
                let tool = format!("tool{tool}");
                answer("up", &format!("up::{tool}"), false, *original, *first);
                oversized += u64::from(*original > 1_000);
                // The aggregator does not know the upstream of a read.
                for sent in reads {
                    answer("", &tool, true, *original, *sent);
                }
                let sent = first + reads.iter().sum::<u64>();
                net += i128::from(*original) - i128::from(sent);
            }
            // A list of tools is no saving.
            answer("up", "tools/list", false, 137, 554);
            let calls = |side: &str| {
                let of = |kind: &str| -> u64 {
                    let text = recorder.metrics.text();
                    let lines = text.lines().filter(|line| {
                        line.starts_with("context_guard_tokens_total{upstream=\"up\"")
                            && line.contains(&format!("kind=\"{kind}\""))
                            && line.contains(&format!("side=\"{side}\""))
                    });
                    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
                };
                i128::from(of("call") + of("read"))
            };
            proptest::prop_assert_eq!(calls("original") - calls("sent"), net);
            proptest::prop_assert_eq!(sum(&recorder, "context_guard_oversized_total", "up"), oversized);
            proptest::prop_assert_eq!(sum(&recorder, "context_guard_tokens_total", "kind=\"catalog\""), 137 + 554);
        }
    }

    #[test]
    fn unnamed_upstream_is_recorded_under_its_own_name() {
        let recorder = Recorder::new(1, None, Arc::new(SystemClock));
        recorder.name_upstream("files-server");
        let (cx, decision) = (CallContext::default(), decision("read", 9_000, 900));
        recorder.answered(&tool_answer(&cx, "read", &decision));
        assert_eq!(recorder.query(&RecordQuery::default())[0].upstream, "files-server");
        assert_eq!(sum(&recorder, "context_guard_oversized_total", "=\"files-server\""), 1);
        assert!(!recorder.metrics.text().contains("{upstream=\"\""));
    }

    #[test]
    fn ring_is_bounded_and_queryable() {
        let recorder = Recorder::new(3, None, Arc::new(SystemClock));
        let cx = CallContext {
            principal: "p".into(),
            upstream: "files".into(),
            ..CallContext::default()
        };
        for (endpoint, outcome) in [
            ("gone", Outcome::Passed),
            ("files::read", Outcome::Passed),
            ("files::list", Outcome::UpstreamError),
            ("web::get", Outcome::Passed),
        ] {
            recorder.answered(&AnswerEvent {
                cx: &cx,
                endpoint,
                kind: RequestKind::Tool,
                method: "tools/call",
                json_rpc_id: "1",
                is_part: false,
                parent: "",
                kept_out: 0,
                trace: None,
                decision: None,
                is_read: false,
                latency: Duration::from_millis(7),
                bytes: 10,
                outcome,
            });
        }
        let found = |query: RecordQuery| {
            recorder.query(&query).iter().map(|found| found.endpoint.clone()).collect::<Vec<_>>()
        };
        assert_eq!(found(RecordQuery::default()), ["web::get", "files::list", "files::read"]);
        let files = RecordQuery { endpoint: Some("files::*".into()), ..RecordQuery::default() };
        assert_eq!(found(files), ["files::list", "files::read"]);
        let failed =
            RecordQuery { outcome: Some("upstream_error".into()), ..RecordQuery::default() };
        assert_eq!(found(failed), ["files::list"]);
        assert!(found(RecordQuery { to: Some(1), ..RecordQuery::default() }).is_empty());
        assert!(recorder.metrics.text().contains("context_guard_requests_total"));
    }

    #[test]
    fn purges_of_the_cache_are_audited() {
        let folder = tempfile::tempdir().unwrap();
        let audit = AuditLog::open(folder.path(), 1, true).unwrap();
        let recorder = Recorder::new(10, Some(audit), Arc::new(SystemClock));
        recorder.cache_purged(r#"{"tool":"docs::*","document":null}"#, 3);
        recorder.cache_purged("{}", 0);
        let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let text = std::fs::read_to_string(file).unwrap();
        let entries: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let text = |at: usize, member: &str| entries[at][member].as_str().unwrap_or_default();
        assert_eq!((text(0, "event"), text(0, "principal")), ("cache", "operator"));
        assert_eq!((text(0, "outcome"), text(1, "outcome")), ("changed", "unchanged"));
        assert!(text(0, "detail").contains("docs::*"), "{entries:?}");
    }

    #[test]
    fn long_names_are_cut() {
        let folder = tempfile::tempdir().unwrap();
        let audit = AuditLog::open(folder.path(), 1, false).unwrap();
        let recorder = Recorder::new(10, Some(audit), Arc::new(SystemClock));
        // The limit of 256 bytes is inside of a character of the principal.
        let long = format!("x{}", "é".repeat(1 << 20));
        let cx = CallContext {
            principal: long.clone(),
            upstream: "files".into(),
            ..CallContext::default()
        };
        recorder.answered(&AnswerEvent {
            cx: &cx,
            endpoint: &format!("files::{long}"),
            kind: RequestKind::Tool,
            method: "tools/call",
            json_rpc_id: "1",
            is_part: false,
            parent: "",
            kept_out: 0,
            trace: None,
            decision: None,
            is_read: false,
            latency: Duration::ZERO,
            bytes: 10,
            outcome: Outcome::Passed,
        });
        recorder.refused(&long, "key", &long);
        let record = recorder.query(&RecordQuery::default()).remove(0);
        assert_eq!((record.endpoint.len(), record.principal.len()), (256, 255));
        assert!(record.endpoint.ends_with('é'));
        assert!(recorder.metrics.text().len() < 20_000);
        drop(recorder);
        let audited: u64 = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert!((500..5_000).contains(&audited), "{audited}");
    }
}
