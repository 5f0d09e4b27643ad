//! `cargo xtask fuzz`: fuzzing on the stable toolchain. The crates of the workspace are compiled
//! with coverage for libFuzzer, their dependencies without.

use std::process::Command;

use anyhow::{Context, Result};

use crate::build::{self, cargo, target};

const TARGETS: [&str; 5] = ["scanner", "message", "payload", "cursor", "imports"];
/// The environment variable that marks a run of this program as a compiler wrapper, which cargo
/// calls instead of the compiler.
const WRAPPER: &str = "CONTEXT_GUARD_FUZZ_COMPILER";

pub(crate) fn run(seconds: u32) -> Result<()> {
    eprintln!("Fuzzing {} targets, {seconds} seconds each.", TARGETS.len());
    // Not the path of this process: cargo may have replaced that file since.
    let own = target().join("debug").join(format!("xtask{}", std::env::consts::EXE_SUFFIX));
    build::run(cargo().env(WRAPPER, "1").env("RUSTC_WORKSPACE_WRAPPER", own).args([
        "build",
        "--quiet",
        "--package",
        "context-guard-fuzz",
    ]))?;
    for name in TARGETS {
        let inputs = target().join("fuzz").join(name);
        std::fs::create_dir_all(&inputs)?;
        let mut fuzz = Command::new(target().join("debug").join(format!("fuzz_{name}")));
        // An input that crashes is written to the folder of the inputs, and its path is printed.
        fuzz.arg(&inputs).arg(format!("-max_total_time={seconds}")).args([
            "-max_len=8192",
            "-timeout=10",
            "-print_final_stats=1",
            "-verbosity=0",
        ]);
        fuzz.arg(format!("-artifact_prefix={}/crash-{name}-", target().join("fuzz").display()));
        build::run(&mut fuzz).with_context(|| {
            format!(
                "the fuzz target {name} failed; its input is in {}",
                target().join("fuzz").display()
            )
        })?;
    }
    Ok(())
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
