//! `stdio` on the command line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::{Home, PROGRAM};

/// A running gateway.
struct Gateway {
    child: Child,
    input: Option<ChildStdin>,
    /// `None` if nobody reads the answers.
    output: Option<BufReader<ChildStdout>>,
    _home: Home,
}

impl Gateway {
    fn start(settings: &str) -> Self {
        let home = Home::new();
        let upstream =
            |name: &str| format!("  - name: {name}\n    command: [{PROGRAM}, example-server]\n");
        let text = format!("{settings}upstreams:\n{}{}", upstream("a"), upstream("b"));
        home.write("project/gateway.yaml", &text);
        let mut child = home
            .command(&["stdio", "--config", "gateway.yaml"])
            .env("CONTEXT_GUARD_COMPONENT", crate::stub::path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { input: child.stdin.take(), child, output: Some(output), _home: home }
    }

    fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string());
    }

    fn send_text(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Returns the next message of the gateway. `Null` at the end.
    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.output.as_mut().unwrap().read_line(&mut line).unwrap();
        if line.is_empty() { Value::Null } else { serde_json::from_str(&line).unwrap() }
    }

    /// Returns the answer to the request with this id. Notifications are skipped.
    fn answer(&mut self, id: &Value) -> Value {
        loop {
            let message = self.next();
            assert!(!message.is_null(), "no answer to {id}");
            if message["id"] == *id {
                return message;
            }
        }
    }

    fn request(&mut self, id: u64, method: &str, params: &Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.answer(&json!(id))
    }

    fn initialize(&mut self) {
        let info = json!({"name": "test", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
        let answer = self.request(0, "initialize", &params);
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns `_meta` of a stateless request.
fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    })
}

#[test]
fn stateful_client_uses_all_upstreams() {
    let mut gateway = Gateway::start("");
    gateway.initialize();
    let list = gateway.request(1, "tools/list", &json!({}));
    let names: Vec<&str> = list["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert!(
        names.contains(&"a__list_bookings") && names.contains(&"b__list_bookings"),
        "{names:?}"
    );
    for name in ["a__get_booking", "b__get_booking"] {
        let answer = gateway.request(2, "tools/call", &json!({"name": name, "arguments": {}}));
        assert!(answer["result"]["content"][0]["text"].is_string(), "{answer}");
    }
}

#[test]
fn stateless_client_needs_no_session() {
    let mut gateway = Gateway::start("");
    let found = gateway.request(1, "server/discover", &json!({"_meta": meta()}));
    assert!(found["result"]["capabilities"]["tools"].is_object(), "{found}");
    let params = json!({"name": "a__get_booking", "arguments": {}, "_meta": meta()});
    let answer = gateway.request(2, "tools/call", &params);
    assert!(answer["result"]["content"][0]["text"].is_string(), "{answer}");
}

#[test]
fn errors_have_the_id_of_the_request() {
    let mut gateway = Gateway::start("limits: {requestBytes: 2000}\n");
    let early = gateway.request(1, "tools/list", &json!({}));
    assert!(early["error"]["message"].as_str().unwrap().contains("initialize"), "{early}");
    gateway.initialize();
    assert_eq!(gateway.request(2, "nope", &json!({}))["error"]["code"], -32601);
    gateway.send_text("not json");
    let error = gateway.answer(&Value::Null);
    assert_eq!(error["error"]["code"], -32700);
    gateway.send_text(&format!("{{\"jsonrpc\":\"2.0\",\"id\":3,\"x\":\"{}\"}}", "y".repeat(9_000)));
    let error = gateway.answer(&Value::Null);
    assert!(error["error"]["message"].as_str().unwrap().contains("requestBytes"), "{error}");
    assert!(gateway.request(4, "ping", &json!({}))["result"].is_object());
}

#[test]
fn end_of_input_waits_for_answers() {
    let mut gateway = Gateway::start("");
    gateway.initialize();
    for id in 1..=5 {
        let params = json!({"name": "a__list_bookings", "arguments": {}});
        gateway
            .send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }
    drop(gateway.input.take());
    let mut ids = Vec::new();
    loop {
        let message = gateway.next();
        if message.is_null() {
            break;
        }
        ids.extend(message["id"].as_u64());
    }
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3, 4, 5]);
    assert!(gateway.child.wait().unwrap().success());
}

#[test]
fn subscription_ends_with_its_cancellation() {
    let mut gateway = Gateway::start("");
    let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta()});
    let listen =
        json!({"jsonrpc": "2.0", "id": "s", "method": "subscriptions/listen", "params": params});
    gateway.send(&listen);
    let acknowledged = gateway.next();
    assert!(acknowledged["method"].as_str().unwrap().contains("acknowledged"), "{acknowledged}");
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "s"}});
    gateway.send(&cancel);
    // The id is free again, so a second subscription is acknowledged.
    gateway.send(&listen);
    assert!(gateway.next()["method"].as_str().unwrap().contains("acknowledged"));
}

#[test]
fn gateway_ends_if_nobody_reads_its_answers() {
    let mut gateway = Gateway::start("");
    gateway.output = None;
    gateway.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    assert!(gateway.child.wait().unwrap().success());
}

#[test]
fn wrap_ends_if_nobody_reads_its_answers() {
    let home = Home::new();
    let mut child = home
        .command(&["wrap", "--", PROGRAM, "example-server"])
        .env("CONTEXT_GUARD_COMPONENT", crate::stub::path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    // The input remains open.
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).unwrap();
    assert!(child.wait().unwrap().code().is_some());
}
