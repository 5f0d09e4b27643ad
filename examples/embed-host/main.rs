//! Guards the answers of a tool in a program, and reads its pages by cursor. See README.md.
#![allow(clippy::print_stdout, reason = "an example speaks to a person")]

use std::sync::Arc;

use anyhow::Context as _;
use context_guard::clock::SystemClock;
use context_guard::engine::{CallContext, Component, Engine, EngineOptions, HostServices};
use context_guard::filter::Request;
use context_guard::store::{MemoryLimits, MemoryStore};
use context_guard::{Clock, Filter, keys};
use serde_json::{Value, json};

fn main() -> anyhow::Result<()> {
    // 1. An engine compiles and limits the component. A filter adds a policy, a store, a clock, and
    //    a key that signs cursors.
    let path = std::env::args().nth(1).unwrap_or("target/context-guard.wasm".to_owned());
    let engine = Engine::new(EngineOptions::default())?;
    let component = Component::load(&engine, &std::fs::read(&path).context(path)?)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = Arc::new(MemoryStore::new(Arc::clone(&clock), MemoryLimits::default()));
    let services = HostServices { store, clock };
    let policy = r#"{"tokenBudgetThreshold": 4000}"#;
    let filter = Filter::new(Arc::new(component), services, policy, vec![keys::random()?])?;
    let caller = CallContext { principal: "ada".to_owned(), ..CallContext::default() };

    // 2. Requests and responses pass through the filter. It answers requests that read a cursor.
    let (mut call, mut read) = (json!({"name": "list_rooms", "arguments": {}}), 0);
    loop {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call});
        let answer = match filter.request(&caller, request.to_string().as_bytes()) {
            Request::Forward(_, ticket) => {
                let answer = upstream();
                filter.response(&caller, &ticket, &answer).unwrap_or(answer)
            }
            Request::Answer(answer, ..) => answer,
        };
        let answer: Value = serde_json::from_slice(&answer)?;
        let text = answer.pointer("/result/content/0/text").and_then(Value::as_str);
        let page: Value = serde_json::from_str(text.context("no text")?)?;
        read += page.get("rooms").and_then(Value::as_array).map_or(0, Vec::len);
        println!("{read} of 500 rooms read");
        let cursor = answer.pointer("/result/_meta/dev.context-guard~1result/nextCursor");
        let Some(cursor) = cursor.and_then(Value::as_str) else { return Ok(()) };
        call = json!({"name": "context_guard_read", "arguments": {"cursor": cursor}});
    }
}

/// Returns the answer of the server behind the guard.
fn upstream() -> Vec<u8> {
    let room = |id: usize| json!({"id": id, "name": format!("Room {id}"), "beds": id % 4 + 1});
    let rooms = json!({"rooms": (0..500).map(room).collect::<Vec<_>>()}).to_string();
    json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": rooms}]}})
        .to_string()
        .into_bytes()
}
