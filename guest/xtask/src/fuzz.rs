//! Fuzzing on the stable toolchain: our own crates are built with coverage for libFuzzer, their dependencies stay as they are.

use std::process::Command;

use anyhow::{Context, Result};

use crate::build::{self, cargo, target};

const TARGETS: [&str; 5] = ["scanner", "message", "payload", "cursor", "imports"];
/// Tells this program that cargo has called it in the place of the compiler.
const WRAPPING: &str = "CONTEXT_GUARD_FUZZ_COMPILER";

pub(crate) fn run(seconds: u32) -> Result<()> {
    eprintln!("Fuzzing {} targets, {seconds} seconds each.", TARGETS.len());
    // Not the running file: cargo may have built this program anew since, and that one is gone.
    let own = target().join("debug").join(format!("xtask{}", std::env::consts::EXE_SUFFIX));
    build::run(cargo().env(WRAPPING, "1").env("RUSTC_WORKSPACE_WRAPPER", own).args([
        "build",
        "--quiet",
        "--package",
        "context-guard-fuzz",
    ]))?;
    for name in TARGETS {
        let inputs = target().join("fuzz").join(name);
        std::fs::create_dir_all(&inputs)?;
        let mut fuzz = Command::new(target().join("debug").join(format!("fuzz_{name}")));
        // What crashes is written beside the inputs, and its path is printed.
        fuzz.arg(&inputs).arg(format!("-max_total_time={seconds}")).args([
            "-max_len=8192",
            "-timeout=10",
            "-print_final_stats=1",
            "-verbosity=0",
        ]);
        fuzz.arg(format!("-artifact_prefix={}/crash-{name}-", target().join("fuzz").display()));
        build::run(&mut fuzz).with_context(|| {
            format!(
                "the target {name} found a fault; the input is in {}",
                target().join("fuzz").display()
            )
        })?;
    }
    Ok(())
}

/// Where cargo calls this program as the compiler of a crate of ours: runs the compiler, with coverage unless the crate runs at build time.
pub(crate) fn compile_if_called_to() -> Option<Result<()>> {
    std::env::var_os(WRAPPING)?;
    let mut arguments = std::env::args_os().skip(1);
    let mut rustc = Command::new(arguments.next()?);
    let arguments: Vec<_> = arguments.collect();
    let at_build_time = arguments
        .iter()
        .any(|argument| argument == "build_script_build" || argument == "proc-macro");
    let asks = arguments
        .iter()
        .any(|argument| argument == "-vV" || argument.to_string_lossy().starts_with("--print"));
    rustc.args(arguments);
    if !at_build_time && !asks {
        rustc.args(["--cfg", "fuzzing", "-Cpasses=sancov-module", "-Ccodegen-units=1"]);
        for option in ["level=4", "inline-8bit-counters", "pc-table", "trace-compares"] {
            rustc.arg(format!("-Cllvm-args=-sanitizer-coverage-{option}"));
        }
    }
    Some(rustc.status().context("the compiler could not be started").and_then(|status| {
        anyhow::ensure!(status.success(), "the compiler failed");
        Ok(())
    }))
}
