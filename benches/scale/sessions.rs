//! A gateway with growing numbers of open sessions: latency of a small call, and memory per idle
//! session.

use std::time::Instant;

use anyhow::{Result, ensure};
use context_guard_test_support::artifacts;
use context_guard_test_support::gateway::{Gateway, HttpClient};
use context_guard_test_support::load::resident;
use serde_json::json;

use crate::Series;
use crate::plot::draw;

pub(crate) fn run() -> Result<()> {
    let upstream = json!({"name": "houses", "command": [artifacts::property_server()?], "isolation": "shared"});
    let gateway = Gateway::start(json!([upstream]), json!({"limits": {"sessions": 5_000}}))?;
    let pid = gateway.process.pid();
    let mut sessions: Vec<HttpClient> = Vec::new();
    let mut series = Series { name: "list of 500 bookings", points: Vec::new() };
    println!(
        "\n## Sessions\n\n| sessions | median duration of a call, one client | memory of the gateway | per idle session |\n|--:|--:|--:|--:|"
    );
    let mut base = None;
    for target in [1usize, 10, 100, 500, 1_000, 2_000] {
        while sessions.len() < target {
            sessions.push(HttpClient::open(&gateway.url(), &[], json!({}))?);
        }
        let mut times = Vec::new();
        let kib = resident(pid)?;
        for at in 0..40usize {
            let which = at * 53 % sessions.len();
            let Some(session) = sessions.get_mut(which) else { continue };
            let begin = Instant::now();
            let answer =
                session.request("tools/call", json!({"name": "list_bookings", "arguments": {}}))?;
            ensure!(answer.next_cursor().is_some(), "{}", answer.0);
            times.push(begin.elapsed());
        }
        times.sort_unstable();
        let median = times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e3);
        series.points.push((target as f64, median));
        // The first calls fill caches that belong to no session.
        let each = match base {
            Some((sessions, before)) if target > 100 => {
                format!("{:.1} kB", (kib as f64 - before) * 1.024 / (target as f64 - sessions))
            }
            _ => String::new(),
        };
        if target == 100 {
            base = Some((target as f64, resident(pid)? as f64));
        }
        println!("| {target} | {median:.2} ms | {:.1} MiB | {each} |", kib as f64 / 1024.0);
    }
    println!("\nExponent of the duration: {:.2}.", series.exponent(1.0));
    draw(
        "scale-sessions",
        "Duration of a call by open sessions",
        "sessions",
        "milliseconds",
        &[series],
    )
}
