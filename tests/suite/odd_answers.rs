//! Answers of upstreams that break JSON-RPC: each call ends without a timeout, with a valid answer
//! or with an error that says what was wrong.

use std::collections::BTreeMap;

use context_guard_test_support::client::Client;
use context_guard_test_support::gateway::{Gateway, HttpClient, post};
use context_guard_test_support::scripted::{ScriptedResponse, ScriptedServer};
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde_json::{Value, json};

/// Returns the tools: the name, the answer with ID for the request's id, and a part of the text
/// that the client receives.
fn table() -> Vec<(&'static str, String, &'static str)> {
    let result = r#""result":{"content":[{"type":"text","text":"fine"}]}"#;
    let plain = format!(r#"{{"jsonrpc":"2.0","id":ID,{result}}}"#);
    let long = "x".repeat(6_000);
    let damaged = |text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":ID,"result":{{"content":[{{"type":"text","text":"{text}"}}],}}}}"#
        )
    };
    vec![
        ("plain", plain.clone(), "fine"),
        ("bom", format!("\u{feff}{plain}"), "fine"),
        ("nul", format!("\0{plain}\0"), "fine"),
        ("float", plain.replace("ID", "ID.0"), "fine"),
        ("text", plain.replace("ID", "\"ID\""), "fine"),
        ("batch", format!("[{plain}]"), "fine"),
        ("echo", plain.replace("\"id\"", "\"method\":\"tools/call\",\"id\""), "fine"),
        ("version", plain.replace("\"jsonrpc\":\"2.0\",", ""), "fine"),
        ("both_null", plain.replace("\"id\"", "\"error\":null,\"id\""), "fine"),
        ("nothing", r#"{"jsonrpc":"2.0","id":ID}"#.to_owned(), "neither a result nor an error"),
        (
            "both",
            plain.replace("\"id\"", r#""error":{"code":1,"message":"no"},"id""#),
            "both a result and an error",
        ),
        ("list", r#"{"jsonrpc":"2.0","id":ID,"result":[1]}"#.to_owned(), "not an object"),
        ("word", r#"{"jsonrpc":"2.0","id":ID,"error":"odd"}"#.to_owned(), "invalid error: \"odd\""),
        (
            "null_id",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"lost"}}"#.to_owned(),
            "lost",
        ),
        ("damaged", damaged("short"), "short"),
        ("damaged_long", damaged(&long), "cannot be read"),
        (
            "cut",
            format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"content":[{{"text":"{long}"#),
            "cannot be read",
        ),
        ("control", damaged("a\tb").replace(",}}", "}}"), "a"),
    ]
}

/// Asserts that an answer is a valid response to the request `id` with this text.
fn check(answer: &Value, id: &Value, tool: &str, expected: &str) -> Result<()> {
    let members: Vec<_> = answer.as_object().context("no object")?.keys().collect();
    ensure!(answer["jsonrpc"] == "2.0" && answer["id"] == *id, "{tool}: {answer:.400}");
    ensure!(
        members.len() == 3 && (answer["result"].is_object() || answer["error"].is_object()),
        "{tool}: {answer:.400}"
    );
    ensure!(answer.to_string().contains(&expected.replace('"', "\\\"")), "{tool}: {answer}");
    // Where the transport knows the request, an error without an id is valid but for the id.
    let is_odd = expected != "fine" && tool != "null_id";
    ensure!(!is_odd || answer.to_string().contains("not valid"), "{tool}: {answer}");
    ensure!(expected != "fine" || answer.to_string().len() < 200, "{tool}: {answer}");
    Ok(())
}

fn server() -> Result<Value> {
    let table: BTreeMap<_, _> =
        table().into_iter().map(|(name, answer, _)| (name, answer)).collect();
    let script = artifacts::root().join("tests/support/servers/odd.mjs");
    Ok(json!(["node", script, serde_json::to_string(&table)?]))
}

fn call(id: &Value, tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {}}})
}

fn wrap() -> Result<Client> {
    let command = server()?;
    let command = command.as_array().into_iter().flatten().filter_map(Value::as_str);
    Client::wrap(std::iter::once("--").chain(command))
}

#[test]
fn wrap_answers_every_call() -> Result<()> {
    let mut client = wrap()?;
    for (number, (tool, _, expected)) in table().into_iter().enumerate() {
        // A client may use numbers or texts.
        for id in [json!(number), json!(format!("{number}"))] {
            if id.is_string() && ["float", "text"].contains(&tool) {
                continue;
            }
            client.send(call(&id, tool).to_string().as_bytes())?;
            let line = client.line()?;
            let answer = serde_json::from_slice(&line)
                .with_context(|| format!("{tool}: {:.300}", String::from_utf8_lossy(&line)))?;
            check(&answer, &id, tool, expected)?;
        }
    }
    Ok(())
}

#[test]
fn errors_without_an_id_are_attributed_by_exclusion() -> Result<()> {
    let mut client = wrap()?;
    for (id, tool) in [(1, "hold"), (2, "null_id"), (3, "release")] {
        client.send(call(&json!(id), tool).to_string().as_bytes())?;
    }
    let mut answered = Vec::new();
    while answered.len() < 3 {
        let answer: Value = serde_json::from_slice(&client.line()?)?;
        if answer["id"] == 2 {
            check(&answer, &json!(2), "null_id", "lost")?;
        }
        answered.extend(answer["id"].as_u64());
    }
    answered.sort_unstable();
    ensure!(answered == [1, 2, 3], "{answered:?}");
    Ok(())
}

/// Calls each tool through a gateway before this upstream. `prefix` begins the names of tools.
fn call_all(gateway: &Gateway, prefix: &str) -> Result<()> {
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    for (tool, _, expected) in table() {
        let answer = client.call(&format!("{prefix}{tool}"), json!({}))?;
        let answer = serde_json::to_value(&answer.0)?;
        let id = answer["id"].clone();
        check(&answer, &id, tool, expected)?;
    }
    Ok(())
}

#[test]
fn stdio_upstream_answers_every_call() -> Result<()> {
    let odd = json!({"name": "odd", "command": server()?});
    call_all(&Gateway::start(json!([odd]), json!({}))?, "")?;
    let well = json!({"name": "well", "command": [artifacts::property_server()?]});
    call_all(&Gateway::start(json!([well, odd]), json!({}))?, "odd__")
}

/// Starts an HTTP server that answers with JSON bodies or with event streams.
fn http_server(events: bool) -> Result<ScriptedServer> {
    ScriptedServer::from_fn(move |request| {
        let Ok(message) = serde_json::from_slice::<Value>(&request.body) else {
            return ScriptedResponse::empty(405);
        };
        let result = |result: Value| {
            json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string()
        };
        let answer = match message["method"].as_str().unwrap_or_default() {
            "initialize" => result(json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "odd", "version": "1"},
            })),
            "tools/list" => {
                let tool = |(name, ..): (&str, String, &str)| json!({"name": name, "inputSchema": {"type": "object"}});
                result(json!({"tools": table().into_iter().map(tool).collect::<Vec<_>>()}))
            }
            "tools/call" => {
                let tool = message["params"]["name"].as_str().unwrap_or_default();
                let found = table().into_iter().find(|(name, ..)| *name == tool);
                found.map_or_else(String::new, |(_, answer, _)| {
                    answer.replace("ID", &message["id"].to_string())
                })
            }
            _ => return ScriptedResponse::empty(202),
        };
        if events {
            ScriptedResponse::with_type("text/event-stream", format!("data: {answer}\n\n"))
        } else {
            ScriptedResponse::json(answer)
        }
    })
}

#[test]
fn http_upstream_answers_every_call() -> Result<()> {
    for events in [false, true] {
        let server = http_server(events)?;
        let odd = json!({"name": "odd", "url": server.url()});
        call_all(&Gateway::start(json!([odd]), json!({}))?, "")?;
        let well = json!({"name": "well", "command": [artifacts::property_server()?]});
        call_all(&Gateway::start(json!([well, odd]), json!({}))?, "odd__")?;
    }
    Ok(())
}

#[test]
fn damaged_lists_are_errors() -> Result<()> {
    let long = "x".repeat(6_000);
    let server = ScriptedServer::from_fn(move |request| {
        let Ok(message) = serde_json::from_slice::<Value>(&request.body) else {
            return ScriptedResponse::empty(405);
        };
        ScriptedResponse::json(format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"prompts":[{{"name":"{long}",}}]}}}}"#,
            message["id"]
        ))
    })?;
    let gateway = Gateway::start(json!([{"name": "odd", "url": server.url()}]), json!({}))?;
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "prompts/list"}).to_string();
    let answer = post(&gateway.url(), &[], &body)?.messages()?;
    let [answer] = answer.as_slice() else { panic!("{answer:?}") };
    ensure!(answer["id"] == 7 && answer.to_string().contains("not valid JSON"), "{answer}");
    Ok(())
}

#[test]
fn invalid_definitions_are_repaired() -> Result<()> {
    let server = ScriptedServer::from_fn(|request| {
        let Ok(message) = serde_json::from_slice::<Value>(&request.body) else {
            return ScriptedResponse::empty(405);
        };
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "odd", "version": "1"},
            }),
            "tools/list" => json!({"tools": [
                {"name": "untyped", "inputSchema": {"$schema": "x"}, "outputSchema": {}},
                {"name": "missing", "description": null},
                {"name": "valid", "inputSchema": {"type": "object", "required": []}},
            ]}),
            _ => return ScriptedResponse::empty(202),
        };
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        ScriptedResponse::json(answer.to_string())
    })?;
    let odd = json!({"name": "odd", "url": server.url()});
    let well = json!({"name": "well", "command": [artifacts::property_server()?]});
    let gateway = Gateway::start(json!([well, odd]), json!({}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let list = client.request("tools/list", json!({}))?;
    let list = serde_json::to_value(&list.0)?;
    let tool = |name: &str| {
        let mut tools = list["result"]["tools"].as_array().into_iter().flatten();
        tools.find(|tool| tool["name"] == name).cloned().unwrap_or_default()
    };
    let object = json!({"type": "object"});
    let untyped = tool("odd__untyped");
    ensure!(untyped["inputSchema"] == json!({"$schema": "x", "type": "object"}), "{untyped}");
    ensure!(untyped["outputSchema"]["type"] == "object", "{untyped}");
    ensure!(
        tool("odd__missing") == json!({"name": "odd__missing", "inputSchema": object}),
        "{list}"
    );
    let valid = json!({"type": "object", "required": []});
    ensure!(tool("odd__valid")["inputSchema"] == valid, "{list}");
    Ok(())
}
