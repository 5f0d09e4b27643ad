//! What must hold before a change is taken: format, lints, documentation, licences, advisories, and tidiness.

use std::process::Command;

use anyhow::{Result, bail};

use crate::build::{self, cargo, root, target};

pub(crate) fn run() -> Result<()> {
    eprintln!("Checking format, lints and documentation.");
    tidy()?;
    build::run(cargo().args(["fmt", "--all", "--check"]))?;
    build::targets()?;
    let here = build::without_guests();
    let clippy = ["clippy", "--quiet"];
    let strict = ["--", "-D", "warnings"];
    build::run(cargo().args(clippy).args(&here).arg("--all-targets").args(strict))?;
    // Guests are built for their target alone.
    for (guest, triple, features) in build::GUESTS {
        let which = ["--package", guest, "--target", triple, "--features", features];
        build::run(cargo().args(clippy).args(which).args(strict))?;
    }
    build::run(
        cargo()
            .args(["doc", "--quiet", "--no-deps"])
            .args(&here)
            .env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    deny()
}

/// Licences, sources and duplicates; advisories where their database can be fetched.
fn deny() -> Result<()> {
    let tool = tool("cargo-deny", "0.20.2")?;
    build::run(Command::new(&tool).current_dir(root()).args([
        "--log-level",
        "error",
        "check",
        "bans",
        "licenses",
        "sources",
    ]))?;
    let advisories = Command::new(&tool)
        .current_dir(root())
        .args(["--log-level", "error", "check", "advisories"])
        .output()?;
    let said = String::from_utf8_lossy(&advisories.stderr);
    if !advisories.status.success() {
        if said.contains("failed to fetch advisory database")
            || said.contains("failed to load advisory database")
        {
            eprintln!("Advisories were not checked: their database cannot be fetched from here.");
        } else {
            bail!("cargo deny check advisories:\n{said}");
        }
    }
    Ok(())
}

/// A cargo tool, installed below target/ once.
fn tool(name: &str, version: &str) -> Result<std::path::PathBuf> {
    let folder = target().join("tools");
    let program = folder.join("bin").join(name);
    if !program.is_file() {
        eprintln!("Installing {name} {version}. This takes some minutes, once.");
        build::run(
            cargo()
                .args(["install", "--quiet", "--locked", "--version", version, "--root"])
                .arg(&folder)
                .arg(name),
        )?;
    }
    Ok(program)
}

/// Every file says what it is, and stays small enough to be about one thing.
fn tidy() -> Result<()> {
    const MOST_LINES: usize = 500;
    let files = Command::new("git").current_dir(root()).args(["ls-files", "*.rs"]).output()?;
    let mut faults = Vec::new();
    for name in String::from_utf8_lossy(&files.stdout).lines() {
        let Ok(text) = std::fs::read_to_string(root().join(name)) else { continue };
        if !text.lines().any(|line| line.starts_with("//!")) {
            faults.push(format!("{name}: no module documentation"));
        }
        let code = text.split("#[cfg(test)]").next().unwrap_or_default().lines().count();
        if code > MOST_LINES && !name.starts_with("tests/") {
            faults.push(format!("{name}: {code} lines of code; is there a second thing in it?"));
        }
    }
    if faults.is_empty() { Ok(()) } else { bail!("untidy:\n  {}", faults.join("\n  ")) }
}
