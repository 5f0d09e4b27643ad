//! `cargo xtask fuzz`: fuzzing on the stable toolchain. The crates of the workspace are compiled
//! with coverage for libFuzzer, their dependencies without.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::build::{self, cargo, root, step, target};

/// The targets, which are files of `tests/fuzz/targets`.
const TARGETS: [&str; 18] = [
    "scanner",
    "message",
    "payload",
    "query",
    "jsonpath",
    "converted",
    "texts",
    "references",
    "since",
    "cursor",
    "imports",
    "http_head",
    "event_stream",
    "envelope",
    "rest",
    "configuration",
    "jwt",
    "sessions",
];
/// The environment variable that marks a run of this program as a compiler wrapper, which cargo
/// calls instead of the compiler.
const WRAPPER: &str = "CONTEXT_GUARD_FUZZ_COMPILER";
/// The number of lines of a failed target's output that are printed.
const FAILURE_LINES: usize = 60;

/// The time that a run takes.
pub(crate) enum Span {
    /// The time for each target. Zero runs the stored inputs alone.
    PerTarget(Duration),
    /// The time for all targets together.
    Total(Duration),
}

/// The figures of one target's run.
#[derive(Default)]
struct FuzzStats {
    executions: u64,
    covered: u64,
    /// The number of edges of the instrumented crates, which are those of the workspace.
    edges: u64,
}

/// Fuzzes the targets whose names contain `filter`, and prints executions and coverage of each.
/// Fails at the first input that crashes, which is written to a file.
pub(crate) fn run(span: &Span, filter: &str) -> Result<()> {
    let targets: Vec<&str> = TARGETS.into_iter().filter(|name| name.contains(filter)).collect();
    ensure!(!targets.is_empty(), "no fuzz target contains `{filter}`: {}", TARGETS.join(", "));
    let each = match *span {
        Span::PerTarget(time) => time,
        // libFuzzer has no limit below a second.
        Span::Total(time) => {
            (time / u32::try_from(targets.len()).unwrap_or(1)).max(Duration::from_secs(1))
        }
    };
    let seconds = each.as_secs();
    step!("Fuzzing {} targets, {seconds} seconds each.", targets.len());
    // Not the path of this process: cargo may have replaced that file since.
    let own = target().join("debug").join(format!("xtask{}", std::env::consts::EXE_SUFFIX));
    build::run(cargo().env(WRAPPER, "1").env("RUSTC_WORKSPACE_WRAPPER", own).args([
        "build",
        "--quiet",
        "--package",
        "context-guard-fuzz",
    ]))?;
    eprintln!("{:<16}{:>12}{:>10}{:>10}{:>8}", "target", "executions", "covered", "edges", "share");
    for name in targets {
        let stats = fuzz(name, seconds)?;
        let share = stats.covered * 1_000 / stats.edges.max(1);
        eprintln!(
            "{name:<16}{:>12}{:>10}{:>10}{:>6}.{}%",
            stats.executions,
            stats.covered,
            stats.edges,
            share / 10,
            share % 10
        );
    }
    Ok(())
}

/// Returns the folder of a target's inputs that are part of the project.
fn corpus(name: &str) -> PathBuf {
    root().join("tests/fuzz/corpus").join(name)
}

/// Fuzzes one target.
fn fuzz(name: &str, seconds: u64) -> Result<FuzzStats> {
    // New inputs are written to the first folder. Those of the project are only read.
    let inputs = target().join("fuzz").join(name);
    std::fs::create_dir_all(&inputs)?;
    let mut command = Command::new(target().join("debug").join(format!("fuzz_{name}")));
    let stored = Some(corpus(name)).filter(|folder| folder.is_dir());
    if seconds == 0 {
        command.args(stored).arg("-runs=0");
    } else {
        command.arg(&inputs).args(stored).arg(format!("-max_total_time={seconds}"));
    }
    command.args(["-max_len=8192", "-timeout=10"]);
    let prefix = format!("{}/crash-{name}-", target().join("fuzz").display());
    command.arg(format!("-artifact_prefix={prefix}"));
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let errors = child.stderr.take().context("no standard error")?;
    let (mut stats, mut last) = (FuzzStats::default(), Vec::new());
    for line in BufReader::new(errors).split(b'\n').map_while(std::io::Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        read_status(&line, &mut stats);
        last.push(line);
        if last.len() > FAILURE_LINES {
            last.remove(0);
        }
    }
    let status = child.wait()?;
    if !status.success() {
        eprintln!("{}", last.join("\n"));
        let found = last.iter().find_map(|line| line.split_once("Test unit written to "));
        let file = found.map_or(format!("{prefix}*"), |(_, file)| file.to_owned());
        bail!("the fuzz target {name} failed ({status}); its input is in {file}");
    }
    Ok(stats)
}

/// Reads the figures in a line of libFuzzer, such as `#9 DONE cov: 4 ft: 5 corp: 2/9b` and
/// `INFO: Loaded 1 PC tables (7 PCs): 7 [...]`.
fn read_status(line: &str, stats: &mut FuzzStats) {
    let number = |text: &str| text.split(|char: char| !char.is_ascii_digit()).next()?.parse().ok();
    if let Some((_, edges)) = line.split_once("PC tables (") {
        stats.edges = number(edges).unwrap_or_default();
    }
    let (Some(rest), Some((_, covered))) = (line.strip_prefix('#'), line.split_once("cov: "))
    else {
        return;
    };
    stats.executions = number(rest).unwrap_or(stats.executions);
    stats.covered = number(covered).unwrap_or(stats.covered);
}

/// Runs the compiler if cargo called this program as a compiler wrapper. Returns none otherwise.
/// Coverage instrumentation is added unless the crate runs at build time.
pub(crate) fn compile_if_wrapper() -> Option<Result<()>> {
    std::env::var_os(WRAPPER)?;
    let mut arguments = std::env::args_os().skip(1);
    let mut rustc = Command::new(arguments.next()?);
    let arguments: Vec<_> = arguments.collect();
    let runs_at_build_time = arguments
        .iter()
        .any(|argument| argument == "build_script_build" || argument == "proc-macro");
    let is_query = arguments
        .iter()
        .any(|argument| argument == "-vV" || argument.to_string_lossy().starts_with("--print"));
    rustc.args(arguments);
    if !runs_at_build_time && !is_query {
        rustc.args(["--cfg", "fuzzing", "-Cpasses=sancov-module", "-Ccodegen-units=1"]);
        for option in ["level=4", "inline-8bit-counters", "pc-table", "trace-compares"] {
            rustc.arg(format!("-Cllvm-args=-sanitizer-coverage-{option}"));
        }
    }
    Some(rustc.status().context("the compiler cannot be started").and_then(|status| {
        anyhow::ensure!(status.success(), "the compiler failed");
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read() {
        let mut stats = FuzzStats::default();
        read_status("INFO: Loaded 1 PC tables (71 PCs): 71 [0x1,0x2),", &mut stats);
        read_status("#12\tINITED cov: 3 ft: 9 corp: 1/1b exec/s: 0 rss: 30Mb", &mut stats);
        read_status("#2048\tDONE   cov: 33 ft: 99 corp: 7/49b", &mut stats);
        read_status("Done 2048 runs in 1 second(s)", &mut stats);
        assert_eq!((stats.executions, stats.covered, stats.edges), (2_048, 33, 71));
    }

    #[test]
    fn every_target_is_run() {
        let folder = root().join("tests/fuzz/targets");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        let mut targets = TARGETS.map(str::to_owned).to_vec();
        files.sort_unstable();
        targets.sort_unstable();
        assert_eq!(files, targets);
    }
}
