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
mod goals;
mod inputs;
mod parts;
mod readings;
mod report;
mod sides;
mod turns;

use anyhow::Result;

/// That of the yardstick: with another, parsing would look slower than it can be.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<()> {
    let is = |flag: &str| std::env::args().any(|argument| argument == flag);
    // `--test` and `--list` measure nothing.
    let mut turns =
        turns::Turns { measures: is("--bench") && !is("--test"), times: turns::Times::new() };
    answers::run(&mut turns)?;
    readings::run(&mut turns)?;
    parts::run(&mut turns)?;
    if turns.measures { report::run(turns.times, &answers::alike()) } else { Ok(()) }
}
