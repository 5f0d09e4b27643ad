//! Builds the release artifacts in target/dist: the component, the Envoy filter, the wasi:http
//! middleware and the npm package. Called by `cargo xtask dist`.
#![allow(clippy::print_stderr, reason = "a command line tool")]

#[allow(dead_code, reason = "shared with the task runner")]
#[path = "../build.rs"]
mod build;
#[path = "../dist/compose.rs"]
mod compose;
#[path = "../dist/manifest.rs"]
mod manifest;
#[path = "../dist/npm.rs"]
mod npm;

use std::path::Path;

use anyhow::{Context, Result};

use build::step;

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask dist: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let folder = build::target().join("dist");
    std::fs::create_dir_all(&folder)?;
    let component = build::component()?;
    copy_changed(&component, &folder.join("context-guard.wasm"))?;
    let sandbox = build::sandbox()?.context("the release contains the sandbox: install clang")?;
    copy_changed(&sandbox, &folder.join("context-guard-code.wasm"))?;
    step!("Building the Envoy filter.");
    let envoy = build::guest("context-guard-envoy", "guest", "wasm32-wasip1", &[])?;
    copy_changed(&envoy, &folder.join("context-guard-envoy.wasm"))?;
    step!("Building and composing the wasi:http middleware.");
    compose::all(&component, &folder)?;
    step!("Building the npm package.");
    npm::package(&folder)?;
    manifest::write(&folder)
}

/// Copies a file unless `to` has the same bytes already. A watched file then keeps its modification
/// time.
fn copy_changed(from: &Path, to: &Path) -> Result<()> {
    let bytes = std::fs::read(from).with_context(|| from.display().to_string())?;
    write(to, &bytes)
}

/// Writes a file unless it has these bytes already. A watched file then keeps its modification
/// time.
fn write(to: &Path, bytes: &[u8]) -> Result<()> {
    if std::fs::read(to).ok().as_deref() != Some(bytes) {
        std::fs::write(to, bytes).with_context(|| to.display().to_string())?;
    }
    Ok(())
}
