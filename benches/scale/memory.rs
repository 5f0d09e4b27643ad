//! Peak memory of a call, by payload size.

use anyhow::{Context, Result};
use context_guard_test_support::load::resident;
use serde_json::json;

use crate::Series;
use crate::inputs::{bookings, call, log, structured, text};
use crate::plot::draw;
use crate::sides::{Sandbox, Side};

/// Returns the peak memory of this process since [`reset_peak`], in bytes.
fn peak() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kib * 1024.0)
}

fn reset_peak() -> Result<()> {
    Ok(std::fs::write("/proc/self/clear_refs", "5")?)
}

pub(crate) fn run() -> Result<()> {
    let usual = call("list", &json!({}));
    let mut series = [
        Series { name: "list, condensed page", points: Vec::new() },
        Series { name: "log, first chunk", points: Vec::new() },
        Series { name: "3 x payload + 4 MB", points: Vec::new() },
    ];
    println!(
        "\n## Memory of a call\n\nPeak memory of the process above its memory before the call, in MB, including the copy in the store.\n\n| bytes of the message | list | of it | log | of it |\n|--:|--:|--:|--:|--:|"
    );
    for size in [10_000usize, 100_000, 1_000_000, 10_000_000, 30_000_000, 60_000_000] {
        let mut row = Vec::new();
        let answers = [structured(&bookings(size)), text(&log(size))];
        for (answer, series) in answers.iter().zip(series.iter_mut()) {
            let sandbox = Sandbox::new("{}")?;
            let ticket = sandbox.forward(&usual)?;
            let before = resident(std::process::id())? as f64 * 1024.0;
            reset_peak()?;
            let shaped = sandbox.shape(&ticket, answer)?;
            let taken = (peak()? - before).max(4096.0);
            drop(shaped);
            series.points.push((answer.len() as f64, taken / 1e6));
            row.push(format!("{:.1} MB | {:.1}", taken / 1e6, taken / answer.len() as f64));
        }
        let [.., limit] = &mut series;
        limit.points.push((size as f64, (3.0 * size as f64 + 4e6) / 1e6));
        println!("| {} | {} |", answers.first().map_or(0, Vec::len), row.join(" | "));
    }
    draw("scale-memory", "The most memory that a call takes", "bytes of the message", "MB", &series)
}
