//! Sides that are compared, measured in turns: what else a machine does falls on all of them.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use criterion::{BatchSize, Bencher, Criterion, SamplingMode};
use serde::Deserialize;

use crate::report::{folder, read};

/// How often each side has its turn.
pub(crate) const TURNS: usize = 12;

/// Samples of each side in a turn: the fewest that criterion takes.
pub(crate) const SAMPLES: usize = 10;

/// Bytes that other work goes through: more than the caches of a processor hold of one that is shared.
pub(crate) const OTHER_WORK: usize = 64 << 20;

/// The least nanoseconds that anything took, by group and side.
pub(crate) type Times = BTreeMap<String, BTreeMap<String, f64>>;

/// What is measured, by group and side, and how.
pub(crate) struct Bench<'a> {
    group: String,
    side: &'static str,
    /// How long a turn lasts.
    time: Duration,
    run: Box<dyn FnMut(&mut Bencher<'_>) + 'a>,
}

impl<'a> Bench<'a> {
    /// One that is called again and again.
    pub(crate) fn new<T>(
        group: &str,
        side: &'static str,
        mut call: impl FnMut() -> T + 'a,
    ) -> Self {
        Self::timed(group, side, move |bencher| bencher.iter(&mut call))
    }

    /// The same, but each call after other work: nothing of it is in the caches of the processor any more.
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
        // As few calls as may be: the other work takes longer than they do.
        Self { time: Duration::from_millis(1), ..cold }
    }

    /// One that says itself how it is timed.
    pub(crate) fn timed(
        group: &str,
        side: &'static str,
        run: impl FnMut(&mut Bencher<'_>) + 'a,
    ) -> Self {
        Self { group: group.to_owned(), side, time: Duration::from_millis(120), run: Box::new(run) }
    }
}

/// What criterion keeps of a measurement: how often each sample called, and how long all its calls took.
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

/// Measures, and has what was measured.
pub(crate) struct Turns {
    /// Whether anything is measured; otherwise everything runs once.
    pub(crate) measures: bool,
    /// What was measured so far.
    pub(crate) times: Times,
}

impl Turns {
    /// Measures these beside each other, turn by turn.
    ///
    /// # Errors
    /// Where what criterion has written cannot be read.
    pub(crate) fn run(&mut self, mut benches: Vec<Bench<'_>>) -> Result<()> {
        for _ in 0..if self.measures { TURNS } else { 1 } {
            // With one for all turns criterion would take them for different things of the same name.
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
        // What is not asked for has no turn.
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
