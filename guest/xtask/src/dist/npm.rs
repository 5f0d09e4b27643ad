//! Builds the npm package: the core for browsers, with JavaScript bindings, optimized for size.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

use crate::build;

/// The npm package of the program that optimizes wasm for size.
const OPTIMIZER: &str = "binaryen@132.0.0";
/// The wasm features that all browsers of recent years have, and that the optimizer may use.
const FEATURES: [&str; 7] = [
    "bulk-memory",
    "simd",
    "sign-ext",
    "mutable-globals",
    "nontrapping-float-to-int",
    "reference-types",
    "multivalue",
];

/// Builds the folder `npm/context-guard` below `folder`, and packs it as an npm package.
pub(crate) fn package(folder: &Path) -> Result<()> {
    let module = build::guest("context-guard-browser", "small", "wasm32-unknown-unknown", &[])?;
    let package = folder.join("npm/context-guard");
    if package.exists() {
        std::fs::remove_dir_all(&package)?;
    }
    std::fs::create_dir_all(&package)?;
    let source = build::root().join("guest/browser/js");
    for file in std::fs::read_dir(&source)? {
        let file = file?.path();
        std::fs::copy(&file, package.join(file.file_name().context("a file without a name")?))?;
    }
    std::fs::copy(build::root().join("LICENSE"), package.join("LICENSE"))?;
    Bindgen::new()
        .input_path(&module)
        .out_name("context_guard")
        .web(true)?
        .typescript(false)
        .omit_default_module_path(false)
        .remove_name_section(true)
        .remove_producers_section(true)
        .generate(&package)?;
    let bytes = package.join("context_guard_bg.wasm");
    let features = FEATURES.map(|feature| format!("--enable-{feature}"));
    build::run(
        Command::new("node")
            .arg(optimizer()?)
            .args(["-Oz", "--converge", "--strip-debug", "--strip-producers"])
            .args(features)
            .arg(&bytes)
            .arg("-o")
            .arg(&bytes),
    )?;
    build::run(
        Command::new("npm")
            .args(["pack", "--silent", "--pack-destination"])
            .arg(folder)
            .current_dir(&package)
            .stdout(std::process::Stdio::null()),
    )
}

fn optimizer() -> Result<std::path::PathBuf> {
    let folder = build::target().join("tools").join(OPTIMIZER.replace('@', "-"));
    let program = folder.join("node_modules/binaryen/bin/wasm-opt");
    if !program.exists() {
        std::fs::create_dir_all(&folder)?;
        let install = || {
            build::run(
                Command::new("npm")
                    .args(["install", "--no-fund", "--no-audit", "--loglevel=error", "--prefix"])
                    .arg(&folder)
                    .arg(OPTIMIZER),
            )
        };
        install().or_else(|_| install()).context("the npm package needs node and npm")?;
    }
    Ok(program)
}
