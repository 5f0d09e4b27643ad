//! Converts an answer to an event of the history.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use context_guard_history::{Event, Follows, OTHER, Outcome as HistoryOutcome, Sample};
use context_guard_protocol::client::known_name;

use crate::known_tools::KnownTools;
use crate::record::{AnswerEvent, Outcome, RequestKind, TelemetryRecord, outcome_of};
use crate::sampler::Counted;

/// The tool name under which the history stores refused reads, whose call is unknown.
const READ_TOOL: &str = "context_guard_read";

/// The tool that runs programs, which no upstream lists.
const RUN_TOOL: &str = "context_guard_run";

/// Returns the history event of an answer. `process_session` is the session of requests whose
/// transport has no sessions. `None` for requests that are not calls, such as lists.
pub(super) fn event(
    tools: &KnownTools,
    answered: &AnswerEvent<'_>,
    record: &TelemetryRecord,
    process_session: &str,
) -> Option<Event> {
    let decision = answered.decision;
    let continues = decision.and_then(|decision| decision.continues.clone());
    let cursor_error = decision.and_then(|decision| decision.cursor_error.as_deref());
    let name = record.endpoint.split_once("::").map_or(record.endpoint.as_str(), |(_, tool)| tool);
    let is_listed = tools.contains(&record.upstream, name);
    let tool = match answered.kind {
        RequestKind::Tool if is_listed => name,
        RequestKind::Tool if cursor_error.is_some() => READ_TOOL,
        RequestKind::Tool if name == RUN_TOOL => RUN_TOOL,
        RequestKind::Tool | RequestKind::Http => OTHER,
        RequestKind::Resource => "resources/read",
        RequestKind::Prompt => "prompts/get",
        RequestKind::Task => "tasks/result",
        RequestKind::Other => return None,
    };
    // A component that does not name the stored answer still tells that it served one.
    let is_read = answered.is_read && record.mode != "error" && is_listed;
    let follows = match continues {
        None if cursor_error.is_none() && !is_read => Follows::Nothing,
        continues => Follows::Call(continues),
    };
    let is_unshaped = decision.is_some_and(|decision| decision.unshaped);
    // Without a decision, four bytes count as one token.
    let (before, sent) = match (decision, record.outcome) {
        // The result went to a program, and not to a model.
        _ if !answered.parent.is_empty() => (0, 0),
        (Some(_), _) if is_unshaped => (record.original_tokens, record.original_tokens),
        (None, Outcome::Passed | Outcome::Fault) => {
            let estimate = record.response_bytes.div_ceil(4);
            (estimate, estimate)
        }
        _ => (record.original_tokens, record.estimated_tokens),
    };
    let budget = record.optimization_metadata.budget;
    let client = answered.cx.client_name.as_deref().and_then(known_name);
    Some(Event {
        at_ms: record.timestamp,
        upstream: record.upstream.clone(),
        tool: tool.to_owned(),
        client: client.unwrap_or(OTHER),
        session: session_digest(match answered.cx.session.as_str() {
            "" => process_session,
            session => session,
        }),
        revision: record.revision,
        outcome: outcome(record, cursor_error),
        mode: record.mode.clone(),
        tokens_before: before,
        tokens_sent: sent,
        tokens_kept_out: answered.kept_out,
        bytes_before: record.original_bytes,
        bytes_sent: record.response_bytes,
        latency_us: u64::try_from(answered.latency.as_micros()).unwrap_or(u64::MAX),
        upstream_us: record.upstream_us,
        is_tool_failure: record.is_tool_failure,
        is_oversized: budget > 0 && record.original_tokens > budget,
        is_paged: record.pagination_used,
        is_chunked: record.chunking_used,
        is_condensed: record.summarization_used,
        snapshots: decision.map(|decision| decision.snapshots.clone()).unwrap_or_default(),
        follows,
    })
}

/// Returns the sample of an answer whose tokens were counted, at the time `at_ms`. `upstream` is
/// the upstream's name if the decision contains none. `None` if both are empty.
pub(super) fn sample(
    tools: &KnownTools,
    counted: &Counted<'_>,
    upstream: &str,
    at_ms: u64,
) -> Option<Sample> {
    let decision = counted.decision;
    let (configured, name) = decision.endpoint.split_once("::").unwrap_or(("", &decision.endpoint));
    let shown = if configured.is_empty() { upstream } else { configured };
    if shown.is_empty() {
        return None;
    }
    let outcome = match outcome_of(decision) {
        Outcome::Shaped if decision.chunking_used => HistoryOutcome::Chunked,
        Outcome::Shaped if decision.pagination_used => HistoryOutcome::Paginated,
        Outcome::Shaped if decision.summarization_used => HistoryOutcome::Summarized,
        Outcome::Shaped => HistoryOutcome::Shaped,
        Outcome::Refused => HistoryOutcome::Refused,
        _ => HistoryOutcome::Passed,
    };
    Some(Sample {
        at_ms,
        upstream: shown.to_owned(),
        tool: if tools.contains(shown, name) { name } else { OTHER }.to_owned(),
        client: counted.client.and_then(known_name).unwrap_or(OTHER),
        outcome,
        revision: decision.revision.unwrap_or_default(),
        estimated: decision.estimated_tokens,
        actual: counted.actual,
        is_off: counted.is_off,
    })
}

fn outcome(record: &TelemetryRecord, cursor_error: Option<&str>) -> HistoryOutcome {
    match record.outcome {
        Outcome::Passed => HistoryOutcome::Passed,
        Outcome::Refused => match cursor_error {
            Some("cursor_expired") => HistoryOutcome::CursorExpired,
            Some("cursor_unavailable") => HistoryOutcome::CursorUnavailable,
            _ => HistoryOutcome::Refused,
        },
        Outcome::Fault => HistoryOutcome::Fault,
        Outcome::UpstreamError => HistoryOutcome::UpstreamError,
        Outcome::Shaped if record.chunking_used => HistoryOutcome::Chunked,
        Outcome::Shaped if record.pagination_used => HistoryOutcome::Paginated,
        Outcome::Shaped if record.summarization_used => HistoryOutcome::Summarized,
        Outcome::Shaped => HistoryOutcome::Shaped,
    }
}

/// Returns a digest of a session id, which distinguishes sessions. The id itself is not stored,
/// because a reader of the file could use it.
pub(super) fn session_digest(id: &str) -> String {
    if id.is_empty() {
        return String::new();
    }
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use context_guard_cursor_store::clock::SystemClock;
    use context_guard_history::{History, HistoryOptions, Query, Reader};
    use serde_json::{Value, json};

    use super::*;
    use crate::engine::{CallContext, Decision, LossClass};
    use crate::recorder::Recorder;

    /// Returns a decision about a call of the stored answer `snapshot`.
    fn decision(endpoint: &str, mode: &str, tokens: [u64; 2], snapshot: &str) -> Decision {
        Decision {
            endpoint: endpoint.to_owned(),
            mode: mode.to_owned(),
            loss: if mode == "error" { LossClass::None } else { LossClass::Partial },
            pagination_used: mode == "page",
            original_tokens: tokens[0],
            estimated_tokens: tokens[1],
            budget: 1_000,
            snapshots: vec![snapshot.to_owned()],
            ..Decision::default()
        }
    }

    fn answered(recorder: &Recorder, kind: RequestKind, upstream: &str, decision: &Decision) {
        let cx = CallContext {
            upstream: upstream.to_owned(),
            session: "a secret id".to_owned(),
            client_name: Some("Claude-Code".to_owned()),
            ..CallContext::default()
        };
        recorder.answered(&AnswerEvent {
            cx: &cx,
            endpoint: "tools/call",
            kind,
            method: "tools/call",
            json_rpc_id: "1",
            is_part: false,
            parent: "",
            kept_out: 0,
            trace: None,
            decision: Some(decision),
            is_read: decision.snapshots.is_empty(),
            latency: Duration::from_millis(3),
            bytes: 10,
            outcome: Outcome::Passed,
        });
    }

    #[test]
    fn calls_and_reads_are_stored_by_closed_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.db");
        let history = History::open(&path, &HistoryOptions::default()).unwrap();
        let recorder = Recorder::new(10, None, Arc::new(SystemClock));
        let recorder = recorder.with_history(Some(Arc::clone(&history)));
        recorder
            .listed("up", br#"{"id":1,"result":{"tools":[{"name":"li\u0073t"},{"name":"b"}]}}"#);
        let tool = RequestKind::Tool;
        answered(&recorder, tool, "up", &decision("up::list", "page", [9_000, 900], "s"));
        // The aggregator does not know the upstream of a read.
        let mut read = decision("list", "page", [9_000, 700], "s");
        read.continues = read.snapshots.pop();
        answered(&recorder, tool, "", &read);
        answered(&recorder, tool, "up", &decision("up::made_up", "page", [50, 40], "t"));
        let mut expired = decision("up::context_guard_read", "error", [9, 9], "s");
        expired.snapshots.clear();
        expired.cursor_error = Some("cursor_expired".to_owned());
        answered(&recorder, tool, "up", &expired);
        let mut whole = decision("up::b", "page", [5_000, 500], "w");
        whole.unshaped = true;
        answered(&recorder, tool, "up", &whole);
        let list = decision("tools/list", "catalog", [100, 200], "x");
        answered(&recorder, RequestKind::Other, "up", &list);
        let uri = decision("file:///a", "page", [2_000, 900], "u");
        answered(&recorder, RequestKind::Resource, "up", &uri);
        assert!(history.flush());
        let parameters = [
            ("by", "tool,outcome"),
            ("measure", "net_tokens_saved,calls,followups"),
            ("where", "client:claude-code"),
        ];
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
        let query = Query::parse(parameters, u64::try_from(now).unwrap() + 1_000).unwrap();
        let answer = Reader::open(&path).unwrap().run(&query).unwrap();
        let row = |tool: &str, outcome: &str, numbers: [i64; 3]| {
            let [net, calls, followups] = numbers;
            json!({"tool": tool, "outcome": outcome, "net_tokens_saved": net, "calls": calls,
                "followups": followups})
        };
        assert_eq!(
            answer["rows"],
            Value::Array(vec![
                row("list", "paginated", [9_000 - 900 - 700, 1, 1]),
                row("resources/read", "paginated", [1_100, 1, 0]),
                row("_OTHER", "paginated", [10, 1, 0]),
                row("b", "paginated", [0, 1, 0]),
                row("context_guard_read", "cursor_expired", [-9, 0, 1]),
            ])
        );
        drop((recorder, history));
        let bytes = std::fs::read(&path).unwrap();
        let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(!has("a secret id") && !has("made_up") && !has("file:///a"));
    }
}
