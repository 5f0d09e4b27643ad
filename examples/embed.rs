//! Embeds the guard component in a program, and measures a call.
//!
//! `cargo xtask build`, then `cargo run --release --example embed -- target/context-guard.wasm`.
#![allow(clippy::print_stdout, reason = "an example speaks to a person")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use context_guard::clock::SystemClock;
use context_guard::engine::{CallContext, Component, Engine, EngineOptions, HostServices};
use context_guard::filter::{Request, Ticket};
use context_guard::store::{MemoryLimits, MemoryStore};
use context_guard::{Clock, Filter, keys};
use serde_json::{Value, json};

fn main() -> anyhow::Result<()> {
    let path = std::env::args().nth(1).ok_or_else(|| {
        anyhow::anyhow!(
            "name the guard component: target/context-guard.wasm after `cargo xtask build`"
        )
    })?;

    // 1. An engine compiles and limits components. A component is compiled once.
    let engine = Engine::new(EngineOptions::default())?;
    let component = Arc::new(Component::load(&engine, &std::fs::read(path)?)?);

    // 2. The services that the guard may use: a store and a clock.
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = Arc::new(MemoryStore::new(Arc::clone(&clock), MemoryLimits::default()));

    // 3. A filter is a component under a policy, with a key that signs its cursors.
    let services = HostServices { store, clock };
    let filter = Filter::new(
        component,
        services,
        r#"{"tokenBudgetThreshold": 4000}"#,
        vec![keys::random()?],
    )?;

    // 4. Requests and responses pass through the filter.
    for items in [10, 45, 1_000, 10_000] {
        let answer = answer(items);
        let ticket = ticket(&filter)?;
        let shaped = filter.response(&caller(), &ticket, &answer);
        let guard = median(|| drop(filter.response(&caller(), &ticket, &answer)));
        let value = median(|| drop(serde_json::from_slice::<Value>(&answer)));
        println!(
            "{items:>6} items, {:>8} bytes -> {:>6} bytes in {:>8.1?}; parsing the same with serde_json takes {:>8.1?}",
            answer.len(),
            shaped.as_ref().map_or(answer.len(), Vec::len),
            guard,
            value
        );
    }
    Ok(())
}

fn caller() -> CallContext {
    CallContext {
        principal: "somebody".to_owned(),
        request_id: "1".to_owned(),
        upstream: "crm".to_owned(),
        protocol_version: "2025-11-25".to_owned(),
        ..CallContext::default()
    }
}

/// Sends a call through the filter, and returns the ticket for its response.
fn ticket(filter: &Filter) -> anyhow::Result<Ticket> {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list", "arguments": {}}});
    match filter.request(&caller(), call.to_string().as_bytes()) {
        Request::Forward(_, ticket) => Ok(ticket),
        Request::Answer(..) => anyhow::bail!("a call without a cursor was answered"),
    }
}

/// Returns the answer of an upstream.
fn answer(items: usize) -> Vec<u8> {
    let item = |id: usize| json!({"id": id, "name": format!("Room {id}"), "price": {"base": id * 3, "currency": "EUR"}, "tags": ["quiet", "sea"]});
    let rooms = json!({"rooms": (0..items).map(item).collect::<Vec<_>>()}).to_string();
    json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": rooms}]}})
        .to_string()
        .into_bytes()
}

fn median(mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..41)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort();
    times.get(20).copied().unwrap_or_default()
}
