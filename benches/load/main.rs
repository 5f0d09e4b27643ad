//! Load of many clients on one gateway: errors, latencies, and memory over time, as a Markdown
//! report.
//!
//! `cargo xtask bench load` builds the program and the example server, and runs this.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints")]

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use context_guard_test_support::gateway::Gateway;
use context_guard_test_support::load::{Clients, Counts, number, resident};
use context_guard_test_support::{Result, artifacts, ensure};
use serde_json::json;

/// The time between two memory samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(10);

fn main() -> Result<()> {
    let (clients, seconds) = (number("--clients", 500), u64::from(number("--seconds", 300)));
    let pause = Duration::from_millis(u64::from(number("--pause-ms", 2_500)));
    let upstream = json!({"name": "houses", "command": [artifacts::property_server()?], "isolation": "shared"});
    let gateway = Gateway::start(json!([upstream]), json!({}))?;
    let pid = gateway.process.pid();
    let began = Instant::now();
    let working = Clients::start(&gateway.url(), clients, pause)?;
    let mut memory = Vec::new();
    while began.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep(SAMPLE_INTERVAL.min(Duration::from_secs(seconds)));
        let (now, kib, descriptors) =
            (began.elapsed().as_secs(), resident(pid)?, descriptors(pid)?);
        let requests = working.counts().requests.load(Ordering::Relaxed);
        eprintln!(
            "{now:>4} s  {requests:>8} requests  {:>6.1} MiB  {descriptors} descriptors",
            kib as f64 / 1024.0
        );
        memory.push((now, kib));
    }
    report(clients.into(), seconds, pause, &*working.finish()?, &memory)
}

fn descriptors(pid: u32) -> Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

fn report(
    clients: u64,
    seconds: u64,
    pause: Duration,
    counts: &Counts,
    memory: &[(u64, u64)],
) -> Result<()> {
    let [median, p95, p99, longest] = counts.quantiles([0.5, 0.95, 0.99, 1.0]);
    let (requests, errors) =
        (counts.requests.load(Ordering::Relaxed), counts.errors.load(Ordering::Relaxed));
    println!(
        "# Load\n\nMade by `cargo xtask bench load --clients {clients} --seconds {seconds}`.\n"
    );
    println!(
        "{clients} clients over HTTP on loopback, each with its own session and one request every {:.1} s, for {seconds} s: a list of 500 bookings, then its pages, from one process of the example server. Client and gateway share the machine ({} cores).\n",
        pause.as_secs_f64(),
        std::thread::available_parallelism().map_or(0, usize::from)
    );
    println!(
        "| requests | per second | errors | median | p95 | p99 | maximum |\n|--:|--:|--:|--:|--:|--:|--:|"
    );
    println!(
        "| {requests} | {:.0} | {errors} | {:.1} ms | {:.1} ms | {:.1} ms | {:.1} ms |\n",
        requests as f64 / seconds as f64,
        median,
        p95,
        p99,
        longest
    );
    println!("| after | memory of the gateway |\n|--:|--:|");
    for (now, kib) in
        memory.iter().filter(|(now, _)| now % 60 < SAMPLE_INTERVAL.as_secs() || *now < 20)
    {
        println!("| {now} s | {:.1} MiB |", *kib as f64 / 1024.0);
    }
    // Memory should not grow after the first tenth, when all clients are connected.
    let settled: Vec<u64> = memory.iter().skip(memory.len() / 3).map(|(_, kib)| *kib).collect();
    let (first, last) =
        (settled.first().copied().unwrap_or(1), settled.last().copied().unwrap_or(1));
    println!(
        "\nFrom the first third of the run to its end memory grew by {:.1} %.",
        (last as f64 / first as f64 - 1.0) * 100.0
    );
    let error = counts.last_error();
    ensure!(errors == 0, "{errors} errors, the last: {error}");
    ensure!(last as f64 <= first as f64 * 1.15, "memory grew from {first} KiB to {last} KiB");
    Ok(())
}
