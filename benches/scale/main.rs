//! Growth of cost and memory with payload, store, tools and sessions. Prints Markdown tables, and
//! draws plots into benches/results/.
//!
//! `cargo xtask bench scale` builds the component and the program, and runs this.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints")]
#![allow(
    clippy::indexing_slicing,
    reason = "what a JSON value lacks is null; arrays here have a fixed length"
)]

#[path = "../speed/inputs.rs"]
#[allow(dead_code, reason = "inputs of another bench")]
mod inputs;
mod memory;
mod plot;
mod sessions;
#[path = "../speed/sides.rs"]
#[allow(dead_code, reason = "sides of another bench")]
mod sides;
mod time;

use anyhow::Result;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A line of a plot: its label and its points.
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Series {
    /// Returns the exponent of the power law that fits the points best, beginning at `from`.
    pub(crate) fn exponent(&self, from: f64) -> f64 {
        let points: Vec<(f64, f64)> = self
            .points
            .iter()
            .filter(|(x, _)| *x >= from)
            .map(|(x, y)| (x.ln(), y.max(1e-9).ln()))
            .collect();
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let along: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
        let square: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
        along / square
    }
}

fn main() -> Result<()> {
    time::run()?;
    memory::run()?;
    sessions::run()
}
