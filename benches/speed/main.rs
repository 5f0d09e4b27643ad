//! How long the guard takes: the same inputs through the core, the component in its sandbox, and the filter of the gateway, beside `serde_json::from_slice::<Value>` of
//! the same bytes. Every answer is checked before it is timed. Prints a table in Markdown; writes the same as JSON.
//!
//! Run it by `cargo xtask bench speed`: it needs the component.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints")]
#![allow(
    clippy::indexing_slicing,
    reason = "what a JSON value lacks is null; arrays here have a fixed length"
)]

mod answers;
mod inputs;
mod parts;
mod readings;
mod report;
mod sides;

use std::time::Duration;

use anyhow::Result;
use criterion::Criterion;

/// That of the yardstick: with another, parsing would look slower than it can be.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How often everything is measured, so that the times of one thing lie far apart: what else a machine does slows some of them.
const ROUNDS: usize = 3;

fn main() -> Result<()> {
    let is = |flag: &str| std::env::args().any(|argument| argument == flag);
    // `--test` and `--list` measure nothing.
    let measures = is("--bench") && !is("--test");
    let mut times = report::Times::new();
    for round in 1..=if measures { ROUNDS } else { 1 } {
        if measures {
            eprintln!("Round {round} of {ROUNDS}.");
        }
        let mut criterion = Criterion::default()
            .without_plots()
            .sample_size(20)
            .warm_up_time(Duration::from_millis(150))
            .measurement_time(Duration::from_millis(500))
            .configure_from_args();
        answers::run(&mut criterion)?;
        readings::run(&mut criterion)?;
        parts::run(&mut criterion)?;
        criterion.final_summary();
        if measures {
            report::best(&mut times)?;
        }
    }
    if !measures {
        return Ok(());
    }
    report::share_yardstick(&mut times, &answers::alike());
    report::run(&times)
}
