//! Comparison with other proxies before the same real server: added latency, calls per second,
//! memory, and tokens that reach the model. Prints Markdown tables.
//!
//! `cargo xtask bench comparison` installs the proxies and runs this.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints")]
#![allow(
    clippy::indexing_slicing,
    reason = "what a JSON value lacks is null; arrays here have a fixed length"
)]

mod http;
mod proxies;
mod stdio;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use context_guard_test_support::peers;

fn main() -> Result<()> {
    let folder = peers::folder("bench-peers")?.canonicalize()?;
    let file = folder.join("bookings.json");
    std::fs::write(&file, document(435_000))?;
    stdio::run(&folder, &file)?;
    http::run(&folder, &file)?;
    Ok(())
}

/// Returns a JSON document of bookings, about 300 bytes each, of at least `bytes` bytes.
fn document(bytes: usize) -> String {
    let mut text = "{\"bookings\":[".to_owned();
    for id in 0.. {
        let booking = serde_json::json!({
            "id": format!("bk_{id:05}"),
            "guest": format!("Guest {}", id * 37 % 997),
            "status": (["confirmed", "pending", "cancelled"])[id % 3],
            "nights": id % 9 + 1,
            "price": {"base": id * 13 % 500, "currency": "EUR"},
            "room": format!("Harbour Loft {}", id % 40),
            "notes": "Late arrival, please leave the key with the neighbour on the second floor.",
        });
        text.push_str(&booking.to_string());
        if text.len() >= bytes {
            break;
        }
        text.push(',');
    }
    text.push_str("]}");
    text
}

/// Returns the median and the 95th percentile.
fn quantiles(times: &mut [Duration]) -> (f64, f64) {
    times.sort_unstable();
    let at = |share: usize| {
        let index = (times.len() * share / 100).min(times.len().saturating_sub(1));
        times.get(index).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    (at(50), at(95))
}

/// Returns the peak memory of a process, in MiB.
fn peak(pid: u32) -> Option<f64> {
    let status =
        std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().trim_end_matches(" kB").trim().parse().ok()?;
    Some(kib / 1024.0)
}
