//! `cargo xtask dist`: all release artifacts. A program of its own composes components and binds
//! JavaScript, because its dependencies would delay the task runner.

use std::path::PathBuf;

use anyhow::Result;

use crate::build::{self, cargo, target};

/// Builds the release artifacts and returns their folder.
pub(crate) fn run() -> Result<PathBuf> {
    build::install_targets()?;
    let program = ["--package", "context-guard-xtask", "--features", "dist", "--bin", "dist"];
    let elapsed = build::elapsed().as_millis().to_string();
    build::run(cargo().env(build::ELAPSED, elapsed).args(["run", "--quiet"]).args(program))?;
    Ok(target().join("dist"))
}
