//! Upstream failures: the client gets an error in time, other upstreams are not affected, and the
//! failed one recovers.

use std::net::TcpStream;
use std::process::Command;

use context_guard_test_support::answer::Answer;
use context_guard_test_support::faulty_server::faulty_script;
use context_guard_test_support::gateway::{
    ConformanceServer, Gateway, HttpClient, Process, StreamedResponse, post,
};
use context_guard_test_support::scripted::{ScriptedResponse, ScriptedServer};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde_json::{Value, json};

/// Starts a gateway before a faulty server and a healthy one.
fn gateway(upstream: Value) -> Result<Gateway> {
    let well = json!({"name": "well", "command": [artifacts::property_server()?]});
    let mut faulty = upstream;
    faulty["name"] = json!("faulty");
    faulty["limits"] = json!({"timeoutSeconds": 6, "failures": 50});
    Gateway::start(json!([well, faulty]), json!({}))
}

fn process() -> Value {
    json!({"command": ["node", faulty_script(), "--stdio"]})
}

fn text(answer: &Answer) -> String {
    answer.all_texts().join("\n")
}

/// Asserts that the healthy server answers its first call, and that the faulty one recovers.
/// Only a server that `restarts` may fail meanwhile.
fn recovers(client: &mut HttpClient, restarts: bool) -> Result<()> {
    let healthy = client.call("well__get_booking", json!({"id": "BK-0007"}))?;
    ensure!(!healthy.is_error() && text(&healthy).contains("BK-0007"), "{}", text(&healthy));
    wait_until("a recovered server", || {
        let answer = client.call("faulty__ok", json!({"n": 1}))?;
        ensure!(restarts || !answer.is_error(), "{}", text(&answer));
        ensure!(answer.is_error() || text(&answer).contains("all is well"), "{}", text(&answer));
        Ok(!answer.is_error())
    })?;
    Ok(())
}

#[test]
fn failing_process_affects_only_its_call() -> Result<()> {
    let gateway = gateway(process())?;
    // The tool, whether its answer is an error, and a part of its text.
    let table = [
        ("die", true, "ended"),
        ("hang", true, "did not answer within 6 s"),
        ("slow", false, "at last"),
        ("garbage", false, "after garbage"),
        ("half", false, "cannot be read"),
        ("huge", true, "more than 10485760 bytes"),
        ("wrong_id", true, "did not answer within 6 s"),
        ("twice", false, "first"),
        ("bytes", false, "caf\u{fffd}, all the same"),
    ];
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    for (fault, is_error, expected) in table {
        let params = json!({"name": format!("faulty__{fault}"), "arguments": {}, "_meta": {"progressToken": fault}});
        let answer = client.request("tools/call", params).with_context(|| fault.to_owned())?;
        ensure!(answer.is_error() == is_error, "{fault}: {}", answer.0);
        ensure!(text(&answer).contains(expected), "{fault}: {}", text(&answer));
        recovers(&mut client, true).with_context(|| format!("after {fault}"))?;
        if fault == "hang" {
            let cancelled = client.call("faulty__cancelled", json!({}))?;
            ensure!(
                text(&cancelled).starts_with('1'),
                "the upstream got no cancellation: {}",
                text(&cancelled)
            );
        }
    }
    Ok(())
}

#[test]
fn failing_http_server_affects_only_its_call() -> Result<()> {
    let start = |port: &str| {
        let mut command = Command::new("node");
        command.arg(faulty_script()).env("PORT", port);
        Process::start(command, true, "http://")
    };
    let mut server = start("0")?;
    let url = server.output().trim().to_owned();
    let port = url.trim_end_matches("/mcp").rsplit(':').next().unwrap_or_default().to_owned();
    let address = format!("127.0.0.1:{port}");
    let gateway = gateway(json!({"url": url}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let table = [
        ("hang", true, "within 6 s"),
        ("slow", false, "at last"),
        ("garbage", false, "after garbage"),
        ("huge", true, "more than 10485760 bytes"),
        ("wrong_id", true, "without an answer"),
        ("twice", false, "first"),
        ("bytes", false, "caf\u{fffd}, all the same"),
    ];
    for (fault, is_error, expected) in table {
        let answer = client
            .call(&format!("faulty__{fault}"), json!({}))
            .with_context(|| fault.to_owned())?;
        ensure!(answer.is_error() == is_error, "{fault}: {}", answer.0);
        ensure!(text(&answer).contains(expected), "{fault}: {}", text(&answer));
        recovers(&mut client, false).with_context(|| format!("after {fault}"))?;
    }
    for fault in ["die", "half"] {
        let answer = client.call(&format!("faulty__{fault}"), json!({}))?;
        let is_reported = if fault == "die" {
            answer.is_error() && text(&answer).contains("faulty")
        } else {
            text(&answer).contains("cannot be read")
        };
        ensure!(is_reported, "{fault}: {}", answer.0);
        // The answer to half a message does not wait for the end of the server.
        wait_until("the end of the server", || Ok(TcpStream::connect(&address).is_err()))?;
        let gone = client.call("faulty__ok", json!({}))?;
        ensure!(gone.is_error() && text(&gone).contains("cannot be reached"), "{}", gone.0);
        server = start(&port)?;
        recovers(&mut client, true).with_context(|| format!("after {fault}"))?;
    }
    drop(server);
    Ok(())
}

#[test]
fn missing_upstreams_are_reported() -> Result<()> {
    let upstreams = json!([
        {"name": "well", "command": [artifacts::property_server()?]},
        {"name": "gone", "command": ["no-such-program-anywhere"]},
        {"name": "mute", "command": ["sleep", "600"], "limits": {"startSeconds": 2}},
        {"name": "far", "url": "http://127.0.0.1:9/mcp"},
    ]);
    let gateway = Gateway::start(upstreams, json!({}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let list = client.request("tools/list", json!({}))?;
    let names: Vec<&str> = list.result()["tools"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    ensure!(names.iter().any(|name| name.starts_with("well__")), "{names:?}");
    ensure!(names.last() == Some(&"context_guard_read"), "{names:?}");
    let missing = &list.result()["_meta"]["dev.context-guard/upstreams"]["unavailable"];
    let named: Vec<&str> =
        missing.as_array().into_iter().flatten().filter_map(|one| one["name"].as_str()).collect();
    ensure!(named == ["gone", "mute", "far"], "{missing}");
    let answer = client.call("gone__anything", json!({}))?;
    ensure!(
        answer.is_error() && text(&answer).contains("no-such-program-anywhere"),
        "{}",
        answer.0
    );
    let unknown = client.call("nobody__anything", json!({}))?;
    ensure!(unknown.0["error"]["code"] == -32602, "{}", unknown.0);
    let (status, metrics) = gateway.get_admin("/metrics")?;
    ensure!(
        status == 200
            && metrics.contains(r#"context_guard_upstream_failures_total{upstream="gone"}"#),
        "{metrics}"
    );
    Ok(())
}

#[test]
fn repeated_failures_open_the_circuit() -> Result<()> {
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let url = format!("http://127.0.0.1:{port}/mcp");
    // Only a probe notices that the server is back before the pause of a minute ends.
    let limits = json!({"failures": 3, "pauseSeconds": 60});
    let upstreams = json!([
        {"name": "well", "command": [artifacts::property_server()?]},
        {"name": "faulty", "url": url, "limits": limits},
    ]);
    let gateway = Gateway::start(upstreams, json!({}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    // A session opens before its servers have started.
    ensure!(!client.call("well__get_booking", json!({"id": "BK-0007"}))?.is_error());
    let mut reason = String::new();
    for _ in 0..6 {
        let answer = client.call("faulty__ok", json!({}))?;
        ensure!(answer.is_error(), "{}", answer.0);
        reason = text(&answer);
    }
    ensure!(reason.contains("left alone for"), "{reason}");
    let state: Value = serde_json::from_str(&gateway.get_admin("/admin/upstreams")?.1)?;
    let [well, faulty] = [&state["upstreams"][0], &state["upstreams"][1]];
    ensure!(well["name"] == "well" && well["state"] == "up", "{state}");
    ensure!(faulty["name"] == "faulty" && faulty["state"] == "down", "{state}");
    ensure!(faulty["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{state}");
    let mut command = Command::new("node");
    command.arg(faulty_script()).env("PORT", port.to_string());
    let _server = Process::start(command, true, "http://")?;
    wait_until("another attempt", || {
        let answer = client.call("faulty__ok", json!({"n": 5}))?;
        ensure!(answer.is_error() || text(&answer).contains("all is well: 5"), "{}", answer.0);
        Ok(!answer.is_error())
    })?;
    let changes = ["upstream is down", "circuit opened", "upstream is up again"];
    let log = gateway.process.wait_for_output(&changes)?;
    for change in changes {
        ensure!(log.matches(change).count() == 1, "{change}: {log}");
    }
    Ok(())
}

/// Returns the text of the first call of a session after its server was away. Meanwhile the port
/// refuses `refusals` connections of the gateway.
fn call_after_restart(sessions: usize, refusals: usize) -> Result<String> {
    let server = ConformanceServer::start_in_mode("legacy")?;
    let port = server.url.trim_end_matches("/mcp").rsplit(':').next().context("no port")?;
    let port: u16 = port.parse()?;
    let upstreams = json!([
        {"name": "well", "command": [artifacts::property_server()?]},
        {"name": "fixture", "url": server.url},
    ]);
    let gateway = Gateway::start(upstreams, json!({}))?;
    let mut clients = (0..sessions)
        .map(|_| HttpClient::open(&gateway.url(), &[], json!({})))
        .collect::<Result<Vec<_>>>()?;
    for client in &mut clients {
        let answer = client.call("fixture__test_simple_text", json!({}))?;
        ensure!(!answer.is_error(), "{}", answer.0);
    }
    drop(server);
    let closed = std::net::TcpListener::bind(("127.0.0.1", port))?;
    for _ in 0..refusals {
        drop(closed.accept()?);
    }
    drop(closed);
    let _server = ConformanceServer::start_at("legacy", port)?;
    let client = clients.first_mut().context("no client")?;
    Ok(client.call("fixture__test_simple_text", json!({}))?.0.to_string())
}

#[test]
fn idle_sessions_do_not_open_the_circuit() -> Result<()> {
    let answer = call_after_restart(60, 150)?;
    ensure!(answer.contains("simple text response"), "{answer}");
    Ok(())
}

#[test]
fn call_is_repeated_in_a_new_upstream_session() -> Result<()> {
    let answer = call_after_restart(1, 0)?;
    ensure!(answer.contains("simple text response"), "{answer}");
    Ok(())
}

#[test]
fn stream_that_ends_before_the_answer_is_continued() -> Result<()> {
    let server = ConformanceServer::start_in_mode("legacy")?;
    let upstreams = json!([
        {"name": "well", "command": [artifacts::property_server()?]},
        {"name": "fixture", "url": server.url},
    ]);
    let gateway = Gateway::start(upstreams, json!({}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let answer = client.call("fixture__test_reconnection", json!({}))?;
    ensure!(text(&answer).contains("Reconnection test completed"), "{}", answer.0);
    Ok(())
}

#[test]
fn last_event_without_an_empty_line_is_read() -> Result<()> {
    let server = ScriptedServer::from_fn(|request| {
        let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "scripted", "version": "1"},
            }),
            Some("tools/list") => {
                json!({"tools": [{"name": "x", "inputSchema": {"type": "object"}}]})
            }
            Some("tools/call") => json!({"content": [{"type": "text", "text": "the last event"}]}),
            Some(_) => return ScriptedResponse::empty(202),
            None => return ScriptedResponse::empty(405),
        };
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        ScriptedResponse::with_type("text/event-stream", format!("data: {answer}\n"))
    })?;
    let upstreams = json!([
        {"name": "well", "command": [artifacts::property_server()?]},
        {"name": "scripted", "url": server.url(), "era": "legacy"},
    ]);
    let gateway = Gateway::start(upstreams, json!({}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let answer = client.call("scripted__x", json!({}))?;
    ensure!(text(&answer) == "the last event", "{}", answer.0);
    Ok(())
}

#[test]
fn closed_connection_cancels_stateless_request() -> Result<()> {
    let gateway = Gateway::start(
        json!([{"name": "faulty", "command": ["node", faulty_script(), "--stdio"]}]),
        json!({}),
    )?;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}, "progressToken": 1});
    let call = |name: &str| {
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": {}, "_meta": meta}}).to_string()
    };
    let headers = |name: &'static str| {
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", name)]
    };
    let mut request = headers("slow").to_vec();
    request.push(("accept", "application/json, text/event-stream"));
    let mut response = StreamedResponse::send(&gateway.base, "POST", &request, &call("slow"))?;
    response.read_until("notifications/progress")?;
    drop(response);
    wait_until("a cancelled request", || {
        let reply = post(&gateway.url(), &headers("cancelled"), &call("cancelled"))?;
        Ok(text(&reply.answer()?).starts_with('1'))
    })?;
    Ok(())
}

#[test]
fn server_may_ask_questions_while_it_lists() -> Result<()> {
    let script = artifacts::root().join("tests/support/servers/asking.mjs").display().to_string();
    let well = json!({"name": "well", "command": [artifacts::property_server()?]});
    let gateway =
        Gateway::start(json!([well, {"name": "asking", "command": ["node", script]}]), json!({}))?;
    for capabilities in [json!({}), json!({"roots": {}})] {
        let mut client = HttpClient::open(&gateway.url(), &[], capabilities)?;
        wait_until("the tools of the server", || {
            let tools = client.request("tools/list", json!({}))?;
            Ok(tools.0.to_string().contains("asking__go"))
        })?;
        let answer = client.call("asking__go", json!({}))?;
        ensure!(text(&answer).contains("called go"), "{}", answer.0);
        // A server without templates is no failed server.
        let templates = client.request("resources/templates/list", json!({}))?;
        ensure!(!templates.0.to_string().contains("unavailable"), "{}", templates.0);
    }
    Ok(())
}
