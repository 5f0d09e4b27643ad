//! `cargo xtask run`: builds the binary and starts it.

use std::process::Command;

use anyhow::{Context, Result};

use crate::build;

/// Builds the program `context-guard`, runs it, and exits with its exit code.
pub(crate) fn run(release: bool, features: &[String], arguments: &[String]) -> Result<()> {
    let built = if release { build::all(true) } else { build::lean(features) }?;
    let status = Command::new(&built.binary)
        .args(arguments)
        .status()
        .context("the binary cannot be started")?;
    std::process::exit(status.code().unwrap_or(1));
}
