//! The incidents of `docs/how-to/find-the-cause.md`: calls of a day are recorded, with an incident
//! in each of several tools. Each is then named from the query API alone, in at most 3 queries.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use context_guard::clock::ManualClock;
use context_guard::engine::{CallContext, Decision, LossClass};
use context_guard::history::{History, HistoryOptions};
use context_guard::telemetry::sampler::Counted;
use context_guard::telemetry::{AnswerEvent, Outcome, Recorder, RequestKind};
use context_guard_test_support::gateway::{Gateway, HttpClient};
use context_guard_test_support::operations::{admin_call, admin_config};
use context_guard_test_support::redis::Redis;
use context_guard_test_support::wait::wait_for;
use context_guard_test_support::{Context, Result, artifacts, ensure, peers};
use serde_json::{Value, json};

const HOUR_MS: u64 = 3_600_000;
const BUDGET: u64 = 4_000;
const TOOLS: [(&str, &[&str]); 5] = [
    ("crm", &["export", "contacts"]),
    ("docs", &["manual", "everything", "narrow", "translated"]),
    ("slow", &["report"]),
    ("flapping", &["status"]),
    ("files", &["read", "list"]),
];

/// A call of a tool, with the members that incidents change.
#[derive(Clone)]
struct SeededCall {
    endpoint: &'static str,
    client: &'static str,
    original: u64,
    sent: u64,
    /// The tokens of each follow-up read.
    reads: Vec<u64>,
    revision: u64,
    outcome: Outcome,
    is_lossless: bool,
    milliseconds: u64,
}

impl SeededCall {
    fn new(endpoint: &'static str) -> Self {
        Self {
            endpoint,
            client: "claude-code",
            original: 900,
            sent: 900,
            reads: Vec::new(),
            revision: 1,
            outcome: Outcome::Passed,
            is_lossless: false,
            milliseconds: 40,
        }
    }

    fn paged(self, original: u64, sent: u64, reads: &[u64]) -> Self {
        Self { original, sent, reads: reads.to_vec(), ..self }
    }
}

struct Seeds {
    recorder: Recorder,
    history: Arc<History>,
    clock: Arc<ManualClock>,
    last: Cell<u64>,
}

impl Seeds {
    fn call(&self, call: &SeededCall) {
        self.last.set(self.last.get() + 1);
        let snapshot = self.last.get().to_string();
        let is_paged = call.sent < call.original && !call.is_lossless;
        let mut decision = Decision {
            endpoint: call.endpoint.to_owned(),
            original_tokens: call.original,
            estimated_tokens: call.sent,
            original_bytes: call.original * 4,
            budget: BUDGET,
            revision: Some(call.revision),
            ..Decision::default()
        };
        if is_paged {
            decision.mode = "page".to_owned();
            decision.loss = LossClass::Partial;
            decision.pagination_used = true;
            decision.snapshots = vec![snapshot.clone()];
        } else if call.is_lossless {
            decision.loss = LossClass::Lossless;
        }
        self.answered(call, &decision, false);
        for tokens in &call.reads {
            decision.estimated_tokens = *tokens;
            decision.snapshots.clear();
            decision.continues = Some(snapshot.clone());
            self.answered(call, &decision, true);
        }
    }

    /// Records the call of a tool, and that its answer has `actual` tokens.
    fn sampled(&self, call: &SeededCall, actual: u64) {
        self.call(call);
        let decision = Decision {
            endpoint: call.endpoint.to_owned(),
            estimated_tokens: call.sent,
            revision: Some(call.revision),
            ..Decision::default()
        };
        let is_off = call.sent.abs_diff(actual) * 10 > actual * 3;
        let client = Some(call.client);
        self.recorder.sampled(&Counted { decision: &decision, client, actual, is_off });
    }

    fn expired_read(&self, endpoint: &'static str) {
        let decision = Decision {
            endpoint: endpoint.to_owned(),
            mode: "error".to_owned(),
            cursor_error: Some("cursor_expired".to_owned()),
            ..Decision::default()
        };
        self.answered(&SeededCall::new(endpoint), &decision, true);
    }

    fn answered(&self, call: &SeededCall, decision: &Decision, is_read: bool) {
        let cx = CallContext {
            upstream: call.endpoint.split("::").next().unwrap_or_default().to_owned(),
            client_name: Some(call.client.to_owned()),
            ..CallContext::default()
        };
        self.recorder.answered(&AnswerEvent {
            cx: &cx,
            endpoint: call.endpoint,
            kind: RequestKind::Tool,
            method: "tools/call",
            json_rpc_id: "1",
            is_part: false,
            parent: "",
            kept_out: 0,
            trace: None,
            decision: (call.outcome == Outcome::Passed).then_some(decision),
            is_read,
            latency: Duration::from_millis(call.milliseconds),
            bytes: usize::try_from(call.sent * 4).unwrap_or_default(),
            outcome: call.outcome,
        });
    }
}

/// Records the calls of the last 24 whole hours before `now_ms`, with all incidents.
fn seed(path: &std::path::Path, now_ms: u64) -> Result<()> {
    // Calls are in the middle of tenths of an hour, so that each hour of the clock has ten.
    let start_ms = now_ms / HOUR_MS * HOUR_MS - 24 * HOUR_MS - HOUR_MS / 20;
    let clock = Arc::new(ManualClock::at_ms(start_ms));
    let history = History::open(path, &HistoryOptions::default())?;
    let recorder = Recorder::new(0, None, Arc::<ManualClock>::clone(&clock));
    let recorder = recorder.with_history(Some(Arc::clone(&history)));
    for (upstream, tools) in TOOLS {
        let tools: Vec<Value> = tools.iter().map(|tool| json!({"name": tool})).collect();
        let list = json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}});
        recorder.listed(upstream, list.to_string().as_bytes());
    }
    let seeds = Seeds { recorder, history, clock, last: Cell::new(0) };
    for hour in 0..24 {
        for call in 0..10 {
            seeds.clock.advance_ms(HOUR_MS / 10);
            seed_moment(&seeds, hour, call);
        }
        ensure!(seeds.history.flush(), "the history is not written");
    }
    ensure!(seeds.history.dropped() == 0, "{} calls are lost", seeds.history.dropped());
    Ok(())
}

fn seed_moment(seeds: &Seeds, hour: u64, call: u64) {
    let of = SeededCall::new;
    // A tool grows twenty-fold.
    let export = if hour < 18 { 1_000 } else { 20_000 };
    seeds.call(&of("crm::export").paged(export, export.min(3_900), &[]));
    // A server repeats its content, which the guard removes without loss.
    seeds.call(&SeededCall { is_lossless: true, ..of("docs::manual").paged(3_000, 1_500, &[]) });
    // A model reads everything: the reads cost more than the first answer saved.
    let reads = [4_000; 4];
    seeds.call(&of("docs::everything").paged(15_000, 3_900, &reads));
    // A budget is too small: each answer needs one more page.
    seeds.call(&of("docs::narrow").paged(4_500, 3_900, &[600]));
    // A client never reads on. Other clients do.
    let paged = of("files::read").paged(9_000, 3_900, &[]);
    seeds.call(&SeededCall { client: "cursor-vscode", ..paged.clone() });
    seeds.call(&SeededCall { reads: vec![3_000], ..paged });
    // Estimates are wrong for texts in Japanese.
    seeds.sampled(&of("docs::translated"), 1_400);
    seeds.sampled(&of("files::list"), 910);
    // A slow upstream.
    seeds.call(&SeededCall { milliseconds: 9_000, ..of("slow::report") });
    // A flapping upstream: every third hour it fails.
    let is_down = hour.is_multiple_of(3);
    let outcome = if is_down { Outcome::UpstreamError } else { Outcome::Passed };
    seeds.call(&SeededCall { outcome, ..of("flapping::status") });
    // A canary is worse than the active revision.
    let is_canary = call.is_multiple_of(2) && hour >= 20;
    seeds.call(&of("crm::contacts"));
    if is_canary {
        let outcome = if call.is_multiple_of(4) { Outcome::Fault } else { Outcome::Passed };
        seeds.call(&SeededCall { revision: 2, outcome, ..of("crm::contacts") });
    }
    // The guard fails in calls of all upstreams.
    if hour == 12 {
        for endpoint in ["crm::contacts", "docs::manual", "slow::report", "files::list"] {
            seeds.call(&SeededCall { outcome: Outcome::Fault, ..of(endpoint) });
        }
    }
    // A key rotation expires cursors.
    if hour == 15 {
        seeds.expired_read("files::read");
    }
}

/// The query API, which counts the queries of an incident.
struct QueryApi<'g> {
    gateway: &'g Gateway,
    queries: Cell<u32>,
}

impl QueryApi<'_> {
    fn rows(&self, query: &str) -> Result<Vec<Value>> {
        self.queries.set(self.queries.get() + 1);
        let (status, body) = self.gateway.get_admin(&format!("/admin/v1/query?{query}"))?;
        ensure!(status == 200, "{query}: {body}");
        let answer: Value = serde_json::from_str(&body)?;
        answer["rows"].as_array().cloned().context(body)
    }
}

fn number(row: &Value, measure: &str) -> f64 {
    row[measure].as_f64().unwrap_or_default()
}

fn name(row: &Value, dimension: &str) -> String {
    row[dimension].as_str().map_or_else(|| row[dimension].to_string(), str::to_owned)
}

/// Returns the values of a measure in the periods of a row.
fn points(row: &Value, measure: &str) -> Vec<f64> {
    let points = row["points"].as_array().into_iter().flatten();
    points.map(|point| number(point, measure)).collect()
}

fn largest(rows: Vec<Value>, by: impl Fn(&Value) -> f64) -> Result<Value> {
    rows.into_iter().max_by(|a, b| by(a).total_cmp(&by(b))).context("no rows")
}

type Diagnosis = fn(&QueryApi<'_>) -> Result<String>;

/// The incidents: a name, the diagnosis, and its expected result.
const INCIDENTS: [(&str, Diagnosis, &str); 11] = [
    ("a tool grows", growing_tool, "export grew 20-fold"),
    ("repeated content", repeated_content, "manual: half is repeated"),
    ("wrong estimates", wrong_estimates, "translated is estimated 36 % too low"),
    ("the guard fails", guard_fault, "the guard fails for 4 upstreams at once"),
    ("a key rotation", key_rotation, "10 cursors expired within 1 hours"),
    ("a worse canary", worse_canary, "revision 2 fails"),
    ("no follow-up reads", client_without_reads, "cursor-vscode never reads on, in read"),
    ("everything is read", read_everything, "everything costs more than without pages"),
    ("a slow upstream", slow_upstream, "slow: report"),
    ("a flapping upstream", flapping_upstream, "flapping: status fails in 8 of 24 hours"),
    ("a small budget", small_budget, "narrow needs 1 read after each call"),
];

fn growing_tool(api: &QueryApi<'_>) -> Result<String> {
    let growth = |row: &Value| {
        let (tokens, calls) = (points(row, "tokens_before"), points(row, "calls"));
        let by_call = tokens.iter().zip(&calls).map(|(tokens, calls)| tokens / calls.max(1.0));
        // Failed calls have no tokens.
        let by_call: Vec<f64> = by_call.filter(|tokens| *tokens > 0.0).collect();
        let [first, last] =
            [by_call.first(), by_call.last()].map(|one| one.copied().unwrap_or(1.0));
        last / first
    };
    let rows = api.rows("measure=tokens_before,calls&by=tool&from=-1d&step=1h")?;
    let row = largest(rows, growth)?;
    Ok(format!("{} grew {:.0}-fold", name(&row, "tool"), growth(&row)))
}

fn repeated_content(api: &QueryApi<'_>) -> Result<String> {
    let rows = api
        .rows("measure=reduction,paged,chunked,condensed&by=tool&where=outcome:shaped&from=-1d")?;
    let whole = rows.into_iter().filter(|row| {
        ["paged", "chunked", "condensed"].iter().all(|measure| number(row, measure) == 0.0)
    });
    let row = largest(whole.collect(), |row| number(row, "reduction"))?;
    ensure!(number(&row, "reduction") > 0.45, "{row}");
    Ok(format!("{}: half is repeated", name(&row, "tool")))
}

fn wrong_estimates(api: &QueryApi<'_>) -> Result<String> {
    let rows = api.rows("measure=estimate_error,samples&by=tool&from=-1d")?;
    let row = largest(rows, |row| number(row, "estimate_error").abs())?;
    let error = number(&row, "estimate_error");
    let direction = if error < 0.0 { "low" } else { "high" };
    let percent = error.abs() * 100.0;
    Ok(format!("{} is estimated {percent:.0} % too {direction}", name(&row, "tool")))
}

fn guard_fault(api: &QueryApi<'_>) -> Result<String> {
    // Faults of the guard, in contrast to `upstream_error`, at the same time in all upstreams.
    let rows = api.rows("measure=calls&by=upstream&where=outcome:fault&from=-1d&step=1h")?;
    let mut upstreams = BTreeMap::<String, usize>::new();
    for point in rows.iter().flat_map(|row| row["points"].as_array().into_iter().flatten()) {
        if number(point, "calls") > 0.0 {
            *upstreams.entry(name(point, "at")).or_default() += 1;
        }
    }
    let upstreams = upstreams.into_values().max().unwrap_or_default();
    Ok(format!("the guard fails for {upstreams} upstreams at once"))
}

fn key_rotation(api: &QueryApi<'_>) -> Result<String> {
    let rows =
        api.rows("measure=followups&by=outcome&where=outcome:cursor_expired&from=-1d&step=1h")?;
    let row = rows.first().context("no expired cursor")?;
    let hours = points(row, "followups").into_iter().filter(|reads| *reads > 0.0).count();
    Ok(format!("{} cursors expired within {hours} hours", number(row, "followups")))
}

fn worse_canary(api: &QueryApi<'_>) -> Result<String> {
    let rows = api.rows("measure=calls&by=revision,outcome&from=-3h")?;
    let total = |revision: &str, is_fault: bool| -> f64 {
        let of = rows.iter().filter(|row| name(row, "revision") == revision);
        of.filter(|row| !is_fault || row["outcome"] == "fault")
            .map(|row| number(row, "calls"))
            .sum()
    };
    // A call that the guard failed has no revision, or that of the fallback.
    ensure!(total("2", false) > 0.0 && total("1", true) == 0.0, "{rows:?}");
    let faults: f64 =
        rows.iter().filter(|row| row["outcome"] == "fault").map(|row| number(row, "calls")).sum();
    ensure!(faults > 0.0, "{rows:?}");
    Ok("revision 2 fails".to_owned())
}

fn client_without_reads(api: &QueryApi<'_>) -> Result<String> {
    let rows = api.rows("measure=paged,followups&by=client&from=-1d")?;
    let silent = |row: &&Value| number(row, "paged") > 0.0 && number(row, "followups") == 0.0;
    let client = name(rows.iter().find(silent).context("all clients read on")?, "client");
    let tools = api.rows(&format!("measure=paged&by=tool&where=client:{client}&from=-1d"))?;
    let tool = largest(tools, |row| number(row, "paged"))?;
    Ok(format!("{client} never reads on, in {}", name(&tool, "tool")))
}

fn read_everything(api: &QueryApi<'_>) -> Result<String> {
    let rows = api.rows("measure=net_tokens_saved&by=tool&from=-1d&order=asc&top=1")?;
    let row = rows.first().context("no rows")?;
    ensure!(number(row, "net_tokens_saved") < 0.0, "{row}");
    Ok(format!("{} costs more than without pages", name(row, "tool")))
}

fn slow_upstream(api: &QueryApi<'_>) -> Result<String> {
    let rows = api.rows("measure=latency_p95&by=upstream&from=-1d&top=1")?;
    let upstream = name(rows.first().context("no rows")?, "upstream");
    let query = format!("measure=latency_p95&by=tool&where=upstream:{upstream}&from=-1d&top=1");
    let tool = name(api.rows(&query)?.first().context("no rows")?, "tool");
    Ok(format!("{upstream}: {tool}"))
}

fn flapping_upstream(api: &QueryApi<'_>) -> Result<String> {
    let rows = api.rows("measure=fault_rate&by=upstream&from=-1d&step=1h")?;
    let changes = |row: &Value| {
        let failing: Vec<bool> = points(row, "fault_rate").iter().map(|rate| *rate > 0.5).collect();
        #[allow(clippy::cast_precision_loss, reason = "24 hours")]
        let changes = failing.windows(2).filter(|pair| pair[0] != pair[1]).count() as f64;
        changes
    };
    let upstream = name(&largest(rows, changes)?, "upstream");
    let query = format!("measure=fault_rate&by=tool&where=upstream:{upstream}&from=-1d&step=1h");
    let tools = api.rows(&query)?;
    let row = tools.first().context("no rows")?;
    // Eight outages of an hour, of which the last day may cut off the first.
    ensure!(changes(row) >= 14.0, "{row}");
    Ok(format!("{upstream}: {} fails in 8 of 24 hours", name(row, "tool")))
}

fn small_budget(api: &QueryApi<'_>) -> Result<String> {
    // Answers that exceed the budget by little, and are read to their end.
    let rows = api.rows(
        "measure=oversized_share,followups,calls,tokens_before,tokens_sent,tokens_followup&by=tool&from=-1d",
    )?;
    let is_small = |row: &&Value| {
        let fits = number(row, "tokens_sent") + number(row, "tokens_followup");
        number(row, "oversized_share") > 0.9
            && (number(row, "followups") - number(row, "calls")).abs() < 1.0
            && (fits - number(row, "tokens_before")).abs() < 1.0
    };
    let row = rows.iter().find(is_small).with_context(|| format!("{rows:?}"))?;
    Ok(format!("{} needs 1 read after each call", name(row, "tool")))
}

#[test]
fn causes_are_named_in_three_queries() -> Result<()> {
    let folder = peers::folder("incidents")?;
    let path = folder.join("history.db");
    let now = std::time::UNIX_EPOCH.elapsed()?.as_millis();
    seed(&path, u64::try_from(now)?)?;
    let server = artifacts::property_server()?;
    let gateway = Gateway::start(
        json!([{"name": "houses", "command": [server]}]),
        json!({"history": {"file": path}}),
    )?;
    for (incident, diagnose, expected) in INCIDENTS {
        let api = QueryApi { gateway: &gateway, queries: Cell::new(0) };
        let found = diagnose(&api).with_context(|| incident.to_owned())?;
        ensure!(found == expected, "{incident}: {found}, expected {expected}");
        ensure!(api.queries.get() <= 3, "{incident}: {} queries", api.queries.get());
    }
    Ok(())
}

#[test]
fn store_that_is_down_is_named() -> Result<()> {
    let mut redis = Redis::start("incident", &[])?;
    let gateway = Gateway::start(
        json!([{"name": "houses", "command": [artifacts::property_server()?]}]),
        json!({
            "history": {"file": peers::folder("incident-store")?.join("history.db")},
            "store": {"url": redis.url(), "timeoutMs": 300, "localBytes": 0},
        }),
    )?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    client.request("tools/list", json!({}))?;
    let first = client.call("list_bookings", json!({}))?;
    let cursor = first.next_cursor().context("no cursor")?;
    redis.down();
    for _ in 0..5 {
        let refused = client.call("context_guard_read", json!({"cursor": cursor}))?;
        ensure!(refused.all_texts()[0].starts_with("cursor_unavailable"), "{}", refused.0);
    }
    let query = "measure=followups&by=upstream,outcome&from=-1h&step=1h";
    let refused = wait_for("the reads in the history", || {
        let rows = QueryApi { gateway: &gateway, queries: Cell::new(0) }.rows(query)?;
        let refused = rows.iter().find(|row| row["outcome"] == "cursor_unavailable");
        Ok(refused.map(|row| number(row, "followups")).filter(|reads| *reads > 4.5))
    })?;
    ensure!((refused - 5.0).abs() < 0.5, "{refused} reads");
    let (_, health) = gateway.get_admin("/admin/v1/health")?;
    let health: Value = serde_json::from_str(&health)?;
    ensure!(health["gateway"]["store"]["state"] == "down", "{health}");
    Ok(())
}

#[test]
fn canary_that_sends_more_is_named() -> Result<()> {
    let gateway = Gateway::start(
        json!([{"name": "houses", "command": [artifacts::property_server()?], "isolation": "shared"}]),
        json!({
            "history": {"file": peers::folder("incident-canary")?.join("history.db")},
            "rollout": {"mode": "canary", "steps": [50, 100], "stepSeconds": 600},
            "limits": {"sessions": 1_000, "sessionsPerPrincipal": 1_000},
            "admin": admin_config(),
        }),
    )?;
    let open = |_| HttpClient::open(&gateway.url(), &[], json!({}));
    let mut clients = (0..20).map(open).collect::<Result<Vec<_>>>()?;
    clients[0].request("tools/list", json!({}))?;
    let worse = json!({"tokenBudgetThreshold": 12_000}).to_string();
    let reply = admin_call(&gateway, "PUT", "/admin/policy", worse.as_bytes())?;
    ensure!(reply.status == 200, "{}", reply.body);
    for client in &mut clients {
        client.call("list_bookings", json!({}))?;
    }
    let query = "measure=calls,tokens_before,tokens_sent&by=revision,outcome&from=-3h";
    let rows = wait_for("the calls in the history", || {
        let rows = QueryApi { gateway: &gateway, queries: Cell::new(0) }.rows(query)?;
        let calls: f64 = rows.iter().map(|row| number(row, "calls")).sum();
        Ok((calls > 19.5).then_some(rows))
    })?;
    let cost = |revision: &str| -> Result<f64> {
        let sum = |measure: &str| -> f64 {
            let rows = rows.iter().filter(|row| name(row, "revision") == revision);
            rows.map(|row| number(row, measure)).sum()
        };
        let calls = sum("calls");
        ensure!(calls > 0.5 && sum("tokens_before") > 15_000.0 * calls, "{revision}: {rows:?}");
        Ok(sum("tokens_sent") / calls)
    };
    let (active, canary) = (cost("1")?, cost("2")?);
    ensure!(canary > 2.0 * active, "{canary} tokens by call instead of {active}");
    Ok(())
}

#[test]
fn harvesting_is_reported() -> Result<()> {
    let server = artifacts::property_server()?;
    let gateway = Gateway::start(
        json!([{"name": "houses", "command": [server]}]),
        json!({"history": {"file": "history.db"}}),
    )?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    client.request("tools/list", json!({}))?;
    for _ in 0..1_000 {
        client.call("list_bookings", json!({"response_mode": "ids_only"}))?;
    }
    wait_for("an alert", || {
        let (_, body) = gateway.get_admin("/admin/v1/alerts")?;
        let alerts: Vec<Value> = serde_json::from_str(&body)?;
        let fires = |alert: &Value| alert["name"] == "harvesting" && alert["state"] == "firing";
        Ok(alerts.iter().any(fires).then_some(()))
    })?;
    let api = QueryApi { gateway: &gateway, queries: Cell::new(0) };
    let rows = api.rows("measure=calls,followups&by=tool,client&from=-1h&top=1")?;
    let queries = number(&rows[0], "calls") + number(&rows[0], "followups");
    ensure!(rows[0]["tool"] == "list_bookings" && (queries - 1_000.0).abs() < 0.5, "{rows:?}");
    Ok(())
}
