//! A small MCP server with a long and a short answer, inside the bench.

use context_guard_test_support::Result;
use context_guard_test_support::scripted::{ReceivedRequest, ScriptedResponse, ScriptedServer};
use serde_json::{Value, json};

/// The number of records of the long answer.
const RECORDS: usize = 700;

/// Starts the server. Its tool `list` returns 100 kB of records, and `ping` a few bytes.
pub(crate) fn start() -> Result<ScriptedServer> {
    let records: Vec<Value> = (0..RECORDS)
        .map(|id| {
            let name = format!("record {id} of the bench of fleets");
            let city = ["Graz", "Linz", "Wien"][id % 3];
            json!({
                "id": id, "name": name, "state": if id % 3 == 0 { "open" } else { "closed" },
                "price": id * 37 % 1_000, "city": city,
                "created": format!("2026-11-{:02}T10:00:00Z", id % 28 + 1),
            })
        })
        .collect();
    let list = json!({ "records": records }).to_string();
    ScriptedServer::from_fn(move |request| answer(request, &list))
}

/// Returns the definition of the server as an upstream.
pub(crate) fn definition(server: &ScriptedServer) -> Value {
    json!([{"name": "bench", "url": format!("{}/mcp", server.url()), "era": "legacy"}])
}

fn answer(request: &ReceivedRequest, list: &str) -> ScriptedResponse {
    if !request.line.starts_with("POST") {
        return ScriptedResponse::empty(405);
    }
    let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let Some(id) = message.get("id") else { return ScriptedResponse::empty(202) };
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    let schema = json!({"type": "object"});
    let read_only = json!({"readOnlyHint": true});
    let tool = |name: &str| json!({"name": name, "description": name, "inputSchema": schema, "annotations": read_only});
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "bench", "version": "1"},
        }),
        Some("tools/list") => json!({"tools": [tool("list"), tool("ping")]}),
        Some("tools/call") if message["params"]["name"] == "list" => text(list),
        _ => text("pong"),
    };
    ScriptedResponse::json(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
}
