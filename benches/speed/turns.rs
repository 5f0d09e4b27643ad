//! Interleaved measurement: the compared sides take turns, so that other load on the machine
//! affects all of them.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use criterion::{BatchSize, Bencher, Criterion, SamplingMode};
use serde::Deserialize;

use crate::report::{folder, read};

/// The number of turns per side.
pub(crate) const TURNS: usize = 12;

/// The samples of a side per turn, the minimum of criterion.
pub(crate) const SAMPLES: usize = 10;

/// The bytes that interfering work touches, more than a processor cache holds.
pub(crate) const OTHER_WORK: usize = 64 << 20;

/// The minimum time of everything, in nanoseconds, by group and side.
pub(crate) type Times = BTreeMap<String, BTreeMap<String, f64>>;

/// A measurement, by group and side.
pub(crate) struct Bench<'a> {
    group: String,
    side: &'static str,
    /// The duration of a turn.
    time: Duration,
    run: Box<dyn FnMut(&mut Bencher<'_>) + 'a>,
}

impl<'a> Bench<'a> {
    /// Creates a measurement of a repeated call.
    pub(crate) fn new<T>(
        group: &str,
        side: &'static str,
        mut call: impl FnMut() -> T + 'a,
    ) -> Self {
        Self::timed(group, side, move |bencher| bencher.iter(&mut call))
    }

    /// Creates a measurement of a call after other work, which evicts its data from the processor
    /// caches.
    pub(crate) fn cold<T>(
        group: &str,
        side: &'static str,
        mut call: impl FnMut() -> T + 'a,
    ) -> Self {
        let mut other = vec![0u8; OTHER_WORK];
        let cold = Self::timed(group, side, move |bencher| {
            let work = || black_box(&mut other).iter_mut().for_each(|byte| *byte ^= 1);
            bencher.iter_batched(work, |()| call(), BatchSize::PerIteration);
        });
        // As few calls as possible, because the other work takes longer than they do.
        Self { time: Duration::from_millis(1), ..cold }
    }

    /// Creates a measurement with its own timing.
    pub(crate) fn timed(
        group: &str,
        side: &'static str,
        run: impl FnMut(&mut Bencher<'_>) + 'a,
    ) -> Self {
        Self { group: group.to_owned(), side, time: Duration::from_millis(120), run: Box::new(run) }
    }
}

/// The samples file of criterion: the calls and the total time of each sample.
#[derive(Deserialize)]
struct Samples {
    iters: Vec<f64>,
    times: Vec<f64>,
}

impl Samples {
    fn least(&self) -> Option<f64> {
        let each = self.iters.iter().zip(&self.times).map(|(calls, nanos)| nanos / calls);
        each.reduce(f64::min)
    }
}

/// Runs measurements, and holds their results.
pub(crate) struct Turns {
    /// False if everything runs once without measuring.
    pub(crate) measures: bool,
    /// The results so far.
    pub(crate) times: Times,
}

impl Turns {
    /// Measures these in turns.
    ///
    /// # Errors
    /// The results that criterion wrote cannot be read.
    pub(crate) fn run(&mut self, mut benches: Vec<Bench<'_>>) -> Result<()> {
        for _ in 0..if self.measures { TURNS } else { 1 } {
            // A shared instance would report the turns as duplicate names.
            let mut criterion = Criterion::default()
                .without_plots()
                .output_directory(&folder().join("criterion"))
                .nresamples(2_000)
                .sample_size(SAMPLES)
                .warm_up_time(Duration::from_millis(40))
                .configure_from_args();
            for bench in &mut benches {
                self.turn(&mut criterion, bench)?;
            }
        }
        Ok(())
    }

    fn turn(&mut self, criterion: &mut Criterion, bench: &mut Bench<'_>) -> Result<()> {
        // A filter on the command line excludes benches.
        let mut ran = false;
        let mut group = criterion.benchmark_group(&bench.group);
        group.sampling_mode(SamplingMode::Flat).measurement_time(bench.time);
        group.bench_function(bench.side, |bencher| {
            ran = true;
            (bench.run)(bencher);
        });
        group.finish();
        if !(ran && self.measures) {
            return Ok(());
        }
        let path = folder().join("criterion").join(&bench.group).join(bench.side);
        let path = path.join("new/sample.json");
        let least = samples(&path)?.least().context("criterion took no sample")?;
        let sides = self.times.entry(bench.group.clone()).or_default();
        let known = sides.entry(bench.side.to_owned()).or_insert(least);
        *known = known.min(least);
        Ok(())
    }
}

fn samples(path: &Path) -> Result<Samples> {
    serde_json::from_value(read(path)?).with_context(|| path.display().to_string())
}
