//! Clients of `context_guard_run`: stateless ones, and clients that cancel a run or go away.

use context_guard_test_support::answer::Answer;
use context_guard_test_support::faulty_server::faulty_script;
use context_guard_test_support::gateway::{Gateway, HttpClient, StreamedResponse, post};
use context_guard_test_support::operations::admin_config;
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde_json::{Value, json};

const RUN: &str = "context_guard_run";
/// A program whose call never ends.
const HANGING: &str = "await tools.faulty.hang(); return 1";
/// A program that never ends after its call.
const ENDLESS: &str = "await tools.faulty.ok(); for (;;);";

/// Starts a gateway that runs one program at a time, over tools that hang.
fn start() -> Result<Gateway> {
    let upstreams = json!([
        {"name": "houses", "command": [artifacts::property_server()?]},
        {"name": "faulty", "command": ["node", faulty_script(), "--stdio"], "isolation": "shared",
            "limits": {"timeoutSeconds": 600}},
    ]);
    let code = json!({"enabled": true, "tools": ["faulty::*"], "concurrency": 1});
    Gateway::start(upstreams, json!({"code": code, "admin": admin_config()}))
}

/// A client without a session.
struct Stateless<'g>(&'g Gateway);

impl Stateless<'_> {
    fn headers<'h>(method: &'h str, name: &'h str) -> Vec<(&'h str, &'h str)> {
        let mut headers = vec![
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
            ("accept", "application/json, text/event-stream"),
        ];
        headers.extend((!name.is_empty()).then_some(("mcp-name", name)));
        headers
    }

    fn body(method: &str, mut params: Value) -> String {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
    }

    fn request(&self, method: &str, name: &str, params: Value) -> Result<Answer> {
        let headers = Self::headers(method, name);
        post(&self.0.url(), &headers, &Self::body(method, params))?.answer()
    }

    fn call(&self, name: &str, arguments: &Value) -> Result<Answer> {
        self.request("tools/call", name, json!({"name": name, "arguments": arguments}))
    }

    /// Sends a program, without reading the response.
    fn begin(&self, code: &str) -> Result<StreamedResponse> {
        let params = json!({"name": RUN, "arguments": {"code": code}});
        let headers = Self::headers("tools/call", RUN);
        StreamedResponse::send(&self.0.base, "POST", &headers, &Self::body("tools/call", params))
    }

    fn number(&self, tool: &str) -> Result<usize> {
        let answer = self.call(&format!("faulty__{tool}"), &json!({}))?;
        Ok(answer.texts().first().with_context(|| answer.0.to_string())?.parse()?)
    }
}

/// Returns the records of an endpoint.
fn records(gateway: &Gateway, endpoint: &str) -> Result<usize> {
    let (_, records) = gateway.get_admin("/admin/telemetry")?;
    let records: Value = serde_json::from_str(&records)?;
    let all = records.as_array().or(records["records"].as_array()).context("no records")?;
    Ok(all.iter().filter(|record| record["endpoint"] == endpoint).count())
}

/// Asserts that the only place for programs is free again, and that no run reached its deadline: it
/// would have a record.
fn run_has_ended(gateway: &Gateway) -> Result<()> {
    let answer = Stateless(gateway).call(RUN, &json!({"code": "return 'free'"}))?;
    ensure!(answer.texts() == ["free"], "{}", answer.0);
    wait_until("a record of the second run", || Ok(records(gateway, RUN)? > 0))?;
    ensure!(records(gateway, RUN)? == 1, "the cancelled run was answered");
    Ok(())
}

#[test]
fn stateless_client_runs_programs() -> Result<()> {
    let gateway = start()?;
    let client = Stateless(&gateway);
    let listed = client.request("tools/list", "", json!({}))?;
    ensure!(listed.result()["tools"].to_string().contains(RUN), "{}", listed.0);
    let code = "
        const [a, b] = await Promise.all([tools.houses.list_bookings(), tools.houses.list_bookings()]);
        return {bookings: a.bookings.length + b.bookings.length, servers: Object.keys(tools), input};";
    let answer = client.call(RUN, &json!({"code": code, "input": {"n": 1}}))?;
    let expected = json!({"bookings": 1_000, "servers": ["houses", "faulty"], "input": {"n": 1}});
    let value: Value = serde_json::from_str(&answer.all_texts().concat())?;
    ensure!(value == expected && !answer.is_error(), "{}", answer.0);
    ensure!(answer.result()["resultType"] == "complete", "{}", answer.0);
    let facts = &answer.result()["_meta"]["dev.context-guard/run"];
    ensure!(facts["calls"] == 2, "{facts}");
    let failed = client.call(RUN, &json!({"code": "null.x"}))?;
    ensure!(failed.is_error() && failed.result()["resultType"] == "complete", "{}", failed.0);
    // A large value is stored, and read without a session.
    let large =
        client.call(RUN, &json!({"code": "return (await tools.houses.list_bookings())"}))?;
    let cursor = large.cursor().context("no cursor")?;
    let read = json!({"cursor": cursor, "aggregate": "count"});
    let read = client.call("context_guard_read", &read)?;
    ensure!(read.all_texts().concat().contains("500"), "{}", read.0);
    Ok(())
}

#[test]
fn closed_connection_ends_a_run_and_its_calls() -> Result<()> {
    let gateway = start()?;
    let client = Stateless(&gateway);
    let running = client.begin(HANGING)?;
    wait_until("a call of the program", || Ok(client.number("hanging")? == 1))?;
    ensure!(client.number("cancelled")? == 0);
    drop(running);
    wait_until("a cancelled call", || Ok(client.number("cancelled")? == 1))?;
    run_has_ended(&gateway)
}

#[test]
fn closed_connection_ends_an_endless_program() -> Result<()> {
    let gateway = start()?;
    let running = Stateless(&gateway).begin(ENDLESS)?;
    wait_until("the end of its call", || Ok(records(&gateway, "faulty::ok")? == 1))?;
    drop(running);
    run_has_ended(&gateway)
}

/// Cancels a program in a session, once `is_running` is true.
fn cancel(gateway: &Gateway, code: &str, is_running: impl FnMut() -> Result<bool>) -> Result<()> {
    let client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let params = json!({"name": RUN, "arguments": {"code": code}});
    let request = json!({"jsonrpc": "2.0", "id": "run", "method": "tools/call", "params": params});
    let headers = [
        ("mcp-session-id", client.session.as_str()),
        ("mcp-protocol-version", "2025-11-25"),
        ("accept", "application/json, text/event-stream"),
    ];
    let running = StreamedResponse::send(&gateway.base, "POST", &headers, &request.to_string())?;
    wait_until("a running program", is_running)?;
    let params = json!({"requestId": "run", "reason": "enough"});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    ensure!(client.send(&cancel)?.status == 202);
    run_has_ended(gateway)?;
    drop(running);
    Ok(())
}

#[test]
fn cancelled_request_ends_a_run_and_its_calls() -> Result<()> {
    let gateway = start()?;
    // Sessions share a process of the server that others do not use.
    let mut other = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let mut number = |tool: &str| -> Result<usize> {
        let answer = other.call(&format!("faulty__{tool}"), json!({}))?;
        Ok(answer.texts().first().with_context(|| answer.0.to_string())?.parse()?)
    };
    cancel(&gateway, HANGING, || Ok(number("hanging")? == 1))?;
    wait_until("a cancelled call", || Ok(number("cancelled")? == 1))?;
    Ok(())
}

#[test]
fn cancelled_request_ends_an_endless_program() -> Result<()> {
    let gateway = start()?;
    cancel(&gateway, ENDLESS, || Ok(records(&gateway, "faulty::ok")? == 1))
}
