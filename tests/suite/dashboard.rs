//! The dashboard in a real Chromium, at the admin address of a gateway and over a history file.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use context_guard::history::{Event, Follows, History, HistoryOptions, Outcome, Sample};
use context_guard_test_support::gateway::{Gateway, HttpClient, Process};
use context_guard_test_support::operations::TOKEN;
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure, peers};
use serde_json::{Value, json};

/// The maximum size of the files of the page, compressed, in bytes.
const MAX_COMPRESSED: u64 = 60_000;
/// A name that a page must show as text.
const HOSTILE: &str = "<img src=x onerror=alert(1)>";

fn start(scenario: &str, address: &str, key: &str, folder: &str) -> Result<Child> {
    let script = artifacts::root().join("tests/support/browser/dashboard.mjs");
    let mut command = Command::new(artifacts::node()?);
    command.arg(script).args([scenario, address, key, folder]).env("PEERS", artifacts::peers()?);
    Ok(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

/// Returns the observations of a scenario. The page must neither load from elsewhere, nor violate
/// its policy, nor have the key in a URL. The script fails if the page logs an error.
fn finish(browser: Child) -> Result<Value> {
    let done = browser.wait_with_output()?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let printed = String::from_utf8_lossy(&done.stdout);
    let last = printed.lines().last().unwrap_or_default();
    let seen: Value = serde_json::from_str(last).with_context(|| printed.clone().into_owned())?;
    for list in ["foreign", "reports", "keyed"] {
        ensure!(seen[list] == json!([]), "{list}: {}", seen[list]);
    }
    Ok(seen)
}

fn observe(scenario: &str, address: &str, key: &str) -> Result<Value> {
    finish(start(scenario, address, key, "")?)
}

/// A gateway with two servers and one that cannot start, whose admin address needs a token.
fn gateway(more: Value) -> Result<Gateway> {
    let server = artifacts::property_server()?;
    let upstream = |name: &str| json!({"name": name, "command": [&server]});
    let broken = json!({"name": "broken", "command": ["/nonexistent/server"]});
    let mut settings = json!({
        "admin": {"listen": "127.0.0.1:0", "token": TOKEN},
        "history": {"file": "history.db"},
    });
    let members = settings.as_object_mut().context("no object")?;
    members.extend(more.as_object().cloned().unwrap_or_default());
    Gateway::start(json!([upstream("houses"), upstream("archive"), broken]), settings)
}

/// Calls tools through a gateway, and reads on in the first list twice.
fn call_tools(gateway: &Gateway) -> Result<()> {
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    client.request("tools/list", json!({}))?;
    let mut answer = client.call("houses__list_bookings", json!({}))?.0;
    for _ in 0..2 {
        let metadata = answer["result"]["_meta"].as_object().and_then(|meta| meta.values().next());
        let cursor = metadata.map(|metadata| metadata["nextCursor"].clone());
        answer = client.call("context_guard_read", json!({"cursor": cursor}))?.0;
    }
    for tool in ["archive__list_bookings", "archive__read_log", "houses__short_note"] {
        client.call(tool, json!({}))?;
    }
    Ok(())
}

/// The command `context-guard dashboard` over a history file.
struct DashboardCommand {
    process: Process,
    address: String,
    code: String,
}

fn dashboard(history: &Path) -> Result<DashboardCommand> {
    let mut command = Command::new(artifacts::program()?);
    command.args(["dashboard", "--history"]).arg(history);
    let process = Process::start(command, true, "Ctrl-C ends it\n")?;
    let printed = process.output();
    let word = |mark: &str| {
        let rest = printed.split_once(mark).map(|(_, rest)| rest);
        rest.and_then(|rest| rest.split_whitespace().next()).map(str::to_owned)
    };
    let address = word("dashboard at ").with_context(|| printed.clone())?;
    let code = word("with the code ").with_context(|| printed.clone())?;
    Ok(DashboardCommand { process, address: address.trim_end_matches('/').to_owned(), code })
}

fn now_ms() -> Result<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?)
}

/// Records a week of calls of a few tools, by day and night.
fn record_week(path: &Path, last_tool: &str) -> Result<()> {
    const HOUR_MS: u64 = 3_600_000;
    let history = History::open(path, &HistoryOptions::default())?;
    let now = now_ms()?;
    // Name, tokens of an answer, calls an hour at noon, follow-up reads of ten calls.
    let tools: [(&str, &str, u64, u64, u64); 6] = [
        ("github", "list_issues", 31_000, 9, 8),
        ("github", "get_file_contents", 12_500, 14, 3),
        ("postgres", "query", 22_000, 6, 24),
        ("browser", "snapshot", 48_000, 4, 0),
        ("files", "read_text_file", 2_100, 18, 0),
        ("files", last_tool, 6_200, 1, 2),
    ];
    let mut number = 0_u64;
    for hour in (0..7 * 24).rev() {
        let at_ms = now - hour * HOUR_MS - 60_000;
        // More calls by day, and few at the weekend.
        let of_day = (at_ms / HOUR_MS) % 24;
        let share = [1, 1, 1, 1, 1, 2, 3, 5, 8, 10, 10, 9, 8, 9, 10, 9, 7, 5, 4, 3, 2, 2, 1, 1];
        let share = share[usize::try_from(of_day)?];
        for (upstream, tool, tokens, calls, reads) in tools {
            for call in 0..(calls * share).div_ceil(10) {
                number += 1;
                let tokens = tokens * (80 + number * 37 % 40) / 100;
                let is_oversized = tokens > 4_000;
                let failed = number.is_multiple_of(173);
                let client =
                    if number.is_multiple_of(3) { "codex-mcp-client" } else { "claude-code" };
                let event = Event {
                    at_ms: at_ms + call * 1_000,
                    upstream: upstream.to_owned(),
                    tool: tool.to_owned(),
                    client,
                    session: format!(
                        "{:016x}",
                        (number / 60 + 7).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    ),
                    revision: if hour < 40 { 2 } else { 1 },
                    outcome: match (failed, is_oversized) {
                        (true, _) => Outcome::UpstreamError,
                        (_, true) => Outcome::Paginated,
                        _ => Outcome::Passed,
                    },
                    mode: if is_oversized { "page" } else { "full" }.to_owned(),
                    tokens_before: tokens,
                    tokens_sent: tokens.min(3_700),
                    bytes_before: tokens * 4,
                    bytes_sent: tokens.min(3_700) * 4,
                    latency_us: 2_000 + number * 7_919 % 180_000,
                    is_oversized,
                    is_paged: is_oversized,
                    snapshots: vec![number.to_string()],
                    ..Event::default()
                };
                history.record(event.clone());
                for read in 0..reads * (number % 10) / 45 {
                    let follows = Follows::Call(Some(number.to_string()));
                    let at_ms = event.at_ms + read * 100;
                    history.record(Event {
                        at_ms,
                        follows,
                        snapshots: Vec::new(),
                        ..event.clone()
                    });
                }
                if number.is_multiple_of(20) {
                    let estimated = event.tokens_sent;
                    let actual = estimated * (95 + number % 13) / 100;
                    history.record_sample(Sample {
                        at_ms: event.at_ms,
                        upstream: event.upstream,
                        tool: event.tool,
                        client,
                        outcome: event.outcome,
                        revision: event.revision,
                        estimated,
                        actual,
                        is_off: false,
                    });
                }
            }
        }
        ensure!(history.flush(), "the history is not written");
    }
    Ok(())
}

#[test]
fn sign_in_sets_a_cookie_that_scripts_cannot_read() -> Result<()> {
    let gateway = gateway(json!({}))?;
    let seen = observe("sign-in", &gateway.admin, TOKEN)?;
    ensure!(seen["form"] == "Sign in" && seen["focused"] == "key", "{seen}");
    ensure!(seen["wrong"] == "This is not the admin token.", "{seen}");
    let cookie = json!([{"httpOnly": true, "sameSite": "Strict", "path": "/"}]);
    ensure!(seen["cookies"] == cookie && seen["readable"] == "", "{seen}");
    ensure!(seen["left"] == 0, "{seen}");
    Ok(())
}

#[test]
fn guesses_of_the_key_are_limited() -> Result<()> {
    let gateway = gateway(json!({}))?;
    let seen = observe("guesses", &gateway.admin, TOKEN)?;
    ensure!(seen["status"] == 429, "{seen}");
    ensure!(seen["text"].to_string().contains("Try again in"), "{seen}");
    Ok(())
}

#[test]
fn overview_shows_firing_alerts() -> Result<()> {
    let busy = json!({"name": "busy", "when": "calls > 2", "over": "5m"});
    let gateway = gateway(json!({"alerts": [busy]}))?;
    call_tools(&gateway)?;
    wait_until("a firing alert", || {
        let alerts: Value = serde_json::from_str(&gateway.get_admin("/admin/v1/alerts")?.1)?;
        let mut alerts = alerts.as_array().into_iter().flatten();
        Ok(alerts.any(|alert| alert["name"] == "busy" && alert["state"] == "firing"))
    })?;
    let seen = observe("alerts", &gateway.admin, TOKEN)?;
    let shown = seen["alerts"].as_array().context("no list")?;
    let busy = shown.iter().filter_map(Value::as_str).find(|text| text.starts_with("busy firing"));
    ensure!(busy.is_some_and(|text| text.contains("calls > 2: ")), "{seen}");
    Ok(())
}

#[test]
fn overview_has_the_numbers_of_the_api() -> Result<()> {
    let gateway = gateway(json!({}))?;
    call_tools(&gateway)?;
    let path = "/admin/v1/query?measure=net_tokens_saved,calls,followups&from=-1h";
    let found: Value = serde_json::from_str(&gateway.get_admin(path)?.1)?;
    let seen = observe("overview", &gateway.admin, TOKEN)?;
    let calls = found["total"]["calls"].to_string();
    ensure!(seen["tiles"]["Calls"] == calls.as_str(), "{seen} {found}");
    #[allow(clippy::cast_precision_loss, reason = "three digits")]
    let saved = found["total"]["net_tokens_saved"].as_i64().context("no savings")? as f64;
    let shown = seen["tiles"]["Net tokens saved"].as_str().context("no tile")?;
    let number: f64 = shown.trim_end_matches(['k', '\u{202f}']).parse()?;
    ensure!((number * 1_000.0 / saved - 1.0).abs() < 0.01, "{shown} instead of {saved}");
    ensure!(seen["canvas"] == 1 && seen["numbers"].as_u64() >= Some(1), "{seen}");
    ensure!(seen["bars"].to_string().contains("archive::read_log"), "{seen}");
    ensure!(seen["state"].to_string().contains("Cursor storeup"), "{seen}");
    Ok(())
}

#[test]
fn catalogue_has_its_price_search_and_unused_tools() -> Result<()> {
    let gateway = gateway(json!({}))?;
    call_tools(&gateway)?;
    let path = "/admin/v1/catalogue/overview";
    let (status, body) = gateway.get_admin(path)?;
    let overview: Value = serde_json::from_str(&body)?;
    ensure!(status == 200, "{body}");
    let tools = overview["tools"].as_array().context("no tools")?;
    let of_houses = tools.iter().filter(|tool| tool["server"] == "houses").count();
    let sum: u64 = tools.iter().filter_map(|tool| tool["tokens"].as_u64()).sum();
    let full = overview["tokens"]["full_list"].as_u64().context("no price")?;
    // The list has the read tool, too.
    ensure!(sum > 0 && full > sum && full < sum + 500, "{body}");
    let seen = observe("catalogue", &gateway.admin, TOKEN)?;
    let servers = seen["servers"].as_array().context("no servers")?;
    let names: Vec<&Value> = servers.iter().map(|row| &row[0]).collect();
    ensure!(names.len() == 2 && names.contains(&&json!("houses")), "{seen}");
    ensure!(servers[0][1] == of_houses.to_string().as_str(), "{seen}");
    // Of the tools of both servers, four were called.
    let unused: Vec<String> = serde_json::from_value(seen["unused"].clone())?;
    ensure!(unused.len() == tools.len() - 4, "{seen}");
    ensure!(!unused.contains(&"houses::list_bookings".to_owned()), "{seen}");
    let policy = seen["policy"].as_str().context("no policy")?;
    ensure!(policy.contains(&format!("- '{}'", unused[0])), "{seen}");
    let found: Vec<String> = serde_json::from_value(seen["found"].clone())?;
    ensure!(found.iter().take(2).all(|tool| tool.ends_with("::list_bookings")), "{seen}");
    ensure!(seen["url"].to_string().contains("q=which+bookings"), "{seen}");
    // The route needs the token.
    let url = format!("{}{path}", gateway.admin);
    ensure!(context_guard_test_support::gateway::get(&url, &[])?.status == 401);
    Ok(())
}

#[test]
fn tools_are_sorted_by_keyboard_and_get_advice() -> Result<()> {
    let gateway = gateway(json!({}))?;
    for _ in 0..3 {
        call_tools(&gateway)?;
    }
    let seen = observe("tools", &gateway.admin, TOKEN)?;
    ensure!(seen["first"][0] == json!(["Net saved", "descending"]), "{seen}");
    ensure!(seen["named"][0] == json!(["Tool", "ascending"]), "{seen}");
    let names: Vec<String> = serde_json::from_value(seen["named"][1].clone())?;
    ensure!(names.len() == 4 && names.is_sorted(), "{names:?}");
    let reversed: Vec<String> = serde_json::from_value(seen["reversed"][1].clone())?;
    ensure!(reversed.iter().rev().eq(&names) && seen["sparks"] == 4, "{seen}");
    // Each suggestion is a valid policy.
    let policies: Vec<String> = serde_json::from_value(seen["policies"].clone())?;
    ensure!(policies.iter().any(|policy| policy.contains("houses::list_bookings")), "{seen}");
    let folder = peers::folder("dashboard-advice")?;
    for policy in policies {
        let file = folder.join("policy.yaml");
        std::fs::write(&file, &policy)?;
        let mut check = Command::new(artifacts::program()?);
        let done = check.args(["policy", "check"]).arg(&file).output()?;
        ensure!(done.status.success(), "{policy}: {}", String::from_utf8_lossy(&done.stderr));
    }
    Ok(())
}

#[test]
fn sessions_lead_to_their_requests() -> Result<()> {
    let gateway = gateway(json!({}))?;
    call_tools(&gateway)?;
    call_tools(&gateway)?;
    let seen = observe("sessions", &gateway.admin, TOKEN)?;
    ensure!(seen["clients"].as_array().map(Vec::len) == Some(1), "{seen}");
    ensure!(seen["sessions"].as_array().map(Vec::len) == Some(2), "{seen}");
    ensure!(seen["sessions"][0][4] == "4" && seen["sessions"][0][5] == "2", "{seen}");
    ensure!(seen["requests"] == 6, "{seen}");
    Ok(())
}

#[test]
fn upstreams_have_state_and_latency() -> Result<()> {
    let gateway = gateway(json!({}))?;
    call_tools(&gateway)?;
    let seen = observe("upstreams", &gateway.admin, TOKEN)?;
    let row = |name: &str| {
        let rows = seen["upstreams"].as_array().into_iter().flatten();
        rows.clone().find(|row| row[0] == name).cloned().with_context(|| seen.to_string())
    };
    ensure!(row("houses")?[1] == "up" && row("houses")?[3] == "2", "{seen}");
    ensure!(row("archive")?[6].to_string().contains("ms"), "{seen}");
    ensure!(row("broken")?[1] == "down" && row("broken")?[3] == "0", "{seen}");
    ensure!(seen["reasons"].to_string().contains("/nonexistent/server"), "{seen}");
    Ok(())
}

#[test]
fn revisions_are_side_by_side() -> Result<()> {
    let gateway = gateway(json!({}))?;
    call_tools(&gateway)?;
    let url = format!("{}/admin/policy", gateway.admin);
    let agent = context_guard_test_support::gateway::agent();
    let request = agent.put(&url).header("authorization", format!("Bearer {TOKEN}"));
    let answer = request.send(r#"{"tokenBudgetThreshold": 2000}"#)?;
    ensure!(answer.status() == 200, "{answer:?}");
    call_tools(&gateway)?;
    let seen = observe("revisions", &gateway.admin, TOKEN)?;
    let head = json!(["Measure", "Revision 1", "Revision 2active", "2 against 1"]);
    ensure!(seen["head"] == head, "{seen}");
    ensure!(seen["rows"][0] == json!(["Calls", "4", "4", "\u{2013}"]), "{seen}");
    ensure!(seen["rows"][3][0] == "Reduction", "{seen}");
    ensure!(seen["rows"][3][3].to_string().contains("%, "), "{seen}");
    Ok(())
}

#[test]
fn estimates_are_compared_with_counts() -> Result<()> {
    let gateway = gateway(json!({"telemetry": {"sample": 1.0}}))?;
    call_tools(&gateway)?;
    let path = "/admin/v1/query?measure=samples,estimate_error&from=-1h";
    let sampled = || -> Result<Value> { Ok(serde_json::from_str(&gateway.get_admin(path)?.1)?) };
    // The tokenizer runs on a thread of its own, and is loaded with the first sample.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while sampled()?["total"]["samples"].as_u64() < Some(4) {
        ensure!(std::time::Instant::now() < deadline, "{}", sampled()?);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let error = sampled()?["total"]["estimate_error"].as_f64().context("no error")?;
    ensure!(error.abs() < 0.3, "{error}");
    let seen = observe("estimates", &gateway.admin, TOKEN)?;
    let tools = seen["tools"].as_array().context("no rows")?;
    ensure!(tools.iter().any(|row| row[0] == "archive::read_log" && row[1] == "1"), "{seen}");
    Ok(())
}

#[test]
fn requests_show_decision_and_reads() -> Result<()> {
    let gateway = gateway(json!({}))?;
    call_tools(&gateway)?;
    let seen = observe("requests", &gateway.admin, TOKEN)?;
    ensure!(seen["all"] == 6, "{seen}");
    let filtered: Vec<String> = serde_json::from_value(seen["filtered"].clone())?;
    ensure!(filtered.len() == 4, "{filtered:?}");
    let facts = seen["facts"].as_str().unwrap_or_default();
    ensure!(facts.contains("a page of the list") && facts.contains("Net saved"), "{facts}");
    ensure!(seen["command"].to_string().contains("policy explain"), "{seen}");
    Ok(())
}

#[test]
fn new_calls_appear_without_reload() -> Result<()> {
    let gateway = gateway(json!({}))?;
    call_tools(&gateway)?;
    let mut browser = start("updates", &gateway.admin, TOKEN, "")?;
    let mut output = BufReader::new(browser.stdout.take().context("no output")?);
    let mut line = String::new();
    output.read_line(&mut line)?;
    if line.trim() == "shown" {
        call_tools(&gateway)?;
        line.clear();
        output.read_to_string(&mut line)?;
    }
    let done = browser.wait_with_output()?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let seen: Value = serde_json::from_str(&line).with_context(|| line.clone())?;
    ensure!(seen["before"] == "4" && seen["after"] == "8", "{seen}");
    ensure!(seen["open"] == 1 && seen["focused"] == "chart:Tokens over time", "{seen}");
    ensure!(seen["reports"] == json!([]), "{seen}");
    Ok(())
}

#[test]
fn themes_and_narrow_screens_fit() -> Result<()> {
    let folder = peers::folder("dashboard-screens")?;
    let history = folder.join("history.db");
    record_week(&history, "search_files")?;
    let mut command = dashboard(&history)?;
    let shots = folder.display().to_string();
    let seen = finish(start("screens", &command.address, &command.code, &shots)?)?;
    ensure!(seen["overflow"] == json!({}), "{}", seen["overflow"]);
    ensure!(seen["grounds"][0] != seen["grounds"][1], "light and dark are the same: {seen}");
    if std::env::var_os("CONTEXT_GUARD_BLESS").is_some() {
        let images = artifacts::root().join("docs/images");
        for (from, to) in
            [("overview-light-1280", "dashboard"), ("tools-dark-1280", "dashboard-tools-dark")]
        {
            std::fs::copy(
                folder.join(from).with_extension("png"),
                images.join(to).with_extension("png"),
            )?;
        }
    }
    ensure!(command.process.stop()? == Some(0));
    Ok(())
}

#[test]
fn untrusted_names_are_text() -> Result<()> {
    let folder = peers::folder("dashboard-untrusted")?;
    let history = folder.join("history.db");
    record_week(&history, HOSTILE)?;
    let command = dashboard(&history)?;
    let seen = observe("untrusted", &command.address, &command.code)?;
    ensure!(seen["names"] == json!([true, true, true]) && seen["images"] == 0, "{seen}");
    ensure!(seen["blocked"] == true && seen["purposeful"] == 1, "{seen}");
    Ok(())
}

#[test]
fn missing_history_is_explained_in_each_view() -> Result<()> {
    let folder = peers::folder("dashboard-empty")?;
    let command = dashboard(&folder.join("history.db"))?;
    // The page asks for a history that is not there, which Chromium logs.
    let failed = observe("empty", &command.address, &command.code).unwrap_err().to_string();
    ensure!(failed.contains("404") && !failed.contains("TypeError"), "{failed}");
    drop(History::open(&folder.join("history.db"), &HistoryOptions::default())?);
    let seen = observe("empty", &command.address, &command.code)?;
    for view in ["overview", "tools", "sessions", "upstreams", "revisions"] {
        ensure!(seen["texts"][view].to_string().contains("No calls in the last"), "{seen}");
    }
    ensure!(seen["texts"]["requests"].to_string().contains("No request"), "{seen}");
    Ok(())
}

#[test]
fn page_has_no_accessibility_violations() -> Result<()> {
    let folder = peers::folder("dashboard-accessible")?;
    let history = folder.join("history.db");
    record_week(&history, HOSTILE)?;
    let command = dashboard(&history)?;
    let seen = observe("accessible", &command.address, &command.code)?;
    ensure!(seen["violations"] == json!([]), "{:#}", seen["violations"]);
    ensure!(seen["checked"] == 16, "{seen}");
    Ok(())
}

#[test]
fn page_is_small_and_has_a_strict_policy() -> Result<()> {
    let gateway = gateway(json!({}))?;
    let get = |path: &str| {
        context_guard_test_support::gateway::get(&format!("{}{path}", gateway.admin), &[])
    };
    let index = get("/")?;
    let policy = index.header("content-security-policy");
    ensure!(
        policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"),
        "{policy}"
    );
    ensure!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
    let folder = artifacts::root().join("host/gateway/assets");
    let mut total = 0;
    for file in std::fs::read_dir(folder)? {
        let file = file?.path();
        if file.extension().is_some_and(|kind| kind == "LICENSE") {
            continue;
        }
        let done = Command::new("gzip").args(["-9", "-c"]).arg(&file).output()?;
        ensure!(done.status.success() && !done.stdout.is_empty(), "{}", file.display());
        total += u64::try_from(done.stdout.len())?;
    }
    ensure!(total <= MAX_COMPRESSED, "{total} bytes compressed");
    ensure!(get("/assets/nothing.js")?.status == 404);
    let (status, body) = gateway.get_admin("/admin/v1/health")?;
    let health: Value = serde_json::from_str(&body)?;
    ensure!(status == 200 && health["gateway"]["store"]["state"] == "up", "{health}");
    ensure!(get("/admin/v1/health")?.status == 401);
    Ok(())
}

#[test]
fn health_reports_pagination_sizes_and_state() -> Result<()> {
    let gateway = gateway(json!({}))?;
    call_tools(&gateway)?;
    let (status, body) = gateway.get_admin("/admin/v1/health?from=-1h")?;
    let health: Value = serde_json::from_str(&body)?;
    ensure!(status == 200, "{body}");
    ensure!(health["calls"] == 4 && health["faults"] == 0, "{health}");
    // Two lists and a log are in parts, and a note is whole.
    ensure!(health["pagination"]["adoption"] == 0.75, "{health}");
    ensure!(health["pagination"]["followups"] == 2, "{health}");
    let average = |name: &str| health["average"][name].as_u64();
    ensure!(average("tokens_before") > average("tokens_sent"), "{health}");
    ensure!(average("tokens_sent") > Some(500) && average("bytes_sent") > Some(1_000), "{health}");
    ensure!(health["gateway"]["revision"] == 1 && health["history"]["records"] == 6, "{health}");
    let (status, body) = gateway.get_admin("/admin/v1/health?since=-1h")?;
    ensure!(status == 400 && body.contains("from, to"), "{body}");
    Ok(())
}
