//! Fairness: the load of one client does not delay the calls of others.

use std::sync::mpsc::channel;
use std::thread;

use context_guard_test_support::faulty_server::{FaultyServer, faulty_script};
use context_guard_test_support::gateway::{Gateway, HttpClient, StreamedResponse, post};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, ensure};
use serde_json::{Value, json};

/// Returns an upstream whose calls may hang until the end of the test. All sessions share its
/// process.
fn shared() -> Value {
    json!({
        "name": "faulty",
        "command": ["node", faulty_script(), "--stdio"],
        "isolation": "shared",
        "limits": {"timeoutSeconds": 600},
    })
}

fn hang(id: usize) -> Value {
    let params = json!({"name": "hang", "arguments": {}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn batch(calls: usize) -> String {
    Value::from_iter((0..calls).map(hang)).to_string()
}

/// Calls a tool that returns a number.
fn number(client: &mut HttpClient, tool: &str) -> Result<usize> {
    let answer = client.call(tool, json!({}))?;
    Ok(answer.texts().first().with_context(|| answer.0.to_string())?.parse()?)
}

/// Sends a message in a session, without reading the response.
fn send(gateway: &Gateway, session: &str, body: &str) -> Result<StreamedResponse> {
    let headers = [("mcp-session-id", session), ("accept", "application/json, text/event-stream")];
    StreamedResponse::send(&gateway.base, "POST", &headers, body)
}

#[test]
fn batch_needs_its_protocol_version() -> Result<()> {
    let gateway = Gateway::start(json!([shared()]), json!({}))?;
    let pings = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 2, "method": "ping"},
    ]);
    let hello = json!([{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}]);
    let open = |version| HttpClient::open_version(version, &gateway.url(), &[], json!({}));
    let (new, mut old) = (open("2025-06-18")?, open("2025-03-26")?);
    let refused = |session: &str, body: &str| -> Result<()> {
        let reply = post(&gateway.url(), &[("mcp-session-id", session)], body)?;
        let answer = reply.answer()?;
        ensure!(reply.status == 400 && answer.0["error"]["code"] == -32600, "{}", reply.body);
        Ok(())
    };
    refused(&new.session, &batch(2_000))?;
    refused(&old.session, &batch(2_000))?;
    refused(&old.session, &batch(51))?;
    refused(&new.session, &pings.to_string())?;
    refused("", &pings.to_string())?;
    refused("no such session", &pings.to_string())?;
    refused(&old.session, "[]")?;
    refused(&old.session, &hello.to_string())?;
    let reply = old.send(&pings)?;
    ensure!(reply.status == 200 && reply.messages()?.len() == 2, "{}", reply.body);
    ensure!(number(&mut old, "hanging")? == 0);
    Ok(())
}

#[test]
fn batch_messages_count_for_the_rate_limit() -> Result<()> {
    let limit = json!({"access": {"rateLimit": {"perMinute": 1, "burst": 60}}});
    let gateway = Gateway::start(json!([shared()]), limit)?;
    let client = HttpClient::open_version("2025-03-26", &gateway.url(), &[], json!({}))?;
    let pings = |count: usize| {
        Value::from_iter((0..count).map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "ping"})))
    };
    ensure!(client.send(&pings(50))?.status == 200);
    let reply = client.send(&pings(9))?;
    ensure!(reply.status == 429 && !reply.header("retry-after").is_empty(), "{}", reply.status);
    ensure!(client.send(&pings(2))?.status == 200);
    Ok(())
}

#[test]
fn batches_of_one_session_do_not_delay_others() -> Result<()> {
    let gateway = Gateway::start(json!([shared()]), json!({}))?;
    let flooding = HttpClient::open_version("2025-03-26", &gateway.url(), &[], json!({}))?;
    let mut other = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let (refused, refusals) = channel();
    // A session may have a quarter of the places, and its queue has a length.
    for _ in 0..20 {
        let (url, session, refused) = (gateway.url(), flooding.session.clone(), refused.clone());
        thread::spawn(move || {
            let reply = post(&url, &[("mcp-session-id", &session)], &batch(50));
            if let Ok(reply) = reply
                && reply.status == 503
            {
                let _ = refused.send(reply.header("retry-after").to_owned());
            }
        });
    }
    for _ in 0..10 {
        ensure!(refusals.recv()? == "1");
    }
    // The upstream has 64 places, of which a session may have 16.
    wait_until("calls in flight", || Ok(number(&mut other, "hanging")? == 16))?;
    Ok(())
}

/// Sends 300 calls that hang in one session, and asserts that another one is not delayed.
fn flood(gateway: &Gateway) -> Result<()> {
    let flooding = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let mut other = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let mut responses = Vec::new();
    for id in 0..300 {
        responses.push(send(gateway, &flooding.session, &hang(id).to_string())?);
        if id % 50 == 0 {
            ensure!(number(&mut other, "hanging")? <= 16);
        }
    }
    wait_until("calls in flight", || Ok(number(&mut other, "hanging")? >= 16))?;
    // The others wait for their turn, and have not been sent to the upstream.
    ensure!(number(&mut other, "hanging")? == 16);
    Ok(())
}

#[test]
fn calls_of_one_session_do_not_delay_others() -> Result<()> {
    flood(&Gateway::start(json!([shared()]), json!({}))?)
}

#[test]
fn passed_calls_of_one_session_do_not_delay_others() -> Result<()> {
    let server = FaultyServer::start()?;
    let upstream = json!({"name": "faulty", "url": server.url, "limits": {"timeoutSeconds": 600}});
    flood(&Gateway::start(json!([upstream]), json!({}))?)
}

#[test]
fn calls_of_a_lost_client_are_cancelled() -> Result<()> {
    let gateway = Gateway::start(json!([shared()]), json!({}))?;
    let lost = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let mut other = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let response = send(&gateway, &lost.session, &hang(1).to_string())?;
    wait_until("a call in flight", || Ok(number(&mut other, "hanging")? == 1))?;
    ensure!(number(&mut other, "cancelled")? == 0);
    drop(response);
    wait_until("a cancelled call", || Ok(number(&mut other, "cancelled")? == 1))?;
    Ok(())
}
