//! `cargo xtask bench`: measurements, and the computation of the estimator's tables.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use crate::build::{self, cargo};
use crate::packages;

/// The measurements.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Measure tokens before and after, budgets and key facts by class of payload, next to the
    /// crate shrinkfit. Fails if an answer exceeds its budget, is invalid, or loses its original.
    Quality {
        /// A folder with `payloads/CLASS/*` and `mcp-captures/*.json` instead of the captures of
        /// the tests.
        #[arg(long, env = "CONTEXT_GUARD_CORPUS")]
        corpus: Option<PathBuf>,
        /// Budgets in tokens, separated by commas.
        #[arg(long, default_value = "4000,1000")]
        budgets: String,
        /// Print a line for each file that exceeds the budget, too.
        #[arg(long)]
        files: bool,
        /// Print the shaped answers of files whose name contains this.
        #[arg(long)]
        show: Option<String>,
    },
    /// Measure the time of core, component and filter next to parsing the same bytes. Prints the
    /// tables of benches/results/performance.md and writes target/bench/speed.json.
    Speed {
        /// Print the changes since an earlier run: its speed.json.
        #[arg(long)]
        compare: Option<PathBuf>,
        /// Measure only benches whose name contains this.
        filter: Option<String>,
        /// Check every answer once in the profile of the tests, and measure nothing.
        #[arg(long)]
        check: bool,
    },
    /// Measure the search of tools on labelled queries: recall, nDCG and complete answers, next to
    /// the crate bm25 with English stems and to FastMCP's search. Also measures misspelled queries
    /// and time.
    Catalogue {
        /// A folder with NAME.tools.jsonl and NAME.jsonl files.
        #[arg(long, env = "CONTEXT_GUARD_CATALOGUE")]
        catalogue: PathBuf,
        /// Leave out FastMCP, which is installed from PyPI.
        #[arg(long)]
        offline: bool,
    },
    /// Measure how much of the budget the first answers with payloads use, and whether every answer
    /// fits. A payload NAME with a file NAME.expected beside it also says which share of the words
    /// of that file the answer has. With questions, says how many of them are answered.
    Answers {
        /// A folder of payloads: the texts of tool results, one a file.
        #[arg(long)]
        payloads: PathBuf,
        /// The budget in tokens.
        #[arg(long, default_value_t = 4000)]
        budget: u64,
        /// A JSON file of questions about the payloads, such as
        /// benches/answers/questions/development.json.
        #[arg(long)]
        questions: Option<PathBuf>,
        /// Print the answers with payloads whose path contains this text.
        #[arg(long)]
        show: Option<String>,
    },
    /// Measure programs of models over tools: tokens, calls and correctness of 40 tasks, next to
    /// whole answers, pages, queries and FastMCP's code mode. Also measures times and memory.
    /// Prints the tables of benches/results/code.md.
    Code {
        /// A folder with payloads by class. Tasks without their payloads are left out.
        #[arg(long)]
        payloads: PathBuf,
    },
    /// Compare with other proxies on the same real servers: latency, calls per second, memory,
    /// tokens. Installs them into target/. Prints the tables of benches/results/performance.md.
    Comparison,
    /// Measure how time and memory grow with payload, snapshots, tools and sessions. Prints tables
    /// and draws the plots of benches/results/performance.md.
    Scale,
    /// Measure the history of calls: the time of recording a call, the size of the file after 35
    /// simulated days, and the queries of the dashboard. Prints the report of
    /// benches/results/history.md.
    Observe {
        /// The number of simulated calls.
        #[arg(long, default_value_t = 10_000_000)]
        calls: u64,
    },
    /// Measure many clients on one gateway: errors, latency, memory over time. Fails on errors or
    /// growing memory. Prints the report of benches/results/load.md.
    Load {
        /// The number of clients.
        #[arg(long, default_value_t = 500)]
        clients: u32,
        /// The duration in seconds.
        #[arg(long, default_value_t = 300)]
        seconds: u32,
        /// Milliseconds between the requests of a client.
        #[arg(long, default_value_t = 2_500)]
        pause_ms: u32,
    },
    /// Measure a fleet with a release build: the commands to Redis for each kind of call, reads at
    /// another replica, the throughput of three replicas, and latencies during faults of Redis.
    /// Needs redis-server, and control groups of Linux. Prints the report of
    /// benches/results/fleet.md.
    Fleet,
    /// Measure swaps of policy and component under many clients, next to a run without swaps. Fails
    /// if a request fails, or memory grows. Prints the report of benches/results/swap.md.
    Swap {
        /// The number of clients.
        #[arg(long, default_value_t = 200)]
        clients: u32,
        /// The number of swaps; every second one swaps the policy.
        #[arg(long, default_value_t = 1_000)]
        swaps: u32,
    },
}

impl Bench {
    /// Returns the options of the quality bench for the captured MCP messages of the tests.
    pub(crate) fn captures() -> Self {
        Bench::Quality { corpus: None, budgets: "4000,1000".to_owned(), files: false, show: None }
    }

    /// Returns the options of the speed bench that checks every answer and measures nothing.
    pub(crate) fn checked() -> Self {
        Bench::Speed { compare: None, filter: None, check: true }
    }

    pub(crate) fn run(self) -> Result<()> {
        match self {
            Bench::Quality { corpus, budgets, files, show } => {
                quality(corpus, budgets, files, show)
            }
            Bench::Catalogue { catalogue: folder, offline } => catalogue(&folder, offline),
            Bench::Answers { payloads, budget, questions, show } => {
                answers(&payloads, budget, questions, show)
            }
            Bench::Speed { compare, filter, check } => speed(compare, filter, check),
            Bench::Code { payloads } => code(&payloads),
            Bench::Comparison => {
                let proxies = packages::proxies()?;
                let variables = ["CONTEXT_GUARD_BENCH_PEERS", "CONTEXT_GUARD_PEERS"];
                run_with_release("comparison", &variables.map(|name| (name, proxies.as_path())))
            }
            Bench::Observe { calls } => build::run(
                cargo()
                    .args(["bench", "--quiet", "--package", "context-guard-history"])
                    .args(["--bench", "observe"])
                    .env("OBSERVE_CALLS", calls.to_string()),
            ),
            Bench::Scale => run_with_release("scale", &[]),
            Bench::Load { clients, seconds, pause_ms } => {
                let arguments =
                    [("--clients", clients), ("--seconds", seconds), ("--pause-ms", pause_ms)];
                run_with_program("load", &build::for_tests()?, &arguments)
            }
            Bench::Fleet => run_with_program("fleet", &build::all(true)?, &[]),
            Bench::Swap { clients, swaps } => {
                let arguments = [("--clients", clients), ("--swaps", swaps)];
                run_with_program("swap", &build::for_tests()?, &arguments)
            }
        }
    }
}

/// Runs the bench of answers, which needs no component and no host.
fn answers(
    payloads: &Path,
    budget: u64,
    questions: Option<PathBuf>,
    show: Option<String>,
) -> Result<()> {
    let folder =
        payloads.canonicalize().with_context(|| format!("no folder at {}", payloads.display()))?;
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "context-guard-bench-answers", "--"]);
    command.arg(folder).arg(budget.to_string());
    if let Some(questions) = questions {
        let no_file = || format!("no file {}", questions.display());
        command.arg(questions.canonicalize().with_context(no_file)?);
    }
    if let Some(show) = show {
        command.env("CONTEXT_GUARD_BENCH_SHOW", show);
    }
    build::run(&mut command)
}

/// Runs the speed bench in the release profile. With `check`, uses the profile of the tests, which
/// is compiled anyway.
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
            "Building the bench. The first build compiles wasmtime in the release profile and takes \
             some minutes."
        );
        command.args(["--package", "context-guard-suite"]);
    }
    command.arg("--").args(check.then_some("--test")).args(filter);
    // This format prints a line for each side of each comparison.
    command.args(["--output-format", "bencher"]);
    build::run(&mut command)
}

/// Runs the bench of tool search. It needs no host.
fn catalogue(folder: &Path, offline: bool) -> Result<()> {
    let folder =
        folder.canonicalize().with_context(|| format!("no folder at {}", folder.display()))?;
    let mut command = cargo();
    command.args(["bench", "--quiet", "--package", "context-guard-catalogue"]);
    command.args(["--bench", "catalogue"]).env("CONTEXT_GUARD_CATALOGUE", folder);
    command.env_remove("CONTEXT_GUARD_FASTMCP_PYTHON");
    if !offline {
        command.env("CONTEXT_GUARD_FASTMCP_PYTHON", packages::fastmcp()?);
    }
    build::run(&mut command)
}

/// Runs the bench of programs with a release build.
fn code(payloads: &Path) -> Result<()> {
    let parts = packages::code()?;
    let mut command = Command::new("python3");
    command.arg(build::root().join("benches/code/main.py")).arg("--payloads").arg(payloads);
    command.arg("--program").arg(build::all(true)?.binary);
    command.arg("--modules").arg(parts.join("node_modules"));
    command.arg("--fastmcp").arg(parts.join("fastmcp/bin/python"));
    build::run(&mut command)
}

/// Runs a bench with release builds of the component and the program.
fn run_with_release(bench: &str, environment: &[(&str, &Path)]) -> Result<()> {
    let built = build::all(true)?;
    let mut command = build::embed(cargo(), &built.component);
    command.env("CONTEXT_GUARD_PROGRAM", &built.binary).envs(environment.iter().copied());
    command.args(["bench", "--quiet", "--package", "context-guard-suite", "--bench", bench]);
    build::run(&mut command)
}

/// The numbers of `cargo xtask soak`.
#[derive(Args)]
pub(crate) struct SoakOptions {
    /// Seconds for the quiet run, and for each of the eight kinds.
    #[arg(long, default_value_t = 18)]
    pub(crate) seconds: u32,
    /// The number of well-behaved clients.
    #[arg(long, default_value_t = 200)]
    pub(crate) clients: u32,
    /// Milliseconds between the requests of a client.
    #[arg(long, default_value_t = 2_000)]
    pub(crate) pause_ms: u32,
    /// The requests of each client and of the attacker that the gateway admits in a minute. 0
    /// admits all.
    #[arg(long, default_value_t = 100)]
    pub(crate) per_minute: u32,
    /// Attack a release build instead of the build that the tests use.
    #[arg(long)]
    pub(crate) release: bool,
}

/// Runs hostile clients and upstreams beside well-behaved clients, each kind for some seconds.
pub(crate) fn soak(options: &SoakOptions) -> Result<()> {
    let numbers = [
        ("--seconds", options.seconds),
        ("--clients", options.clients),
        ("--pause-ms", options.pause_ms),
        ("--per-minute", options.per_minute),
    ];
    let built = if options.release { build::all(true) } else { build::for_tests() }?;
    run_with_program("soak", &built, &numbers)
}

/// Runs a bench, itself built as the tests are, with a build of the program.
fn run_with_program(bench: &str, built: &build::Built, arguments: &[(&str, u32)]) -> Result<()> {
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

/// Computes the tables of the `lexical` estimator from a folder of texts. Fails unless the tables
/// estimate `least` percent of the texts left out within a tenth of the exact count.
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
