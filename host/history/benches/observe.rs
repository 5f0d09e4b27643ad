//! Measures the history: the time of recording a call, and the size of the file after 35 simulated
//! days. `cargo xtask bench observe` runs it; `OBSERVE_CALLS` sets the number of simulated calls.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a measurement: a panic is a failure"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use context_guard_history::{Event, Follows, History, HistoryOptions, Outcome, Query, Reader};

const END_MS: u64 = 1_790_000_000_000;
const DAYS: u64 = 35;
const TOOLS: u64 = 300;
/// Calls after which the simulation waits for the writer.
const BATCH: u64 = 4_000;

fn main() {
    let calls = std::env::var("OBSERVE_CALLS").ok().and_then(|text| text.parse().ok());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    // A file of its own: its writer may still use it while the simulation begins.
    for rate in [1_000, 10_000] {
        record(&folder.path().join(format!("record-{rate}.db")), rate);
    }
    simulate(&path, calls.unwrap_or(10_000_000));
    queries(&path);
}

/// Returns a pseudo-random number (SplitMix64).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Returns a call. A few tools have most calls: the share of rank `r` is about `1 / r`.
fn call(state: &mut u64, at_ms: u64) -> Event {
    let uniform = random(state) as f64 / u64::MAX as f64;
    let tool = ((TOOLS as f64).powf(uniform) - 1.0) as u64;
    let before = 1 << (random(state) % 18);
    let outcome = match random(state) % 100 {
        0..60 => Outcome::Passed,
        60..90 => Outcome::Paginated,
        90..98 => Outcome::Summarized,
        _ => Outcome::UpstreamError,
    };
    Event {
        at_ms,
        upstream: format!("upstream{}", tool % 12),
        tool: format!("tool_{tool}"),
        client: if random(state).is_multiple_of(2) { "claude-code" } else { "_OTHER" },
        session: format!("{:016x}", random(state) % 200),
        revision: 1,
        outcome,
        mode: "page".to_owned(),
        tokens_before: before,
        tokens_sent: before.min(4_000),
        bytes_before: before * 4,
        bytes_sent: before.min(4_000) * 4,
        latency_us: 1 << (random(state) % 22),
        snapshots: vec![format!("{:012x}", random(state) & 0xffff_ffff_ffff)],
        ..Event::default()
    }
}

/// Returns the processor time of the writer thread so far, in units of 10 ms. Linux only.
fn writer_ticks() -> Option<u64> {
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let folder = task.ok()?.path();
        if std::fs::read_to_string(folder.join("comm")).ok()?.trim() == "history" {
            let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
            // Times of user and system are the 14th and 15th fields; the name is the second.
            let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
            return Some(
                fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?,
            );
        }
    }
    None
}

/// Prints the time of recording, and the processor time of the writer, over ten seconds of `rate`
/// calls a second.
fn record(path: &Path, rate: u64) {
    let history = History::open(path, &HistoryOptions::default()).unwrap();
    let mut state = 1;
    let mut times = Vec::new();
    for at in 0..10 * rate {
        let event = call(&mut state, END_MS + at);
        let started = Instant::now();
        // The recorder copies the name of the tool.
        let tool = event.tool.clone();
        history.record(Event { tool, ..event });
        times.push(started.elapsed());
        while started.elapsed() < Duration::from_secs(1) / u32::try_from(rate).unwrap() {
            std::hint::spin_loop();
        }
    }
    history.flush();
    if let Some(ticks) = writer_ticks() {
        println!(
            "{rate} calls a second: the writer takes {:.1} % of a processor",
            ticks as f64 / 10.0
        );
    }
    times.sort();
    let quantile = |share: f64| times[(times.len() as f64 * share) as usize].as_nanos();
    println!(
        "record: p50 {} ns, p90 {} ns, p99 {} ns, p99.9 {} ns; dropped {}",
        quantile(0.5),
        quantile(0.9),
        quantile(0.99),
        quantile(0.999),
        history.dropped()
    );
}

/// Records calls over 35 days, a fifth of them with a follow-up read.
fn simulate(path: &Path, calls: u64) {
    let history = History::open(path, &HistoryOptions::default()).unwrap();
    let (mut state, started) = (2, Instant::now());
    let first_ms = END_MS - DAYS * 86_400_000;
    for at in 0..calls {
        let event = call(&mut state, first_ms + at * DAYS * 86_400_000 / calls);
        let read = random(&mut state).is_multiple_of(5).then(|| Event {
            follows: Follows::Call(event.snapshots.first().cloned()),
            snapshots: Vec::new(),
            ..event.clone()
        });
        history.record(event);
        read.into_iter().for_each(|read| history.record(read));
        if at % BATCH == 0 {
            while !history.flush() {}
        }
    }
    while !history.flush() {}
    println!(
        "{calls} calls of {TOOLS} tools in {DAYS} days: {:.1} MiB, {:.1} s, dropped {}",
        std::fs::metadata(path).unwrap().len() as f64 / f64::from(1 << 20),
        started.elapsed().as_secs_f64(),
        history.dropped()
    );
    let connection = rusqlite::Connection::open(path).unwrap();
    let check: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let selects = [
        "SELECT count(*), sum(length(data)) FROM chunk WHERE id >> 40 = 0",
        "SELECT count(*), sum(length(data)) FROM chunk WHERE id >> 40 = 1",
        "SELECT count(*), sum(length(data)) FROM chunk WHERE id >> 40 = 2",
        "SELECT count(*), 0 FROM record",
        "SELECT count(*), 0 FROM session",
    ];
    for select in selects {
        let found = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let (rows, bytes): (i64, i64) = connection.query_row(select, [], found).unwrap();
        println!("  {select}: {rows}, {bytes} bytes");
    }
}

/// The measures of the tables of the dashboard.
const TABLE: &str = "net_tokens_saved,reduction,calls,followups,tokens_before,tokens_p95,oversized_share,fault_rate,latency_p95";
/// The measures of the head of the dashboard.
const TOTALS: &str =
    "calls,tokens_before,tokens_sent,tokens_followup,net_tokens_saved,oversized_share,latency_p95";

/// Prints the times of the 12 queries of the dashboard.
fn queries(path: &Path) {
    let mut all = Vec::new();
    for parameters in [
        "measure=net_tokens_saved&by=tool&from=-7d&top=10",
        "measure=calls&by=outcome&from=-24h&step=1h",
        "measure=latency_p95&by=upstream&from=-7d&step=1d",
        "measure=oversized_share&by=upstream&from=-10m&top=5",
        "measure=tokens_before&by=tool&from=-34d&step=1d",
        &format!("measure={TOTALS}&from=-7d"),
        &format!("measure={TOTALS}&from=-14d&to=-7d"),
        "measure=tokens_before,tokens_sent,tokens_followup&from=-7d&step=6h",
        &format!("measure={TABLE}&by=upstream,tool&from=-7d"),
        &format!("measure={TABLE}&by=client&from=-7d"),
        &format!("measure={TABLE}&by=revision&from=-7d"),
        "measure=samples,estimate_error,samples_off&by=upstream,tool&from=-7d",
    ] {
        let mut times = Vec::new();
        for _ in 0..20 {
            let started = Instant::now();
            let pairs = parameters.split('&').filter_map(|pair| pair.split_once('='));
            let query = Query::parse(pairs, END_MS).unwrap();
            let answer = Reader::open(path).unwrap().run(&query).unwrap();
            assert!(answer["rows"].is_array());
            times.push(started.elapsed());
        }
        times.sort();
        println!("query {parameters}: p50 {:?}, p95 {:?}", times[10], times[18]);
        all.extend(times);
    }
    all.sort();
    println!("12 queries: p50 {:?}, p95 {:?}", all[120], all[228]);
}
