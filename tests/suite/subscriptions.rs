//! Subscriptions of clients to resources and lists, and limits of streams.

use context_guard_test_support::audit::wait_for_audit;
use context_guard_test_support::gateway::{Gateway, HttpClient, StreamedResponse, post};
use context_guard_test_support::peers;
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Result, artifacts, ensure};
use serde_json::{Value, json};

use crate::access::with_two_keys;

/// A stateful server that reports changes of two resources when its prompts are listed.
const ANNOUNCING_SERVER: &str = r#"
    id=0
    update() { echo '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"'$1'"}}'; }
    while read -r line; do
        case "$line" in *'"id"'*) ;; *) continue ;; esac
        id=$((id + 1))
        case "$line" in *prompts/list*) update x://bob; update x://alice ;; esac
        echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true},"prompts":{}},"serverInfo":{"name":"s","version":"1"},"prompts":[]}}'
    done"#;

#[test]
fn updates_of_a_shared_server_reach_their_subscribers() -> Result<()> {
    let command = json!(["sh", "-c", ANNOUNCING_SERVER]);
    let upstream = json!({"name": "s", "command": command, "isolation": "shared"});
    let gateway = Gateway::start(json!([upstream]), json!({}))?;
    let is_accepted = |client: &mut HttpClient, method: &str, uri: &str| -> Result<bool> {
        Ok(client.request(method, json!({"uri": uri}))?.0["error"].is_null())
    };
    let subscribe = |uri: &str| -> Result<(HttpClient, StreamedResponse)> {
        let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
        let headers =
            [("mcp-session-id", client.session.as_str()), ("accept", "text/event-stream")];
        let stream = StreamedResponse::send(&gateway.base, "GET", &headers, "")?;
        ensure!(is_accepted(&mut client, "resources/subscribe", uri)?, "{uri}");
        Ok((client, stream))
    };
    let (mut alice, mut of_alice) = subscribe("x://alice")?;
    let (mut bob, mut of_bob) = subscribe("x://bob")?;
    alice.request("prompts/list", json!({}))?;
    for (stream, uri) in [(&mut of_alice, "x://alice"), (&mut of_bob, "x://bob")] {
        let first = stream.read_data("resources/updated")?;
        ensure!(first.contains(uri), "{first}");
    }
    // A session has at most 256 subscriptions.
    for at in 1..256 {
        let uri = format!("x://{at}");
        ensure!(is_accepted(&mut bob, "resources/subscribe", &uri)?, "{uri}");
    }
    ensure!(!is_accepted(&mut bob, "resources/subscribe", "x://more")?);
    ensure!(is_accepted(&mut bob, "resources/unsubscribe", "x://1")?);
    ensure!(is_accepted(&mut bob, "resources/subscribe", "x://more")?);
    Ok(())
}

/// A stateful server that lists one resource, and reports its change when its prompts are listed.
const LISTING_SERVER: &str = r#"
    id=0
    while read -r line; do
        case "$line" in *'"id"'*) ;; *) continue ;; esac
        id=$((id + 1))
        case "$line" in *prompts/list*)
            echo '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x://1/'$0'"}}' ;;
        esac
        echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true},"prompts":{}},"serverInfo":{"name":"s","version":"1"},"prompts":[],"resources":[{"uri":"x://1","name":"one"}]}}'
    done"#;

#[test]
fn changes_have_the_alias_of_the_subscription() -> Result<()> {
    let upstream =
        |name: &str| json!({"name": name, "command": ["sh", "-c", LISTING_SERVER, name]});
    let gateway = Gateway::start(json!([upstream("a"), upstream("b")]), json!({}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    wait_until("the resources of both servers", || {
        let listed = client.request("resources/list", json!({}))?.0.to_string();
        Ok(listed.contains("context-guard://server/b/x://1")
            || listed.matches("x://1").count() == 2)
    })?;
    let headers = [("mcp-session-id", client.session.as_str()), ("accept", "text/event-stream")];
    let mut stream = StreamedResponse::send(&gateway.base, "GET", &headers, "")?;
    let alias = json!({"uri": "context-guard://server/b/x://1"});
    let answer = client.request("resources/subscribe", alias.clone())?;
    ensure!(answer.0["error"].is_null(), "{}", answer.0);
    client.request("prompts/list", json!({}))?;
    let change = stream.read_data("/server/b/")?;
    let expected = r#""uri":"context-guard://server/b/x://1/b""#;
    ensure!(change.contains(expected), "{change}");
    let answer = client.request("resources/unsubscribe", alias)?;
    ensure!(answer.0["error"].is_null(), "{}", answer.0);
    Ok(())
}

/// A stateful server that ends when its prompts are listed. It adds a line to a file for each
/// subscription, and asks the user for input when a tool is called.
const ENDING_SERVER: &str = r#"
    id=0
    while read -r line; do
        case "$line" in *'"id"'*) ;; *) continue ;; esac
        id=$((id + 1))
        case "$line" in
            *'"resources/subscribe"'*) echo subscribed >> "$0" ;;
            *'"prompts/list"'*) exit ;;
            *'"tools/call"'*)
                echo '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}'
                continue ;;
        esac
        echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true},"prompts":{},"tools":{}},"serverInfo":{"name":"s","version":"1"},"resources":[],"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}}'
    done"#;

#[test]
fn subscriptions_are_repeated_after_a_restart_of_the_server() -> Result<()> {
    let log = peers::folder("resubscribed")?.join("log");
    let command = json!(["sh", "-c", ENDING_SERVER, log]);
    let gateway = Gateway::start(json!([{"name": "s", "command": command}]), json!({}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let answer = client.request("resources/subscribe", json!({"uri": "x://1"}))?;
    ensure!(answer.0["error"].is_null(), "{}", answer.0);
    let ended = client.request("prompts/list", json!({}))?;
    ensure!(!ended.0["error"].is_null(), "{}", ended.0);
    // The next request starts the server again.
    wait_until("a second subscription", || {
        client.request("resources/list", json!({}))?;
        Ok(std::fs::read_to_string(&log)?.lines().count() == 2)
    })?;
    Ok(())
}

#[test]
fn streams_subscribe_again_after_a_restart_of_the_server() -> Result<()> {
    let log = peers::folder("resubscribed-stream")?.join("log");
    let command = json!(["sh", "-c", ENDING_SERVER, log]);
    let upstream = json!({"name": "s", "command": command, "era": "legacy"});
    let gateway = Gateway::start(json!([upstream]), json!({}))?;
    let headers = |method| {
        [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
            ("accept", "application/json, text/event-stream"),
        ]
    };
    let request = |method: &str, mut params: Value| {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
    };
    let subscriptions = |number: usize| -> Result<()> {
        let log = || std::fs::read_to_string(&log).unwrap_or_default();
        wait_until("a subscription", || Ok(log().lines().count() == number))?;
        Ok(())
    };
    let (listen, end) = ("subscriptions/listen", "prompts/list");
    let body = request(listen, json!({"notifications": {"resourceSubscriptions": ["x://1"]}}));
    let mut stream = StreamedResponse::send(&gateway.base, "POST", &headers(listen), &body)?;
    stream.read_until("acknowledged")?;
    subscriptions(1)?;
    let ended = post(&gateway.url(), &headers(end), &request(end, json!({})))?;
    ensure!(ended.body.contains("error"), "{}", ended.body);
    subscriptions(2)
}

#[test]
fn refused_requests_for_input_are_audited() -> Result<()> {
    let folder = peers::folder("refused-input")?;
    let command = json!(["sh", "-c", ENDING_SERVER, folder.join("log")]);
    let upstream = json!({"name": "s", "command": command, "era": "legacy"});
    let audit = folder.join("audit");
    let settings = json!({"audit": {"folder": audit, "required": true}});
    let gateway = Gateway::start(json!([upstream]), settings)?;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "ask", "arguments": {"text": "x".repeat(300_000)}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        },
    }});
    let headers =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "ask")];
    let answer = post(&gateway.url(), &headers, &call.to_string())?.answer()?;
    let reason = answer.0["error"]["message"].as_str().unwrap_or_default();
    ensure!(reason.contains("too long to wait"), "{}", answer.0);
    wait_for_audit(&audit, &[r#""endpoint":"s::ask","outcome":"Refused""#])?;
    Ok(())
}

#[test]
fn streams_of_one_principal_do_not_use_those_of_another() -> Result<()> {
    let houses = json!([{"name": "houses", "command": [artifacts::property_server()?]}]);
    let limits = json!({"streams": 2, "streamsPerPrincipal": 1});
    let (gateway, [alice, bob]) = with_two_keys("stream-shares", houses, limits)?;
    let listen = |key: &str, expected: &str| -> Result<StreamedResponse> {
        let method = "subscriptions/listen";
        let headers = [
            ("authorization", key),
            // So that a refusal ends.
            ("connection", "close"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
            ("accept", "application/json, text/event-stream"),
        ];
        let params = json!({"notifications": {"toolsListChanged": true}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let body = body.to_string();
        let mut stream = StreamedResponse::send(&gateway.base, "POST", &headers, &body)?;
        stream.read_until(expected)?;
        Ok(stream)
    };
    let of_alice = listen(&alice, "acknowledged")?;
    listen(&alice, "limits.streamsPerPrincipal")?;
    let _of_bob = listen(&bob, "acknowledged")?;
    drop(of_alice);
    wait_until("a free stream", || Ok(listen(&alice, "acknowledged").is_ok()))?;
    Ok(())
}
