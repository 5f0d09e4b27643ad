//! Duration of component calls, by the parameters that should matter and those that should not.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use context_guard_core::encoding::CursorFormat;
use context_guard_core::snapshot::Cursor;
use context_guard_test_support::guards::NOW_MS;
use serde_json::{Value, json};

use crate::Series;
use crate::inputs::{bookings, call, catalogue, log, structured, text};
use crate::plot::draw;
use crate::sides::{PRINCIPAL, Sandbox, Side, keys};

/// Returns the median duration of a call, in microseconds.
fn median(mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    call()?;
    let begin = Instant::now();
    let mut times = Vec::new();
    while times.len() < 5 || (times.len() < 60 && begin.elapsed().as_millis() < 400) {
        let begin = Instant::now();
        call()?;
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    Ok(times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e6))
}

fn first(
    name: &'static str,
    sizes: &[usize],
    answer: impl Fn(usize) -> Vec<u8>,
    request: &[u8],
) -> Result<Series> {
    let sandbox = Sandbox::new("{}")?;
    let ticket = sandbox.forward(request)?;
    let points: Result<Vec<(f64, f64)>> = sizes
        .iter()
        .map(|size| {
            let answer = answer(*size);
            let micros = median(|| sandbox.shape(&ticket, &answer).map(drop))?;
            Ok((answer.len() as f64, micros))
        })
        .collect();
    Ok(Series { name, points: points? })
}

fn cursor(answer: &[u8], offset: u64) -> Result<String> {
    let answer: Value = serde_json::from_slice(answer)?;
    let next = &answer["result"]["_meta"]["dev.context-guard/result"]["nextCursor"];
    let keys = keys()?;
    let mut cursor =
        Cursor::verify(next.as_str().context("no cursor")?, &keys, PRINCIPAL, NOW_MS, u64::MAX)?;
    cursor.offset = offset;
    Ok(cursor.sign(CursorFormat::Short, &keys, PRINCIPAL))
}

fn table(x: &str, y: &str, series: &[Series], from: f64) {
    println!(
        "\n| {x} | {} |\n|--:|{}",
        series.iter().map(|series| series.name).collect::<Vec<_>>().join(" | "),
        "--:|".repeat(series.len())
    );
    let Some(first) = series.first() else { return };
    for (at, (size, _)) in first.points.iter().enumerate() {
        let cells: Vec<String> = series
            .iter()
            .map(|series| {
                series
                    .points
                    .get(at)
                    .map_or_else(String::new, |(_, value)| format!("{value:.1} {y}"))
            })
            .collect();
        println!("| {size:.0} | {} |", cells.join(" | "));
    }
    let exponents: Vec<String> =
        series.iter().map(|series| format!("{:.2}", series.exponent(from))).collect();
    println!("| exponent from {from:.0} on | {} |", exponents.join(" | "));
}

pub(crate) fn run() -> Result<()> {
    payloads()?;
    snapshots()?;
    live()?;
    tools()
}

fn payloads() -> Result<()> {
    let sizes =
        [1_000, 10_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000, 60_000_000];
    let whole = call("list", &json!({"_guard_limit": 3, "_guard_fields": "all"}));
    let usual = call("list", &json!({}));
    let series = [
        first("page of whole items", &sizes, |size| structured(&bookings(size)), &whole)?,
        first("condensed page", &sizes, |size| structured(&bookings(size)), &usual)?,
        first("first chunk of a log", &sizes, |size| text(&log(size)), &usual)?,
    ];
    println!(
        "\n## Duration by payload\n\nMicroseconds per call, by message size in bytes (the limit is 64 MiB)."
    );
    table("bytes", "us", &series, 1e6);
    draw("scale-payload", "Duration of a call by answer size", "bytes", "microseconds", &series)
}

fn snapshots() -> Result<()> {
    let request = call("list", &json!({"_guard_limit": 3, "_guard_fields": "all"}));
    let mut series = [
        Series { name: "second page", points: Vec::new() },
        Series { name: "last page", points: Vec::new() },
    ];
    for size in [1_000_000, 3_000_000, 10_000_000, 30_000_000, 60_000_000] {
        let sandbox = Sandbox::new("{}")?;
        let list = bookings(size);
        let items = list.matches("\"id\":\"bk_").count() as u64;
        let answer = structured(&list);
        let shaped = sandbox
            .shape(&sandbox.forward(&request)?, &answer)?
            .context("the answer was not shaped")?;
        for (series, offset) in series.iter_mut().zip([3, items - 3]) {
            let read = call(
                "context_guard_read",
                &json!({"cursor": cursor(&shaped, offset)?, "limit": 3, "fields": "all"}),
            );
            let micros = median(|| {
                ensure!(!sandbox.read(&read)?.is_empty());
                Ok(())
            })?;
            series.points.push((size as f64, micros));
        }
    }
    println!("\n## Duration of a page by snapshot size");
    table("bytes", "us", &series, 1e6);
    draw(
        "scale-snapshot",
        "Duration of a page by snapshot size",
        "bytes of the snapshot",
        "microseconds",
        &series,
    )
}

/// Reads the same page while the store holds more and more data of others.
fn live() -> Result<()> {
    let request = call("list", &json!({"_guard_limit": 3, "_guard_fields": "all"}));
    let sandbox = Sandbox::new("{}")?;
    let shaped = sandbox
        .shape(&sandbox.forward(&request)?, &structured(&bookings(1_000_000)))?
        .context("the answer was not shaped")?;
    let read = call(
        "context_guard_read",
        &json!({"cursor": cursor(&shaped, 3)?, "limit": 3, "fields": "all"}),
    );
    let mut series = Series { name: "second page of 1 MB", points: Vec::new() };
    let mut stored_bytes = 1_000_000u64;
    for target in [1_000_000u64, 10_000_000, 100_000_000, 300_000_000, 1_000_000_000] {
        while stored_bytes + 65_536 * 16 <= target {
            let entries = (0..16)
                .map(|at| (format!("other-{stored_bytes}-{at}"), vec![7u8; 65_536]))
                .collect();
            sandbox.services.store.put(
                &format!("principal {}", stored_bytes % 97),
                entries,
                std::time::Duration::from_secs(3_600),
            )?;
            stored_bytes += 65_536 * 16;
        }
        series.points.push((target as f64, median(|| sandbox.read(&read).map(drop))?));
    }
    println!("\n## Duration of a page against all that is kept");
    table("bytes in the store", "us", std::slice::from_ref(&series), 1e6);
    draw(
        "scale-store",
        "Duration of a page by store size",
        "bytes in the store",
        "microseconds",
        &[series],
    )
}

fn tools() -> Result<()> {
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let sandbox = Sandbox::new("{}")?;
    let ticket = sandbox.forward(list.as_bytes())?;
    let mut series = Series { name: "tools/list", points: Vec::new() };
    for tools in [10, 30, 100, 300, 1_000, 2_000] {
        let answer = catalogue(tools);
        series.points.push((tools as f64, median(|| sandbox.shape(&ticket, &answer).map(drop))?));
    }
    println!("\n## Duration of tools/list by number of tools");
    table("tools", "us", std::slice::from_ref(&series), 10.0);
    draw(
        "scale-tools",
        "Duration of tools/list by number of tools",
        "tools",
        "microseconds",
        &[series],
    )
}
