//! `cargo xtask package`: packages of the program. A program of its own makes them, because its
//! dependencies would delay the task runner.

use anyhow::Result;

use crate::build::{self, cargo};

/// Builds the packages in target/package. `arguments` are those of the program `package`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let program = ["--package", "context-guard-xtask", "--features", "package", "--bin", "package"];
    build::run(cargo().args(["run", "--quiet"]).args(program).arg("--").args(arguments))
}
