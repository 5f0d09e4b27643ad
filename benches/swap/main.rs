//! Swaps of policy and component under load, compared with the same load without swaps. Prints a
//! Markdown report.
//!
//! `cargo xtask bench swap` builds the program, the example server and a second component, and runs
//! this.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use context_guard_test_support::gateway::Gateway;
use context_guard_test_support::load::{Clients, Counts, number, resident};
use context_guard_test_support::operations::{
    active_revision, admin_call, admin_config, replace_file,
};
use context_guard_test_support::{Result, artifacts, ensure, peers};
use serde_json::json;

/// Every 25th component swap brings an unknown component, which has to be compiled.
const UNKNOWN_COMPONENT_INTERVAL: u64 = 25;

/// Measures the clients while `work` runs.
fn phase(
    gateway: &Gateway,
    clients: u32,
    pause: Duration,
    meanwhile: impl FnOnce() -> Result<()>,
) -> Result<Arc<Counts>> {
    let working = Clients::start(&gateway.url(), clients, pause)?;
    // All clients must be connected first.
    std::thread::sleep(pause);
    let done = meanwhile();
    let counts = working.finish()?;
    done?;
    Ok(counts)
}

/// Returns a component with other bytes: an additional empty custom section.
fn with_custom_section(component: &[u8], number: u64) -> Vec<u8> {
    let name = format!("swap {number:06}");
    let length = u8::try_from(name.len()).unwrap_or(0);
    [component, &[0, length + 1, length], name.as_bytes()].concat()
}

fn main() -> Result<()> {
    let (clients, swaps) = (number("--clients", 200), u64::from(number("--swaps", 1_000)));
    let pause = Duration::from_millis(u64::from(number("--pause-ms", 1_000)));
    let folder = peers::folder("bench-swap")?;
    let file = folder.join("policy.json");
    std::fs::write(&file, "{}")?;
    let upstream = json!({"name": "houses", "command": [artifacts::property_server()?], "isolation": "shared"});
    let more = json!({"policy": file, "admin": admin_config(), "limits": {"sessions": 5_000}, "telemetry": {"ring": 1_000}});
    let gateway = Gateway::start(json!([upstream]), more)?;
    let pid = gateway.process.pid();
    let quiet = Duration::from_secs(u64::from(number("--quiet-seconds", 30)));
    let rest = || {
        std::thread::sleep(quiet);
        Ok(())
    };
    eprintln!("{clients} clients, without swaps.");
    let before = phase(&gateway, clients, pause, rest)?;
    let memory_before = resident(pid)?;
    eprintln!("The same, with {swaps} swaps.");
    let one = std::fs::read(artifacts::component()?)?;
    let two = std::fs::read(artifacts::other_component()?)?;
    let (mut reloads, mut compiled, mut taken) = (Vec::new(), 0u64, Duration::ZERO);
    // Memory should not grow after the history of revisions is full.
    let mut memory_early = memory_before;
    let swapped = phase(&gateway, clients, pause, || {
        let began = Instant::now();
        for swap in 0..swaps {
            if swap.is_multiple_of((swaps / 10).max(1)) {
                let kib = resident(pid)? as f64;
                eprintln!("{swap:>6} swaps  {:>6.1} MiB", kib / 1_024.0);
            }
            if swap == swaps / 4 {
                memory_early = resident(pid)?;
            }
            if swap.is_multiple_of(2) {
                let wanted = active_revision(&gateway)? + 1;
                let policy = json!({"tokenBudgetThreshold": 4_000 + swap});
                let since = Instant::now();
                replace_file(&file, policy.to_string().as_bytes())?;
                while active_revision(&gateway)? < wanted {
                    ensure!(
                        since.elapsed() < Duration::from_secs(10),
                        "a policy was not taken over"
                    );
                    std::thread::sleep(Duration::from_micros(500));
                }
                reloads.push(since.elapsed());
            } else {
                let component = if swap % 4 == 1 { &two } else { &one };
                let is_new = (swap / 2).is_multiple_of(UNKNOWN_COMPONENT_INTERVAL);
                compiled += u64::from(is_new);
                let bytes =
                    if is_new { with_custom_section(component, swap) } else { component.clone() };
                let reply = admin_call(&gateway, "PUT", "/admin/component", &bytes)?;
                ensure!(reply.status == 200, "{}", reply.body);
            }
        }
        taken = began.elapsed();
        Ok(())
    })?;
    let memory_after = resident(pid)?;
    eprintln!("Without swaps again.");
    let after = phase(&gateway, clients, pause, rest)?;
    let memory_quiet = resident(pid)?;
    eprintln!("With a new component every two seconds.");
    let mut components_swapped = 0;
    let paced = phase(&gateway, clients, pause, || {
        let began = Instant::now();
        while began.elapsed() < quiet {
            let bytes = with_custom_section(&one, swaps + components_swapped);
            let reply = admin_call(&gateway, "PUT", "/admin/component", &bytes)?;
            ensure!(reply.status == 200, "{}", reply.body);
            components_swapped += 1;
            std::thread::sleep(
                Duration::from_secs(2 * components_swapped).saturating_sub(began.elapsed()),
            );
        }
        Ok(())
    })?;
    let memory_last = resident(pid)?;
    reloads.sort_unstable();
    let reload = |share: f64| {
        let index = ((reloads.len() as f64 * share) as usize).min(reloads.len().saturating_sub(1));
        reloads.get(index).copied().unwrap_or_default().as_secs_f64() * 1_000.0
    };
    println!("# Swaps\n\nMade by `cargo xtask bench swap --clients {clients} --swaps {swaps}`.\n");
    println!(
        "{clients} clients over HTTP on loopback, each with a session of its own and a request every {:.1} s: a list of 500 bookings through the guard, then its pages. Meanwhile {swaps} swaps in {:.0} s: every other one a policy, written to its file; every other one a component, by an admin call, of which {compiled} were never seen before and had to be compiled and tested. Clients, swaps and gateway share the machine ({} cores).\n",
        pause.as_secs_f64(),
        taken.as_secs_f64(),
        std::thread::available_parallelism().map_or(0, usize::from)
    );
    println!(
        "| | requests | errors | median | p95 | p99 | longest | memory at its end |\n|---|--:|--:|--:|--:|--:|--:|--:|"
    );
    for (name, counts, memory) in [
        ("no swaps", &before, memory_before),
        ("swaps", &swapped, memory_after),
        ("no swaps again", &after, memory_quiet),
        ("a new component every 2 s", &paced, memory_last),
    ] {
        let [median, p95, p99, longest] = counts.quantiles([0.5, 0.95, 0.99, 1.0]);
        println!(
            "| {name} | {} | {} | {:.1} ms | {:.1} ms | {:.1} ms | {:.1} ms | {:.1} MiB |",
            counts.requests.load(Ordering::Relaxed),
            counts.errors.load(Ordering::Relaxed),
            median,
            p95,
            p99,
            longest,
            memory as f64 / 1_024.0
        );
    }
    println!(
        "\nFrom the writing of a policy to its being active: median {:.1} ms, p99 {:.1} ms, longest {:.1} ms.",
        reload(0.5),
        reload(0.99),
        reload(1.0)
    );
    println!(
        "\nMemory after a quarter of the swaps: {:.1} MiB; after all of them: {:.1} MiB. Five revisions are retained, with their compiled components. In the last phase {components_swapped} components were compiled, tested and swapped in.",
        memory_early as f64 / 1_024.0,
        memory_after as f64 / 1_024.0
    );
    for counts in [&before, &swapped, &after, &paced] {
        let errors = counts.errors.load(Ordering::Relaxed);
        ensure!(errors == 0, "{errors} errors, the last: {}", counts.last_error());
    }
    let (early, late) = (memory_early as f64, memory_after as f64);
    ensure!(late <= early * 1.15, "memory grew from {early} to {late} KiB");
    Ok(())
}
