//! Measures a fleet, and prints a Markdown report: the commands to its store, reads of cursors at
//! another replica, the throughput of three replicas, and the latency during faults of Redis.
//!
//! `cargo xtask bench fleet` builds the program, and runs this. Arguments name the parts to run.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints")]
#![allow(clippy::indexing_slicing, reason = "a bench: a panic is a failure")]

mod commands;
mod outage;
mod throughput;
mod upstream;

use std::time::Instant;

use context_guard_test_support::gateway::{Gateway, HttpClient};
use context_guard_test_support::load::quantiles;
use context_guard_test_support::redis::Redis;
use context_guard_test_support::scripted::ScriptedServer;
use context_guard_test_support::{Context, Result, ensure};
use serde_json::{Value, json};

/// The number of cursors that are read at each replica.
const READS: usize = 1_000;

/// Measures a part and prints its report.
type Report = fn() -> Result<()>;

fn main() -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("# Fleets\n\nMade by `cargo xtask bench fleet`, on {cores} cores that clients, ");
    println!("upstream, replicas and Redis share.\n");
    let asked: Vec<String> = std::env::args().skip(1).filter(|name| name != "--bench").collect();
    let parts: [(&str, Report); 4] = [
        ("commands", commands::report),
        ("reads", reads),
        ("throughput", throughput::report),
        ("outage", outage::report),
    ];
    for (name, report) in parts {
        if asked.is_empty() || asked.iter().any(|asked| asked == name) {
            report()?;
        }
    }
    Ok(())
}

/// Starts a replica of a fleet. `settings` overrides members of its configuration.
fn replica(
    server: &ScriptedServer,
    redis: &Redis,
    settings: &Value,
    replicas: u32,
) -> Result<Gateway> {
    let mut config = json!({
        "fleet": {"listen": "127.0.0.1:0", "replicas": replicas},
        "store": {"url": redis.url()},
    });
    for (name, value) in settings.as_object().into_iter().flatten() {
        config[name] = value.clone();
    }
    Gateway::start(upstream::definition(server), config)
}

/// Measures reads of cursors at the replica that has stored the answer, and at another, in turn.
fn reads() -> Result<()> {
    let (redis, server) = (Redis::start("bench-reads", &[])?, upstream::start()?);
    let replicas =
        [replica(&server, &redis, &json!({}), 2)?, replica(&server, &redis, &json!({}), 2)?];
    let urls = replicas.each_ref().map(Gateway::url);
    let mut client = HttpClient::open(&urls[0], &[], json!({}))?;
    let mut times = [Vec::new(), Vec::new()];
    for at in 0..2 * READS {
        client.url.clone_from(&urls[0]);
        let cursor = client.call("list", json!({}))?.next_cursor().context("no cursor")?;
        client.url.clone_from(&urls[at % 2]);
        let began = Instant::now();
        let page = client.call("context_guard_read", json!({ "cursor": cursor }))?;
        times[at % 2].push(began.elapsed());
        ensure!(!page.is_error(), "{}", page.0);
    }
    println!("## Reads of cursors\n");
    println!("{READS} second pages of answers of 100 kB, read at each replica in turn.\n");
    println!("| replica | median | p95 | p99 |\n|---|--:|--:|--:|");
    for (name, times) in ["the one that stored the answer", "another one"].iter().zip(&mut times) {
        let [median, p95, p99] = quantiles(times, [0.5, 0.95, 0.99]);
        println!("| {name} | {median:.2} ms | {p95:.2} ms | {p99:.2} ms |");
    }
    println!();
    Ok(())
}
