//! An MCP server for a property manager, over stdio, with long answers. Its data is generated, and
//! the same in every run.
//!
//! Run `cargo run -p context-guard-property-server`, or `cargo xtask run -- demo` to compare it
//! with and without the guard.
mod data;
mod manual;

use std::io::{BufRead, Write};

use serde_json::{Value, json};

/// Answers the requests on `input`, one per line, until its end.
///
/// # Errors
/// If `input` cannot be read or `output` cannot be written.
pub fn serve(mut input: impl BufRead, mut output: impl Write) -> std::io::Result<()> {
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        if let Ok(request) = serde_json::from_str::<Value>(&line)
            && let Some(answer) = answer(&request)
        {
            writeln!(output, "{answer}")?;
            output.flush()?;
        }
        line.clear();
    }
    Ok(())
}

/// Returns the answer to a request. None for a notification.
fn answer(request: &Value) -> Option<Value> {
    let id = request.get("id")?;
    let params = request.get("params").unwrap_or(&Value::Null);
    let outcome = match request.get("method")?.as_str()? {
        "initialize" => Ok(json!({
            "protocolVersion": params.get("protocolVersion").unwrap_or(&json!("2025-11-25")),
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": {"name": "property-server", "version": "1.0.0"},
        })),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({ "tools": tools() })),
        "tools/call" => Ok(call(params)),
        "resources/list" => Ok(json!({"resources": [
            {"uri": "property://log/today", "name": "Today's log", "mimeType": "text/plain"},
            {"uri": "property://manual", "name": "House manual", "mimeType": "text/markdown"},
        ]})),
        "resources/read" => read(params),
        method => Err((-32601, format!("method not found: {method}"))),
    };
    Some(match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err((code, message)) => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
        }
    })
}

fn tools() -> Value {
    let tool = |name: &str, description: &str, properties: Value| {
        json!({
            "name": name, "description": description,
            "inputSchema": {"type": "object", "properties": properties, "additionalProperties": false},
            "annotations": {"readOnlyHint": true},
        })
    };
    let mut listings = tool("list_listings", "All listings, as structured content.", json!({}));
    if let Some(object) = listings.as_object_mut() {
        object.insert(
            "outputSchema".to_owned(),
            json!({
                "type": "object", "additionalProperties": false, "required": ["listings", "currency"],
                "properties": {"currency": {"type": "string"}, "listings": {"type": "array", "items": {
                    "type": "object", "required": ["id", "title", "nightly"],
                    "properties": {"id": {"type": "string"}, "title": {"type": "string"}, "city": {"type": "string"}, "sleeps": {"type": "integer"}, "nightly": {"type": "number"}},
                }}},
            }),
        );
    }
    json!([
        tool(
            "list_bookings",
            "All bookings.",
            json!({"status": {"type": "string", "enum": ["confirmed", "pending", "cancelled"]}})
        ),
        tool("recent_bookings", "The ten bookings that were made last.", json!({})),
        listings,
        tool("list_transactions", "All payments and refunds, as a bare array.", json!({})),
        tool("get_booking", "Everything about one booking.", json!({"id": {"type": "string"}})),
        tool("read_log", "The log of today: 10,000 lines.", json!({})),
        tool("read_manual", "The house manual, a long Markdown document.", json!({})),
        tool("short_note", "A note on the key handover.", json!({})),
    ])
}

fn call(params: &Value) -> Value {
    let argument =
        |name: &str| params.pointer(&format!("/arguments/{name}")).and_then(Value::as_str);
    let text = |text: String| json!({"content": [{"type": "text", "text": text}]});
    let error =
        |text: String| json!({"content": [{"type": "text", "text": text}], "isError": true});
    match params.get("name").and_then(Value::as_str).unwrap_or_default() {
        "list_bookings" => {
            let status = argument("status");
            let matches = |booking: &Value| status.is_none_or(|status| booking["status"] == status);
            let bookings: Vec<Value> = (0..500).map(data::booking).filter(matches).collect();
            text(json!({"bookings": bookings, "page": 1}).to_string())
        }
        "recent_bookings" => {
            let bookings: Vec<Value> = (490..500).map(data::booking).collect();
            text(json!({"bookings": bookings, "page": 1}).to_string())
        }
        "list_listings" => {
            let listings: Vec<Value> = (0..300).map(data::listing).collect();
            let listings = json!({"currency": "EUR", "listings": listings});
            let pretty = serde_json::to_string_pretty(&listings).unwrap_or_default();
            json!({"content": [{"type": "text", "text": pretty}], "structuredContent": listings})
        }
        "list_transactions" => {
            let transactions: Vec<Value> = (0..400).map(data::transaction).collect();
            text(Value::from(transactions).to_string())
        }
        "get_booking" => {
            let id = argument("id").unwrap_or("BK-0001");
            let number = id.strip_prefix("BK-").and_then(|number| number.parse().ok());
            match number.filter(|number| *number < 500) {
                Some(number) => text(data::details(number).to_string()),
                None => error(format!("no booking {id}")),
            }
        }
        "read_log" => text(data::log()),
        "read_manual" => text(manual::text()),
        "short_note" => text("The keys are in the box beside the door. The code is sent on the day of arrival.\nReturn them by eleven.".to_owned()),
        other => error(format!("unknown tool: {other}")),
    }
}

fn read(params: &Value) -> Result<Value, (i64, String)> {
    let uri = params.get("uri").and_then(Value::as_str).unwrap_or_default();
    let contents = |kind: &str, text: String| {
        Ok(json!({"contents": [{"uri": uri, "mimeType": kind, "text": text}]}))
    };
    match uri {
        "property://log/today" => contents("text/plain", data::log()),
        "property://manual" => contents("text/markdown", manual::text()),
        _ => Err((-32002, format!("resource not found: {uri}"))),
    }
}
