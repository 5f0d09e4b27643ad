//! Floods of messages: an upstream that sends without end, and clients that do not read, neither
//! fill memory nor delay others.

use context_guard_test_support::faulty_server::{FaultyServer, faulty_script};
use context_guard_test_support::gateway::{Gateway, HttpClient, StreamedResponse};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde_json::{Value, json};

/// The number of blocks of 16 kB that an upstream sends before memory is measured.
pub(crate) const BLOCKS: u64 = 12_000;
/// The maximum growth of memory meanwhile, in kB. Without limits it would be 192 MB and more.
pub(crate) const MAX_GROWTH: u64 = 96_000;

pub(crate) fn stdio(more: Value) -> Value {
    let mut upstream = json!({"name": "faulty", "command": ["node", faulty_script(), "--stdio"]});
    for (name, value) in more.as_object().into_iter().flatten() {
        upstream[name] = value.clone();
    }
    upstream
}

pub(crate) fn flood(id: usize, arguments: Value) -> Value {
    let params = json!({"name": "flood", "arguments": arguments, "_meta": {"progressToken": id}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

/// Sends a message in a session, without reading the response.
fn send(gateway: &Gateway, client: &HttpClient, message: &Value) -> Result<StreamedResponse> {
    let headers = [
        ("mcp-session-id", client.session.as_str()),
        ("accept", "application/json, text/event-stream"),
    ];
    StreamedResponse::send(&gateway.base, "POST", &headers, &message.to_string())
}

/// Returns the resident memory of the gateway, in kB.
pub(crate) fn memory(gateway: &Gateway) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.process.pid()))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS")).context("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).context("no number")?.parse()?)
}

pub(crate) fn number(client: &mut HttpClient, tool: &str) -> Result<u64> {
    let answer = client.call(tool, json!({}))?;
    Ok(answer.texts().first().with_context(|| answer.0.to_string())?.parse()?)
}

/// Starts floods of progress and of log messages whose client does not read, and measures memory
/// after many blocks. `counting` is a session that asks the flooding upstream for their number.
fn unread_floods(gateway: &Gateway, tool: &str, is_shared: bool) -> Result<()> {
    let mut flooding = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let mut other = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let counter = format!("{tool}flooded");
    let ok = format!("{tool}ok");
    ensure!(!other.call(&ok, json!({}))?.is_error() && number(&mut flooding, &counter)? == 0);
    let before = memory(gateway)?;
    let mut unread = Vec::new();
    for (id, arguments) in [(1, json!({})), (2, json!({"log": true}))] {
        let mut message = flood(id, arguments);
        message["params"]["name"] = json!(format!("{tool}flood"));
        unread.push(send(gateway, &flooding, &message)?);
    }
    let counting = if is_shared { &mut other } else { &mut flooding };
    wait_until("a flood", || Ok(number(counting, &counter)? >= BLOCKS))?;
    ensure!(!other.call(&ok, json!({}))?.is_error());
    let growth = memory(gateway)?.saturating_sub(before);
    ensure!(growth < MAX_GROWTH, "memory grew by {growth} kB");
    Ok(())
}

#[test]
fn flood_of_a_process_is_bounded() -> Result<()> {
    unread_floods(&Gateway::start(json!([stdio(json!({}))]), json!({}))?, "", false)
}

#[test]
fn flood_of_a_shared_process_is_bounded() -> Result<()> {
    let upstream = stdio(json!({"isolation": "shared"}));
    unread_floods(&Gateway::start(json!([upstream]), json!({}))?, "", true)
}

#[test]
fn flood_over_http_is_bounded() -> Result<()> {
    let server = FaultyServer::start()?;
    let well = json!({"name": "well", "command": [artifacts::property_server()?]});
    let upstreams = json!([well, {"name": "faulty", "url": server.url}]);
    unread_floods(&Gateway::start(upstreams, json!({}))?, "faulty__", true)
}

#[test]
fn resumed_stream_has_one_reader_and_no_copies() -> Result<()> {
    let gateway = Gateway::start(json!([stdio(json!({}))]), json!({}))?;
    let client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let reply = client.send(&flood(1, json!({"count": 220})))?;
    ensure!(reply.messages()?.len() == 221, "{}", reply.messages()?.len());
    let first = reply.body.lines().find_map(|line| line.strip_prefix("id: ")).context("no id")?;
    let before = memory(&gateway)?;
    let resume = || {
        let headers = [
            ("mcp-session-id", client.session.as_str()),
            ("accept", "text/event-stream"),
            ("connection", "close"),
            ("last-event-id", first),
        ];
        let mut response = StreamedResponse::send(&gateway.base, "GET", &headers, "")?;
        response.read_until("text/event-stream")?;
        Ok(response)
    };
    let mut readers = (0..150).map(|_| resume()).collect::<Result<Vec<_>>>()?;
    let last = readers.pop().context("no reader")?.read_to_end()?;
    ensure!(last.contains("flooded") && last.matches("progressToken").count() == 220);
    let growth = memory(&gateway)?.saturating_sub(before);
    ensure!(growth < MAX_GROWTH, "memory grew by {growth} kB");
    Ok(())
}

#[test]
fn endless_call_ends() -> Result<()> {
    let server = FaultyServer::start()?;
    let limits = json!({"limits": {"callSeconds": 2}});
    for upstream in [stdio(json!({})), json!({"name": "faulty", "url": server.url})] {
        let mut upstream = upstream;
        upstream["limits"] = limits["limits"].clone();
        let gateway = Gateway::start(json!([upstream]), json!({}))?;
        let client = HttpClient::open(&gateway.url(), &[], json!({}))?;
        // The client stores the whole response: large blocks would exceed its limit.
        let answer = client.send(&flood(1, json!({"bytes": 16})))?.answer()?;
        let text = answer.all_texts().join("");
        ensure!(
            answer.is_error() && text.contains("upstreams[].limits.callSeconds"),
            "{}",
            answer.0
        );
    }
    Ok(())
}

#[test]
fn notifications_of_a_call_are_limited() -> Result<()> {
    let upstream = stdio(json!({"limits": {"callNotifications": 5}}));
    let gateway = Gateway::start(json!([upstream]), json!({}))?;
    let client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let messages = client.send(&flood(1, json!({"count": 20})))?.messages()?;
    ensure!(messages.len() == 6 && messages[5]["id"] == 1, "{}", messages.len());
    Ok(())
}

#[test]
fn log_messages_on_a_shared_process_reach_nobody() -> Result<()> {
    let upstream = stdio(json!({"isolation": "shared"}));
    let gateway = Gateway::start(json!([upstream]), json!({}))?;
    let open = || HttpClient::open(&gateway.url(), &[], json!({}));
    let (alice, mut bob) = (open()?, open()?);
    let _unread = send(&gateway, &alice, &flood(1, json!({"log": true})))?;
    wait_until("a flood", || Ok(number(&mut bob, "flooded")? > 0))?;
    // The call of bob begins last, and messages arrive while it runs.
    let params = json!({"name": "slow", "arguments": {}});
    let slow = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    let messages = bob.send(&slow)?.messages()?;
    ensure!(messages.len() == 1 && messages[0]["id"] == 7, "{} messages", messages.len());
    Ok(())
}
