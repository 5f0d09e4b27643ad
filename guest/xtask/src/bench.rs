//! Measuring: what is kept of answers, and the making of the estimator's tables.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Subcommand;

use crate::build::{self, cargo};
use crate::packages;

/// What is measured.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Tokens before and after, budgets held, needles kept, by class of payload, with the crate shrinkfit beside it. Fails where a budget does not hold, an answer is
    /// not valid, or an original is not kept.
    Quality {
        /// A folder with `payloads/CLASS/*` and `mcp-captures/*.json`; without one, the captures of the tests.
        #[arg(long, env = "CONTEXT_GUARD_CORPUS")]
        corpus: Option<PathBuf>,
        /// Budgets in tokens, with commas between them.
        #[arg(long, default_value = "4000,1000")]
        budgets: String,
        /// Print a line for each file over budget, too.
        #[arg(long)]
        files: bool,
        /// Print what a model sees of files whose name holds this.
        #[arg(long)]
        show: Option<String>,
    },
    /// How long everything takes: core, component and filter beside parsing the same bytes. Prints the tables that stand in benches/results/performance.md; writes target/bench/speed.json.
    Speed {
        /// Print what has changed since an earlier run: its speed.json.
        #[arg(long)]
        compare: Option<PathBuf>,
        /// Measure only what has this in its name.
        filter: Option<String>,
        /// Measure nothing: check every answer once, in the profile of the tests.
        #[arg(long)]
        check: bool,
    },
    /// The guard beside other proxies, on the same real servers: latency added, calls a second, memory, tokens. Installs them into target/. Prints the tables that stand in
    /// benches/results/performance.md.
    Comparison,
    /// How time and memory grow with payload, snapshots, tools and sessions. Prints tables and draws the plots of benches/results/performance.md.
    Scale,
    /// Many clients on one gateway: errors, latencies, memory over time. Fails where there is an error, or memory grows. Prints the report that stands in benches/results/load.md.
    Load {
        /// Clients at once.
        #[arg(long, default_value_t = 500)]
        clients: u32,
        /// How long, in seconds.
        #[arg(long, default_value_t = 300)]
        seconds: u32,
        /// Milliseconds between the requests of a client.
        #[arg(long, default_value_t = 2_500)]
        pause_ms: u32,
    },
    /// Swaps of policy and component under many clients, beside the same without swaps. Fails where a request fails, or memory grows. Prints the report that stands in benches/results/swap.md.
    Swap {
        /// Clients at once.
        #[arg(long, default_value_t = 200)]
        clients: u32,
        /// Swaps, every other one of the policy.
        #[arg(long, default_value_t = 1_000)]
        swaps: u32,
    },
}

impl Bench {
    /// The quality of what is kept of the captures of the tests.
    pub(crate) fn captures() -> Self {
        Bench::Quality { corpus: None, budgets: "4000,1000".to_owned(), files: false, show: None }
    }

    /// Every answer of the speed bench, once, without a clock.
    pub(crate) fn checked() -> Self {
        Bench::Speed { compare: None, filter: None, check: true }
    }

    pub(crate) fn run(self) -> Result<()> {
        match self {
            Bench::Quality { corpus, budgets, files, show } => {
                quality(corpus, budgets, files, show)
            }
            Bench::Speed { compare, filter, check } => speed(compare, filter, check),
            Bench::Comparison => {
                let beside = packages::beside()?;
                let places = ["CONTEXT_GUARD_BENCH_PEERS", "CONTEXT_GUARD_PEERS"];
                of_release("comparison", &places.map(|name| (name, beside.as_path())))
            }
            Bench::Scale => of_release("scale", &[]),
            Bench::Load { clients, seconds, pause_ms } => {
                let arguments =
                    [("--clients", clients), ("--seconds", seconds), ("--pause-ms", pause_ms)];
                of_program("load", &arguments)
            }
            Bench::Swap { clients, swaps } => {
                of_program("swap", &[("--clients", clients), ("--swaps", swaps)])
            }
        }
    }
}

/// Measures in the profile of a release; checks in that of the tests, which is compiled anyway.
fn speed(compare: Option<PathBuf>, filter: Option<String>, check: bool) -> Result<()> {
    let component = build::component()?;
    let mut command = build::embed(cargo(), &component);
    command.env_remove("CONTEXT_GUARD_BENCH_COMPARE");
    command.env("CONTEXT_GUARD_BENCH_OUT", build::target().join("bench"));
    if let Some(path) = compare {
        let path = path.canonicalize().with_context(|| format!("no file {}", path.display()))?;
        command.env("CONTEXT_GUARD_BENCH_COMPARE", path);
    }
    command.args(["bench", "--quiet", "--bench", "speed"]);
    if check {
        command.args(["--profile", "dev"]).args(build::native());
    } else {
        eprintln!(
            "Building the bench. The first time this compiles wasmtime for a release, and takes some minutes."
        );
        command.args(["--package", "context-guard-suite"]);
    }
    command.arg("--").args(check.then_some("--test")).args(filter);
    // A line for each turn of each side.
    command.args(["--output-format", "bencher"]);
    build::run(&mut command)
}

/// Measures component and program as they are handed out.
fn of_release(bench: &str, environment: &[(&str, &Path)]) -> Result<()> {
    let built = build::all(true)?;
    let mut command = build::embed(cargo(), &built.component);
    command.env("CONTEXT_GUARD_PROGRAM", &built.binary).envs(environment.iter().copied());
    command.args(["bench", "--quiet", "--package", "context-guard-suite", "--bench", bench]);
    build::run(&mut command)
}

/// Runs a bench that starts the program.
fn of_program(bench: &str, arguments: &[(&str, u32)]) -> Result<()> {
    let built = build::for_tests()?;
    let mut command = build::embed(cargo(), &built.component);
    command.env("CONTEXT_GUARD_PROGRAM", &built.binary);
    command.args(["bench", "--quiet", "--profile", "dev"]).args(build::native());
    command.args(["--bench", bench, "--"]);
    for (name, value) in arguments {
        command.args([name, value.to_string().as_str()]);
    }
    build::run(&mut command)
}

fn quality(
    corpus: Option<PathBuf>,
    budgets: String,
    files: bool,
    show: Option<String>,
) -> Result<()> {
    let mut command = cargo();
    command.args(["bench", "--quiet", "--profile", "dev"]).args(build::native());
    command.args(["--bench", "quality"]);
    command.env("CONTEXT_GUARD_BENCH_BUDGETS", budgets).env_remove("CONTEXT_GUARD_CORPUS");
    if let Some(corpus) = corpus {
        let corpus =
            corpus.canonicalize().with_context(|| format!("no folder at {}", corpus.display()))?;
        command.env("CONTEXT_GUARD_CORPUS", corpus);
    }
    if files {
        command.env("CONTEXT_GUARD_BENCH_FILES", "1");
    }
    if let Some(show) = show {
        command.env("CONTEXT_GUARD_BENCH_SHOW", show);
    }
    build::run(&mut command)
}

/// Makes tables from texts; fails unless `least` of 100 others are estimated within a tenth.
pub(crate) fn train(texts: &Path, tokenizer: &str, out: &Path, least: u32) -> Result<()> {
    let mut command = cargo();
    command.args([
        "run",
        "--quiet",
        "--package",
        "context-guard-xtask",
        "--features",
        "train",
        "--bin",
        "train",
        "--",
    ]);
    command.arg("--texts").arg(texts).args(["--tokenizer", tokenizer]).arg("--out").arg(out);
    build::run(command.args(["--least", &least.to_string()]))
}
