//! The binary, built and started.

use std::process::Command;

use anyhow::{Context, Result};

pub(crate) fn run(release: bool, arguments: &[String]) -> Result<()> {
    let built = crate::build::all(release)?;
    let status = Command::new(&built.binary)
        .args(arguments)
        .status()
        .context("the binary could not be started")?;
    std::process::exit(status.code().unwrap_or(1));
}
