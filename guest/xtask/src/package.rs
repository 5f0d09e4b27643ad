//! `cargo xtask package`: packages of the program. A program of its own makes them, because its
//! dependencies would delay the task runner.

use anyhow::Result;

use crate::build::{self, cargo};
use crate::release;

/// Cargo arguments that select the packager.
pub(crate) const PACKAGER: [&str; 6] =
    ["--package", "context-guard-xtask", "--features", "package", "--bin", "package"];

/// Builds the packages in target/package. `arguments` are those of the program `package`. Without a
/// built program among them, a release build for this machine is packaged.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let names =
        |option: &str| arguments.iter().any(|argument| argument.split('=').next() == Some(option));
    let mut arguments = arguments.to_vec();
    if !["--program", "--help", "-h"].into_iter().any(names) {
        let program = release::build(false)?;
        arguments.push(format!("--program={}={}", program.triple, program.file.display()));
    }
    build::run(cargo().args(["run", "--quiet"]).args(PACKAGER).arg("--").args(arguments))
}
