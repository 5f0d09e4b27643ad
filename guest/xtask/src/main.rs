//! `cargo xtask`: the task runner. Builds, runs, tests, checks and packages context-guard.
#![allow(clippy::print_stderr, reason = "a command line tool")]

mod advisories;
mod bench;
mod build;
mod check;
mod command_line;
mod debian;
mod dist;
mod docs;
mod fuzz;
mod generate;
mod lint;
mod package;
mod packages;
mod release;
mod run;
mod semver;
mod test;
mod tools;
mod workflows;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::fuzz::Span;

/// Builds, runs and tests context-guard. Needs rustup and a C compiler; `test` also needs node 20
/// and Python 3.11 or later.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build the guard component and the binary, and print their paths.
    Build {
        /// Build an optimized binary, as in a release.
        #[arg(long)]
        release: bool,
    },
    /// Build and run the binary: `cargo xtask run -- demo`.
    Run {
        /// Build the released form: optimized, with all features.
        #[arg(long)]
        release: bool,
        /// More features of a development build: `jwt`, `redis`.
        #[arg(long, value_delimiter = ',')]
        features: Vec<String>,
        /// The arguments of the binary.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Set up everything that the tests need, and run every test.
    Test {
        /// Skip the checks and the fuzzing.
        #[arg(long)]
        quick: bool,
        /// Install missing system packages without asking.
        #[arg(long)]
        yes: bool,
        /// Check advisories with the snapshot alone, not with the current database as well.
        #[arg(long)]
        offline: bool,
        /// A folder of captured MCP messages to replay as well.
        #[arg(long, env = "CONTEXT_GUARD_CORPUS")]
        corpus: Option<PathBuf>,
        /// Run only tests whose name contains this.
        filter: Option<String>,
    },
    /// Check format, lints, documentation, licences and advisories.
    Check {
        /// Check advisories with the snapshot alone, not with the current database as well.
        #[arg(long)]
        offline: bool,
    },
    /// Check the language rules alone, of these files or of all: takes a second.
    Lint {
        /// Files and folders.
        paths: Vec<PathBuf>,
    },
    /// Check licences, sources, duplicate versions and advisories of the dependencies alone.
    Dependencies {
        /// Check advisories with the snapshot alone, not with the current database as well.
        #[arg(long)]
        offline: bool,
    },
    /// Replace the snapshot of the RustSec advisory database, which `check` uses without a network.
    Advisories {
        /// A git checkout of the database.
        database: PathBuf,
    },
    /// Check that contract and library are compatible with the last release.
    Semver,
    /// Build the documentation as a book, and check its links.
    Docs,
    /// Write the generated files: schemas, settings, command line, golden vectors.
    Generate,
    /// Build all release artifacts in target/dist, with sizes and digests.
    Dist,
    /// Build the program for this machine as it is released, and print its path.
    Release {
        /// Build a program without any library, for an image from scratch. Linux only.
        #[arg(long = "static")]
        is_static: bool,
    },
    /// Package the program: npm, wheel, .deb, tarball, .mcpb, OCI; `-- --verify` runs each.
    Package {
        /// The arguments of the packager: `cargo xtask package -- --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measure, and print tables: `cargo xtask bench quality --corpus DIR`.
    Bench {
        #[command(subcommand)]
        bench: bench::Bench,
    },
    /// Compute the tables of the `lexical` estimator from a folder of text.
    Train {
        /// A folder of UTF-8 text. Every fifth file is left out to evaluate the tables.
        #[arg(long)]
        texts: PathBuf,
        /// `o200k` or `cl100k`.
        #[arg(long, default_value = "o200k")]
        tokenizer: String,
        /// The file to write. The guard uses guest/tokens/src/lexical/tables/NAME.bin.
        #[arg(long)]
        out: PathBuf,
    },
    /// Run hostile clients and upstreams beside well-behaved clients, one kind after the other, and
    /// print a table. Fails if a well-behaved client sees an error, memory grows without bound, or
    /// a process, file descriptor or session remains. The quiet run comes first.
    Soak(bench::SoakOptions),
    /// Fuzz each target for a while, and print executions and coverage. An input that crashes is
    /// written to a file below target/fuzz, whose path is printed, and the command fails. Starts
    /// with the inputs of tests/fuzz/corpus and those that earlier runs found.
    Fuzz {
        /// Seconds for each target. 0 runs the stored inputs alone.
        #[arg(long, default_value_t = 60, conflicts_with = "hours")]
        seconds: u32,
        /// Hours for all targets together, such as 0.5. The time is divided among them.
        #[arg(long, value_parser = parse_hours)]
        hours: Option<std::time::Duration>,
        /// Fuzz only targets whose name contains this.
        #[arg(default_value = "")]
        filter: String,
    },
}

/// Parses a number of hours.
fn parse_hours(text: &str) -> Result<std::time::Duration> {
    let hours: f64 = text.parse()?;
    Ok(std::time::Duration::try_from_secs_f64(hours * 3_600.0)?)
}

fn main() -> std::process::ExitCode {
    // Starts the clock of the steps.
    build::elapsed();
    let result = fuzz::compile_if_wrapper().unwrap_or_else(|| Arguments::parse().command.run());
    match result {
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
            Command::Run { release, features, arguments } => {
                run::run(release, &features, &arguments)
            }
            Command::Test { quick, yes, offline, corpus, filter } => {
                test::run(&test::Options { quick, yes, offline, corpus, filter })
            }
            Command::Check { offline } => {
                check::run(offline).and_then(|()| tools::report_skipped())
            }
            Command::Lint { paths } => lint::run(&paths),
            Command::Dependencies { offline } => {
                check::dependencies(offline).and_then(|()| tools::report_skipped())
            }
            Command::Advisories { database } => advisories::renew(&database),
            Command::Semver => semver::run(),
            Command::Docs => docs::run(),
            Command::Generate => generate::run(),
            Command::Dist => dist::run().map(drop),
            Command::Release { is_static } => release::run(is_static),
            Command::Package { arguments } => package::run(&arguments),
            Command::Bench { bench } => bench.run(),
            Command::Train { texts, tokenizer, out } => bench::train(&texts, &tokenizer, &out, 0),
            Command::Soak(options) => bench::soak(&options),
            Command::Fuzz { seconds, hours, filter } => {
                let each = Span::PerTarget(std::time::Duration::from_secs(seconds.into()));
                fuzz::run(&hours.map_or(each, Span::Total), &filter)
            }
        }
    }
}
