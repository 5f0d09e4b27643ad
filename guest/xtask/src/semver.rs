//! `cargo xtask semver`: compares contract and library with the last release.

use std::process::Command;

use anyhow::{Context, Result};

use crate::build::{self, root};
use crate::{test, tools};

/// The version of cargo-semver-checks.
const VERSION: &str = "0.51.0";
/// The crates that other programs embed, and whose versions must be compatible.
const LIBRARIES: [&str; 2] = ["context-guard", "context-guard-core"];

/// Fails if the WIT contract or a library changed in a way that its new version does not allow.
pub(crate) fn run() -> Result<()> {
    // The released contracts are below tests/wit.
    let built = build::for_tests()?;
    let only = ["--test", "suite", "--", "contract::"];
    test::cargo_test(Some(&built), &[], &[build::native().as_slice(), &only].concat())?;
    let tag = Command::new("git")
        .current_dir(root())
        .args(["describe", "--tags", "--abbrev=0", "--match", "v*"])
        .output()
        .context("git cannot be started")?;
    if !tag.status.success() {
        // No test is left out: without a release there is nothing to compare with.
        eprintln!("Nothing is released yet: the libraries are not compared.");
        return Ok(());
    }
    let tag = String::from_utf8(tag.stdout)?;
    let program = tools::install("cargo-semver-checks", VERSION, &[])?;
    let packages = LIBRARIES.iter().flat_map(|name| ["--package", name]);
    let mut check = Command::new(program);
    check.current_dir(root()).args(["semver-checks", "--baseline-rev", tag.trim()]).args(packages);
    build::run(&mut check)
}
