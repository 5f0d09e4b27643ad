//! Makes everything that is handed out, in target/dist: the component, the filter of Envoy, the wasi:http middleware, the npm package. Called by `cargo xtask dist`.
#![allow(clippy::print_stderr, reason = "a command line tool")]

#[allow(dead_code, reason = "shared with the front door")]
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
    keep(&component, &folder.join("context-guard.wasm"))?;
    eprintln!("Building the filter of Envoy.");
    let envoy = build::crate_for("context-guard-envoy", "guest", "wasm32-wasip1", &[])?;
    keep(&envoy, &folder.join("context-guard-envoy.wasm"))?;
    eprintln!("Building and composing the wasi:http middleware.");
    compose::all(&component, &folder)?;
    eprintln!("Building the npm package.");
    npm::package(&folder)?;
    manifest::write(&folder)
}

/// Copies a file, unless it is there already: what is watched by others keeps its time.
fn keep(from: &Path, to: &Path) -> Result<()> {
    let bytes = std::fs::read(from).with_context(|| from.display().to_string())?;
    write(to, &bytes)
}

fn write(to: &Path, bytes: &[u8]) -> Result<()> {
    if std::fs::read(to).ok().as_deref() != Some(bytes) {
        std::fs::write(to, bytes).with_context(|| to.display().to_string())?;
    }
    Ok(())
}
