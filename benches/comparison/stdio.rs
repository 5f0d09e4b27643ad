//! Proxies over standard input and output.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use context_guard_test_support::client::Client;
use serde_json::{Value, json};

use crate::proxies::{self, Proxy, reading};
use crate::{peak, quantiles};

/// The rounds. Each calls every proxy, so that other load on the machine affects all of them.
const ROUNDS: usize = 6;
/// The calls per round.
const CALLS: usize = 10;
/// The calls of one throughput measurement.
const THROUGHPUT_CALLS: usize = 64;

struct StdioMeasurement {
    proxy: Proxy,
    client: Client,
    times: Vec<Duration>,
    tokens: u64,
    bytes: usize,
    calls_per_second: [f64; 3],
}

pub(crate) fn run(folder: &Path, file: &Path) -> Result<()> {
    let call = reading(file);
    let mut all: Vec<StdioMeasurement> = Vec::new();
    for proxy in proxies::stdio(folder)? {
        eprintln!("Starting {}.", proxy.name);
        let (program, arguments) = proxy.command.split_first().context("no command")?;
        let mut client = Client::start(program, arguments)?;
        let listed = client.open("2025-06-18")?;
        ensure!(listed.0["result"]["tools"].is_array(), "{}: {}", proxy.name, listed.0);
        let answer = client.request("tools/call", &proxy.call(&call))?;
        let text = answer.0.to_string();
        ensure!(text.contains("bk_00001"), "{}: {}", proxy.name, text.get(..600).unwrap_or(&text));
        let (tokens, bytes) = (answer.tokens(), text.len());
        all.push(StdioMeasurement {
            proxy,
            client,
            times: Vec::new(),
            tokens,
            bytes,
            calls_per_second: [0.0; 3],
        });
    }
    for round in 0..ROUNDS {
        eprintln!("Round {} of {ROUNDS}.", round + 1);
        for one in &mut all {
            for _ in 0..CALLS {
                let call = one.proxy.call(&call);
                let begin = Instant::now();
                one.client.request("tools/call", &call)?;
                one.times.push(begin.elapsed());
            }
        }
    }
    for one in &mut all {
        for (at, window) in [1, 16, 64].into_iter().enumerate() {
            let rate = calls_per_second(one, &call, window)?;
            if let Some(place) = one.calls_per_second.get_mut(at) {
                *place = rate;
            }
        }
    }
    println!(
        "\nOver stdio, `read_text_file` of the npm package server-filesystem: 435 kB of JSON, which it sends as text and as structured content.\n"
    );
    println!(
        "| | median | p95 | added, median | calls a second, 1 at once | 16 | 64 | peak memory | bytes of the answer | tokens to the model |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    let mut direct = 0.0;
    for one in &mut all {
        let (median, p95) = quantiles(&mut one.times);
        if one.proxy.name == "directly" {
            direct = median;
        }
        let memory = peak(one.client.pid()).filter(|_| one.proxy.name != "directly");
        println!(
            "| {} | {median:.1} ms | {p95:.1} ms | {} | {:.0} | {:.0} | {:.0} | {} | {} | {} |",
            one.proxy.name,
            if one.proxy.name == "directly" {
                String::new()
            } else {
                format!("{:.1} ms", median - direct)
            },
            one.calls_per_second[0],
            one.calls_per_second[1],
            one.calls_per_second[2],
            memory.map_or_else(String::new, |mib| format!("{mib:.0} MiB")),
            one.bytes,
            one.tokens,
        );
    }
    Ok(())
}

/// Measures calls per second with `window` calls in flight on one connection.
fn calls_per_second(one: &mut StdioMeasurement, call: &Value, window: usize) -> Result<f64> {
    let params = one.proxy.call(call);
    let message = |id: usize| {
        json!({"jsonrpc": "2.0", "id": 100_000 + id, "method": "tools/call", "params": params})
            .to_string()
    };
    let calls: Vec<String> = (0..THROUGHPUT_CALLS).map(message).collect();
    let begin = Instant::now();
    let (mut sent, mut answered) = (0, 0);
    while answered < THROUGHPUT_CALLS {
        while sent < THROUGHPUT_CALLS && sent - answered < window {
            if let Some(call) = calls.get(sent) {
                one.client.send(call.as_bytes())?;
            }
            sent += 1;
        }
        let line = one.client.line()?;
        // A message with a method is a notification or request of the server, not an answer.
        let head = String::from_utf8_lossy(line.get(..200).unwrap_or(&line)).into_owned();
        answered += usize::from(!head.contains("\"method\""));
    }
    Ok(THROUGHPUT_CALLS as f64 / begin.elapsed().as_secs_f64())
}
