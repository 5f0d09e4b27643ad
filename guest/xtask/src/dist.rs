//! `cargo xtask dist`: all release artifacts. A program of its own composes components and binds
//! JavaScript, because its dependencies would delay the task runner.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, anyhow};

use crate::build::{self, cargo, root, target};

/// Builds the release artifacts and returns their folder.
pub(crate) fn run() -> Result<PathBuf> {
    run_beside(|| Ok(()))
}

/// Builds the release artifacts, and calls `other` meanwhile: the last steps of each guest's build
/// use one processor. Returns the folder of the artifacts.
pub(crate) fn run_beside(other: impl FnOnce() -> Result<()> + Send) -> Result<PathBuf> {
    build::install_targets()?;
    let program = ["--package", "context-guard-xtask", "--features", "dist", "--bin", "dist"];
    build::run(cargo().args(["build", "--quiet"]).args(program))?;
    // `cargo run` would wait for other builds in the development profile.
    let program = target().join("debug").join(format!("dist{}", std::env::consts::EXE_SUFFIX));
    let elapsed = build::elapsed().as_millis().to_string();
    std::thread::scope(|scope| {
        let other = scope.spawn(other);
        build::run(Command::new(program).env(build::ELAPSED, elapsed).current_dir(root()))?;
        other.join().map_err(|_| anyhow!("a thread panicked"))?
    })?;
    Ok(target().join("dist"))
}
