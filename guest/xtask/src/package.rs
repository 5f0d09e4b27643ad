//! `cargo xtask package`: packages of the program. A program of its own makes them, because its
//! dependencies would delay the task runner.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::build::{self, cargo, step, target};
use crate::release;

/// Cargo arguments that select the packager.
pub(crate) const PACKAGER: [&str; 6] =
    ["--package", "context-guard-xtask", "--features", "package", "--bin", "package"];

/// Packages a development build of the program, and runs each package.
pub(crate) fn check(program: &Path) -> Result<()> {
    step!("Packaging the program, installing each package, and running it.");
    let folder = target().join("package-check");
    std::fs::create_dir_all(&folder)?;
    // Debug information makes half of the program, which would be compressed for each package.
    let stripped = folder.join("context-guard");
    build::run(Command::new("strip").arg("-o").arg(&stripped).arg(program))?;
    let program = format!("--program={}={}", release::host_triple()?, stripped.display());
    let out = format!("--out={}", folder.join("packages").display());
    let development =
        ["--development", "--max-glibc=9.9", "--compression=1", "--verify", "--validate"];
    packager(&[development.as_slice(), &[&program, &out]].concat())
}

/// Builds the packages in target/package. `arguments` are those of the program `package`. Without a
/// built program among them, a release build for this machine is packaged.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let names =
        |option: &str| arguments.iter().any(|argument| argument.split('=').next() == Some(option));
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let built;
    if !["--program", "--help", "-h"].into_iter().any(names) {
        let program = release::build(false)?;
        built = format!("--program={}={}", program.triple, program.file.display());
        arguments.push(&built);
    }
    packager(&arguments)
}

fn packager(arguments: &[&str]) -> Result<()> {
    build::run(cargo().args(["run", "--quiet"]).args(PACKAGER).arg("--").args(arguments))
}
