//! Duration of guard calls: the same inputs through the core, the component in its sandbox, and the
//! gateway's filter, compared with `serde_json::from_slice::<Value>` of the same bytes. Checks
//! every answer before timing it. Prints a Markdown table, and writes JSON.
//!
//! `cargo xtask bench speed` builds the component and runs this.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints")]
#![allow(
    clippy::indexing_slicing,
    reason = "what a JSON value lacks is null; arrays here have a fixed length"
)]

mod answers;
mod goals;
mod inputs;
mod parts;
mod readings;
mod report;
mod searches;
mod sides;
mod turns;

use anyhow::Result;

/// The allocator of the reference too: with a slower one parsing would look slower than it can be.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<()> {
    let is = |flag: &str| std::env::args().any(|argument| argument == flag);
    // With `--test` and `--list` nothing is measured.
    let mut turns =
        turns::Turns { measures: is("--bench") && !is("--test"), times: turns::Times::new() };
    answers::run(&mut turns)?;
    readings::run(&mut turns)?;
    searches::run(&mut turns)?;
    parts::run(&mut turns)?;
    if turns.measures { report::run(turns.times, &answers::alike()) } else { Ok(()) }
}
