//! `cargo xtask`: the one front door. Builds the guests and the binary, runs it, tests, fuzzes, checks.
#![allow(clippy::print_stderr, reason = "a command line tool")]

mod bench;
mod build;
mod check;
mod dist;
mod docs;
mod fuzz;
mod packages;
mod run;
mod test;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Builds, runs and tests context-guard. Needs rustup; `test` also node 20 and python 3.11 or later.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build the guard component and the binary; print where they are.
    Build {
        /// Optimise the binary too.
        #[arg(long)]
        release: bool,
    },
    /// Build, then run the binary: `cargo xtask run -- demo`.
    Run {
        /// Optimise the binary too.
        #[arg(long)]
        release: bool,
        /// What the binary gets.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Set up all that the tests need, and run every test.
    Test {
        /// Skip the checks, the fuzzing and the other builds of the component: the quick round while working.
        #[arg(long)]
        quick: bool,
        /// A folder of captured MCP messages to replay as well.
        #[arg(long, env = "CONTEXT_GUARD_CORPUS")]
        corpus: Option<std::path::PathBuf>,
        /// Run only tests whose name holds this.
        filter: Option<String>,
    },
    /// Check format, lints, documentation, licences and advisories.
    Check,
    /// Write the generated files anew: policy schema, golden vectors.
    Docs,
    /// Make everything that is handed out, in target/dist, with sizes and digests: the component, the filter of Envoy, the wasi:http middleware, the npm package.
    Dist,
    /// Measure, and print tables: `cargo xtask bench quality --corpus DIR`.
    Bench {
        #[command(subcommand)]
        bench: bench::Bench,
    },
    /// Make the tables of the `lexical` estimator anew from a folder of text.
    Train {
        /// A folder of UTF-8 text; every fifth file is kept back to judge the tables by.
        #[arg(long)]
        texts: std::path::PathBuf,
        /// `o200k` or `cl100k`.
        #[arg(long, default_value = "o200k")]
        tokenizer: String,
        /// Where the tables go: guest/core/src/tokens/lexical/tables/NAME.bin puts them to use.
        #[arg(long)]
        out: std::path::PathBuf,
    },
    /// Fuzz each target for a while.
    Fuzz {
        /// Seconds a target.
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
}

fn main() -> std::process::ExitCode {
    let done = fuzz::compile_if_called_to().unwrap_or_else(|| Arguments::parse().command.run());
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

impl Command {
    fn run(self) -> Result<()> {
        match self {
            Command::Build { release } => build::all(release).map(|built| built.print()),
            Command::Run { release, arguments } => run::run(release, &arguments),
            Command::Test { quick, corpus, filter } => {
                test::run(quick, corpus.as_deref(), filter.as_deref())
            }
            Command::Check => check::run(),
            Command::Dist => dist::run().map(drop),
            Command::Docs => docs::write(),
            Command::Bench { bench } => bench.run(),
            Command::Train { texts, tokenizer, out } => bench::train(&texts, &tokenizer, &out, 0),
            Command::Fuzz { seconds } => fuzz::run(seconds),
        }
    }
}
