//! Many clients at once on one gateway: errors, latencies, memory over time. Prints a report in Markdown.
//!
//! Run it by `cargo xtask bench load`: it needs the program and the example server.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use context_guard_test_support::gateway::{Gateway, HttpClient};
use context_guard_test_support::{Context, Result, artifacts, bail, ensure};
use serde_json::json;

/// How often memory is looked at.
const LOOK: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    errors: AtomicU64,
    last_error: Mutex<String>,
    micros: Mutex<Vec<u64>>,
}

fn number(name: &str, default: u64) -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1).and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn main() -> Result<()> {
    let (clients, seconds) = (number("--clients", 500), number("--seconds", 300));
    let pause = Duration::from_millis(number("--pause-ms", 2_500));
    let upstream = json!({"name": "houses", "command": [artifacts::property_server()?], "isolation": "shared"});
    let gateway = Gateway::start(json!([upstream]), json!({}))?;
    let pid = gateway.process.pid();
    let counts = Arc::new(Counts::default());
    let stop = Arc::new(AtomicBool::new(false));
    let began = Instant::now();
    let threads: Vec<_> = (0..clients)
        .map(|at| {
            let (counts, stop, url) = (Arc::clone(&counts), Arc::clone(&stop), gateway.url());
            // Clients begin one after the other, over one pause.
            let first = pause.mul_f64(at as f64 / clients as f64);
            std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
                std::thread::sleep(first);
                client(&url, pause, &counts, &stop);
            })
        })
        .collect::<std::io::Result<_>>()?;
    let mut memory = Vec::new();
    while began.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep(LOOK.min(Duration::from_secs(seconds)));
        let (now, kib, descriptors) =
            (began.elapsed().as_secs(), resident(pid)?, descriptors(pid)?);
        let requests = counts.requests.load(Ordering::Relaxed);
        eprintln!(
            "{now:>4} s  {requests:>8} requests  {:>6.1} MiB  {descriptors} descriptors",
            kib as f64 / 1024.0
        );
        memory.push((now, kib));
    }
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        if thread.join().is_err() {
            bail!("a client panicked");
        }
    }
    report(clients, seconds, pause, &counts, &memory)
}

/// A client: a list, its second page, a search in it, a small answer, again and again.
fn client(url: &str, pause: Duration, counts: &Counts, stop: &AtomicBool) {
    let fail = |error: context_guard_test_support::Error| {
        counts.errors.fetch_add(1, Ordering::Relaxed);
        *counts.last_error.lock().unwrap_or_else(PoisonError::into_inner) = format!("{error:#}");
    };
    let mut session = match HttpClient::open(url, &[], json!({})) {
        Ok(session) => session,
        Err(error) => return fail(error),
    };
    let mut cursor = None::<String>;
    while !stop.load(Ordering::Relaxed) {
        let since = Instant::now();
        let answer = match cursor.take() {
            None => session.call("list_bookings", json!({"limit": 20})),
            Some(cursor) => session.call("context_guard_read", json!({"cursor": cursor})),
        };
        let read = answer.and_then(|answer| {
            ensure!(!answer.is_error(), "{:?}", answer.all_texts());
            Ok(answer)
        });
        match read {
            Ok(answer) => {
                let micros = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
                counts.micros.lock().unwrap_or_else(PoisonError::into_inner).push(micros);
                cursor = answer.next_cursor();
            }
            Err(error) => fail(error),
        }
        counts.requests.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(pause.saturating_sub(since.elapsed()));
    }
}

fn resident(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).context("no number")
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
    let mut micros = counts.micros.lock().unwrap_or_else(PoisonError::into_inner).clone();
    micros.sort_unstable();
    let at = |share: f64| {
        let index = ((micros.len() as f64 * share) as usize).min(micros.len().saturating_sub(1));
        micros.get(index).copied().unwrap_or_default() as f64 / 1000.0
    };
    let (requests, errors) =
        (counts.requests.load(Ordering::Relaxed), counts.errors.load(Ordering::Relaxed));
    println!(
        "# Load\n\nMade by `cargo xtask bench load --clients {clients} --seconds {seconds}`.\n"
    );
    println!(
        "{clients} clients over HTTP on loopback, each with a session of its own and a request every {:.1} s, for {seconds} s: a list of 500 bookings through the guard, then its pages, on one process of the example server. Client and gateway share the machine ({} cores).\n",
        pause.as_secs_f64(),
        std::thread::available_parallelism().map_or(0, usize::from)
    );
    println!(
        "| requests | a second | errors | median | p95 | p99 | longest |\n|--:|--:|--:|--:|--:|--:|--:|"
    );
    println!(
        "| {requests} | {:.0} | {errors} | {:.1} ms | {:.1} ms | {:.1} ms | {:.1} ms |\n",
        requests as f64 / seconds as f64,
        at(0.5),
        at(0.95),
        at(0.99),
        at(1.0)
    );
    println!("| after | memory of the gateway |\n|--:|--:|");
    for (now, kib) in memory.iter().filter(|(now, _)| now % 60 < LOOK.as_secs() || *now < 20) {
        println!("| {now} s | {:.1} MiB |", *kib as f64 / 1024.0);
    }
    // Once all clients are there, what is needed is needed: no more is taken later.
    let settled: Vec<u64> = memory.iter().skip(memory.len() / 3).map(|(_, kib)| *kib).collect();
    let (first, last) =
        (settled.first().copied().unwrap_or(1), settled.last().copied().unwrap_or(1));
    println!(
        "\nFrom the first third of the run to its end memory grew by {:.1} %.",
        (last as f64 / first as f64 - 1.0) * 100.0
    );
    let error = counts.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
    ensure!(errors == 0, "{errors} errors, the last: {error}");
    ensure!(last as f64 <= first as f64 * 1.15, "memory grew from {first} KiB to {last} KiB");
    Ok(())
}
