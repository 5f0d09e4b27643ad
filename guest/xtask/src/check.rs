//! `cargo xtask check`: format, clippy, documentation, the project's own lints, and dependencies.

use std::process::Command;

use anyhow::{Result, bail};

use crate::build::{self, cargo, root, step};
use crate::{advisories, docs, lint, package, tools, workflows};

/// Runs every check that is not a test. With `offline`, security advisories
/// are those of the snapshot alone.
pub(crate) fn run(offline: bool) -> Result<()> {
    first()?;
    rest(offline)
}

/// Runs the checks that take seconds: language, format, and the order of the layers.
pub(crate) fn first() -> Result<()> {
    lint::run(&[])?;
    build::run(cargo().args(["fmt", "--all", "--check"]))?;
    // The selection of the unit tests, so that nothing is compiled a second time for them.
    let layers = [&["test", "--quiet"], build::native().as_slice(), &["--test", "layers"]].concat();
    build::run(cargo().args(layers))
}

/// Runs the checks that compile everything, and those of the dependencies.
pub(crate) fn rest(offline: bool) -> Result<()> {
    step!("Checking lints and documentation.");
    build::install_targets()?;
    let native = build::without_guests();
    let clippy = ["clippy", "--quiet"];
    let strict = ["--", "-D", "warnings"];
    build::run(cargo().args(clippy).args(&native).arg("--all-targets").args(strict))?;
    // The suite is not a test that `--all-targets` selects, because it needs built artifacts.
    build::run(cargo().args(clippy).args(&native).args(["--test", "suite"]).args(strict))?;
    // The packager is a program of its own, whose dependencies no other test needs.
    build::run(cargo().args(clippy).args(package::PACKAGER).arg("--all-targets").args(strict))?;
    // What `cargo xtask run` builds leaves out optional parts.
    let lean = ["--package", "context-guard", "--no-default-features"];
    build::run(cargo().args(clippy).args(lean).args(strict))?;
    // A guest builds for its own target alone.
    for (guest, triple, features) in build::GUESTS {
        if guest == build::SANDBOX && !build::has_clang() {
            tools::skipped(guest, "clang is not installed");
            continue;
        }
        let package = ["--package", guest, "--target", triple, "--features", features];
        build::run(cargo().args(clippy).args(package).args(strict))?;
    }
    build::run(
        cargo()
            .args(["doc", "--quiet", "--no-deps"])
            .args(&native)
            .env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    docs::check_links()?;
    workflows::check()?;
    dependencies(offline)
}

/// Checks licences, sources, duplicate versions and security advisories of the dependencies. The
/// advisories are those of the snapshot and, unless `offline`, of the current database if it is
/// reachable.
pub(crate) fn dependencies(offline: bool) -> Result<()> {
    let tool = tools::install("cargo-deny", "0.20.2", &[])?;
    let deny = |checks: &[&str]| {
        let mut command = Command::new(&tool);
        // Without this option, cargo-deny looks at the dependencies of the root package alone.
        command.current_dir(root()).arg("--workspace");
        command.args(["--log-level", "warn", "check"]).args(checks);
        command
    };
    build::run(&mut deny(&["bans", "licenses", "sources"]))?;
    advisories::check(&tool)?;
    if offline {
        eprintln!("Newer advisories than those of the snapshot are not checked: --offline.");
        return Ok(());
    }
    let current = deny(&["advisories"]).output()?;
    let output = String::from_utf8_lossy(&current.stderr);
    let is_unreachable = output.contains("failed to fetch advisory database")
        || output.contains("failed to load advisory database");
    match current.status.success() {
        true => Ok(()),
        false if is_unreachable => {
            tools::skipped("advisories", "the current database cannot be fetched");
            Ok(())
        }
        false => bail!("cargo deny check advisories:\n{output}"),
    }
}
